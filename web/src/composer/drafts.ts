// Drafts of unsent messages, kept across reloads of the page.

const STORAGE_KEY_PREFIX = "joey.draft.";

export function loadDraft(key: string): string {
  return sessionStorage.getItem(STORAGE_KEY_PREFIX + key) ?? "";
}

export function storeDraft(key: string, text: string): void {
  if (text) sessionStorage.setItem(STORAGE_KEY_PREFIX + key, text);
  else sessionStorage.removeItem(STORAGE_KEY_PREFIX + key);
}
