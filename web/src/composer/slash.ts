// The matching and completion of slash commands at the caret.

import type { SlashCommand } from "../wire/protocol";

const COMMAND_PREFIX_RE = /(?:^|\s)\/([A-Za-z0-9_.-]*)$/;

/** The beginning of a command right before the caret, without its slash; null where there is none. */
export function findCommandPrefix(text: string, caret: number): string | null {
  const prefix = COMMAND_PREFIX_RE.exec(text.slice(0, caret))?.[1];
  return prefix === undefined || /^[A-Za-z0-9_./-]/.test(text.slice(caret)) ? null : prefix;
}

/** Commands that begin with the prefix, then those that contain it. */
export function matchCommands(commands: readonly SlashCommand[], prefix: string): SlashCommand[] {
  const query = prefix.toLowerCase();
  const matches = commands
    .map((command) => ({ command, index: command.name.toLowerCase().indexOf(query) }))
    .filter(({ index }) => index >= 0);
  return matches
    .toSorted(
      (a, b) => Math.sign(a.index) - Math.sign(b.index) || a.command.name.localeCompare(b.command.name),
    )
    .map(({ command }) => command);
}

/** The text with the command in place of its beginning, and where the caret belongs then. */
export function completeCommand(text: string, caret: number, name: string): { text: string; caret: number } {
  const before = text.slice(0, caret).replace(/\/[A-Za-z0-9_.-]*$/, `/${name} `);
  return { text: before + text.slice(caret).replace(/^ /, ""), caret: before.length };
}
