// The access token of this browser. A link brings a code that is exchanged for it and works once, so that
// the browser's history holds no lasting secret; links with the token itself work too. What follows the #
// in an address is never sent to a server.

const STORAGE_KEY = "joey.token";

/** The code or token in the address. */
export function readCredential(): string | null {
  const fragment = new URLSearchParams(location.hash.slice(1));
  return fragment.get("code") || fragment.get("token");
}

/** Take it out of the address bar. Until the server has answered it stays there, for a reload meanwhile. */
export function removeCredential(): void {
  if (readCredential() === null) return;
  const task = new URLSearchParams(location.hash.slice(1)).get("task");
  history.replaceState(null, "", task ? `#task=${encodeURIComponent(task)}` : location.pathname);
}

/** Only pages of this address and port can read it; it is there for all tabs, until the log-out. */
export function loadToken(): string | null {
  return localStorage.getItem(STORAGE_KEY);
}

export function storeToken(token: string): void {
  localStorage.setItem(STORAGE_KEY, token);
}

export function clearToken(): void {
  localStorage.removeItem(STORAGE_KEY);
}

/** Forget the token, here and in the other tabs. */
export function logOut(): void {
  clearToken();
  location.reload();
}

export function followLogOut(): void {
  window.addEventListener("storage", ({ key, newValue }) => {
    if (key === STORAGE_KEY && newValue === null) location.reload();
  });
}
