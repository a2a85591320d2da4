// The reasons for an approval as text, worded as in the terminal (`joey.presentation.questions`).

export const SETTING_REASONS: Record<string, string> = {
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
const SETTING_OFF_RE = /^.*: (\w+) is off$/s;

/** The reason without what the user already sees: the command that needs approval. */
export function formatReason(reason: string, command = ""): string {
  // The command itself may hold what separates the reasons.
  const shortened = command ? reason.split(`\`${command}\``).join("it") : reason;
  return [...new Set(shortened.split("; ").map(formatReasonPart))].join("; ");
}

function formatReasonPart(part: string): string {
  const name = SETTING_OFF_RE.exec(part)?.[1] ?? "";
  const meaning = SETTING_REASONS[name];
  return meaning ? `${meaning} (${name})` : part.replace(/^running it: /, "");
}
