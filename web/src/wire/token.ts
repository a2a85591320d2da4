// The access token of this tab. It arrives in the URL's fragment, which is never sent to a server.

const KEY = "joey.token";

/** The token of this tab, if it has one. Takes it out of the address bar. */
export function takeToken(): string | null {
  const fragment = new URLSearchParams(location.hash.slice(1));
  const given = fragment.get("token");
  if (given) {
    keepToken(given);
    const task = fragment.get("task");
    history.replaceState(null, "", task ? `#task=${encodeURIComponent(task)}` : location.pathname);
  }
  return sessionStorage.getItem(KEY);
}

export function keepToken(token: string): void {
  sessionStorage.setItem(KEY, token);
}

export function forgetToken(): void {
  sessionStorage.removeItem(KEY);
}
