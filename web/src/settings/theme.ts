// The color theme: light, dark, or the system's until the user chooses.

import { effect, signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";

const STORAGE_KEY = "joey.theme";
const THEME_CYCLE: Theme[] = ["system", "light", "dark"];

export const theme = signal<Theme>(loadTheme());

effect(() => {
  if (theme.value === "system") {
    delete document.documentElement.dataset["theme"];
    localStorage.removeItem(STORAGE_KEY);
  } else {
    document.documentElement.dataset["theme"] = theme.value;
    localStorage.setItem(STORAGE_KEY, theme.value);
  }
});

export function cycleTheme(): void {
  theme.value = THEME_CYCLE[(THEME_CYCLE.indexOf(theme.value) + 1) % THEME_CYCLE.length] as Theme;
}

function loadTheme(): Theme {
  const stored = localStorage.getItem(STORAGE_KEY);
  return stored === "light" || stored === "dark" ? stored : "system";
}
