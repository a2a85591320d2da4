// The matching and completion of slash commands at the caret.

import type { SlashCommand } from "../wire/protocol";

const WORD = /(?:^|\s)\/([A-Za-z0-9_.-]*)$/;

/** The beginning of a command right before the caret, without its slash; null where there is none. */
export function wordAt(text: string, caret: number): string | null {
  const word = WORD.exec(text.slice(0, caret))?.[1];
  return word === undefined || /^[A-Za-z0-9_./-]/.test(text.slice(caret)) ? null : word;
}

/** Those that begin so, then those that have it inside. */
export function fitting(commands: readonly SlashCommand[], word: string): SlashCommand[] {
  const wanted = word.toLowerCase();
  const ranked = commands
    .map((command) => ({ command, place: command.name.toLowerCase().indexOf(wanted) }))
    .filter(({ place }) => place >= 0);
  return ranked
    .toSorted(
      (one, other) =>
        Math.sign(one.place) - Math.sign(other.place) || one.command.name.localeCompare(other.command.name),
    )
    .map(({ command }) => command);
}

/** The text with the command in place of its beginning, and where the caret belongs then. */
export function completed(text: string, caret: number, name: string): { text: string; caret: number } {
  const before = text.slice(0, caret).replace(/\/[A-Za-z0-9_.-]*$/, `/${name} `);
  return { text: before + text.slice(caret).replace(/^ /, ""), caret: before.length };
}
