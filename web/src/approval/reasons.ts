// The reasons for an approval as text, worded as in the terminal (`joey.presentation.questions`).

export const SWITCHES: Record<string, string> = {
  autoApprovalEnabled: "nothing is allowed without you",
  alwaysAllowReadOnly: "reading is not allowed without you",
  alwaysAllowReadOnlyOutsideWorkspace: "it lies outside the workspace",
  alwaysAllowWrite: "edits are not allowed without you",
  alwaysAllowWriteOutsideWorkspace: "it lies outside the workspace",
  alwaysAllowWriteProtected: "the file is protected",
  alwaysAllowExecute: "commands are not allowed without you",
  alwaysAllowModeSwitch: "another mode is not allowed without you",
  alwaysAllowMcp: "tools of MCP servers are not allowed without you",
  alwaysAllowSubtasks: "subtasks are not allowed without you",
  alwaysAllowBrowser: "the browser is not allowed without you",
};
const OFF = /^.*: (\w+) is off$/s;

/** The reason without what the person already sees: the command that is asked about. */
export function whyAsked(reason: string, command = ""): string {
  // The command itself may hold what separates the reasons.
  const hidden = command ? reason.split(`\`${command}\``).join("it") : reason;
  return [...new Set(hidden.split("; ").map(why))].join("; ");
}

function why(part: string): string {
  const name = OFF.exec(part)?.[1] ?? "";
  const meaning = SWITCHES[name];
  return meaning ? `${meaning} (${name})` : part.replace(/^running it: /, "");
}
