// The access token of this tab. It arrives in the URL's fragment, which is never sent to a server.

const STORAGE_KEY = "joey.token";

/** The token of this tab, if it has one. Takes it out of the address bar. */
export function loadToken(): string | null {
  const fragment = new URLSearchParams(location.hash.slice(1));
  const token = fragment.get("token");
  if (token) {
    storeToken(token);
    const task = fragment.get("task");
    history.replaceState(null, "", task ? `#task=${encodeURIComponent(task)}` : location.pathname);
  }
  return sessionStorage.getItem(STORAGE_KEY);
}

export function storeToken(token: string): void {
  sessionStorage.setItem(STORAGE_KEY, token);
}

export function clearToken(): void {
  sessionStorage.removeItem(STORAGE_KEY);
}
