// Drafts of unsent messages, kept across reloads of the page.

const PREFIX = "joey.draft.";

export function draftOf(name: string): string {
  return sessionStorage.getItem(PREFIX + name) ?? "";
}

export function keepDraft(name: string, text: string): void {
  if (text) sessionStorage.setItem(PREFIX + name, text);
  else sessionStorage.removeItem(PREFIX + name);
}
