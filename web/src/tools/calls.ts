// The title, detail, diff and search hits of a tool call, parsed from its row. The row's text is JSON:
// the tool's own report or, while the model still streams them, the arguments. Rows that other programs
// wrote may not name one of joey's tools, but their JSON says what they do.

import { parsed, plainly } from "../render/format";
import type { Row } from "../wire/protocol";

export type Facts = Record<string, unknown>;

const TITLES: Record<string, string> = {
  read_file: "Read",
  list_files: "List",
  list_code_definition_names: "Definitions",
  search_files: "Search",
  codebase_search: "Search code",
  write_to_file: "Write",
  apply_diff: "Edit",
  apply_patch: "Patch",
  edit: "Edit",
  search_replace: "Edit",
  search_and_replace: "Edit",
  edit_file: "Edit",
  insert_content: "Insert",
  generate_image: "Make a picture",
  execute_command: "Run",
  read_command_output: "Read output",
  browser_action: "Browser",
  use_mcp_tool: "MCP tool",
  access_mcp_resource: "MCP resource",
  skill: "Skill",
  run_slash_command: "Slash command",
  fetch_instructions: "Fetch instructions",
  switch_mode: "Switch mode",
  update_todo_list: "Todo list",
  ask_followup_question: "Question",
  attempt_completion: "Result",
  new_task: "Subtask",
  finish_task: "Hand over the result",
  custom_tool: "Custom tool",
};

/** Names in the JSON that are not just a tool's name spelled otherwise. */
const NAMES: Record<string, string> = {
  editedExistingFile: "apply_diff",
  appliedDiff: "apply_diff",
  newFileCreated: "write_to_file",
  listFilesTopLevel: "list_files",
  listFilesRecursive: "list_files",
};

const CHANGES = new Set([
  "editedExistingFile",
  "newFileCreated",
  "appliedDiff",
  "insertContent",
  "searchAndReplace",
]);

/** The tool that a row is about: what its JSON says where that says more. */
export function toolOf(row: Row, facts: Facts): string {
  const said = String(facts["tool"] ?? "");
  if (said === "finishTask" || said === "customTool") return snake(said);
  if (row.tool?.startsWith("mcp--")) return "use_mcp_tool";
  if (row.tool) return row.tool;
  if (row.ask === "command") return "execute_command";
  if (row.ask === "browser_action_launch") return "browser_action";
  return NAMES[said] ?? (snake(said) || String(facts["type"] ?? "tool"));
}

export function titleOf(tool: string): string {
  return TITLES[tool] ?? tool;
}

export function detailOf(row: Row, facts: Facts): string {
  const parts = details(toolOf(row, facts), row, facts).filter((part) => typeof part === "string" && part);
  return plainly(parts.join(" · "));
}

/** What a question is about, on one line; empty where its kind says it all. */
export function subjectOf(row: Row): string {
  const facts = parsed(row.text);
  switch (row.ask) {
    case "command":
      return onOneLine(row.text ?? "");
    case "followup":
      return onOneLine(String(facts["question"] ?? row.text ?? ""));
    case "tool":
    case "use_mcp_server":
    case "browser_action_launch":
      return onOneLine(callOf(row, facts));
    default:
      return "";
  }
}

function callOf(row: Row, facts: Facts): string {
  const tool = toolOf(row, facts);
  if (tool === "finish_task") return "";
  const told = tool === "new_task" ? facts["content"] : facts["arguments"];
  const parts = [namesOf(facts) ?? detailOf(row, facts), typeof told === "string" ? told : ""];
  return `${titleOf(tool)} ${parts.filter(Boolean).join(" · ")}`;
}

/** Several files in one call, by name. */
function namesOf(facts: Facts): string | undefined {
  const files = facts["batchDiffs"] ?? facts["batchFiles"];
  if (!Array.isArray(files)) return undefined;
  return files.map((file: Facts) => String(file["path"] ?? file["key"] ?? "")).join(", ");
}

function onOneLine(text: string): string {
  return plainly(text.trim()).replace(/\s*\n\s*/g, " ⏎ ");
}

function details(tool: string, row: Row, facts: Facts): unknown[] {
  switch (tool) {
    case "use_mcp_tool":
      return [facts["serverName"] ?? facts["server_name"], facts["toolName"] ?? facts["tool_name"]].concat(
        row.partial ? row.tool?.split("--").slice(1) : [],
      );
    case "access_mcp_resource":
      return [facts["serverName"] ?? facts["server_name"], facts["uri"]];
    case "browser_action":
      return browsing(row, facts);
    case "codebase_search":
      return [facts["query"], facts["path"]];
    case "skill":
      return [facts["skill"], facts["args"], facts["source"]];
    case "run_slash_command":
      return [facts["command"] && `/${String(facts["command"])}`, facts["args"], facts["source"]];
    case "fetch_instructions":
      return [facts["content"] ?? facts["task"]];
    case "custom_tool":
      return [facts["name"], facts["path"]];
    case "insert_content":
      return [pathOf(row, facts), placeOf(facts["lineNumber"] ?? facts["line"])];
    case "generate_image":
      return [pathOf(row, facts), facts["inputImage"] && `from ${String(facts["inputImage"])}`];
    default:
      return [
        facts["regex"] && `/${String(facts["regex"])}/`,
        filesOf(facts) ?? pathOf(row, facts),
        facts["filePattern"],
        facts["mode"] ?? facts["mode_slug"],
        facts["reason"],
      ];
  }
}

function filesOf(facts: Facts): string | undefined {
  const files = facts["batchDiffs"] ?? facts["batchFiles"];
  return Array.isArray(files) ? `${files.length} files` : undefined;
}

function pathOf(row: Row, facts: Facts): unknown {
  return row.path ?? facts["path"] ?? facts["file_path"];
}

function placeOf(line: unknown): string {
  if (line === undefined || line === "") return "";
  return Number(line) === 0 ? "at the end" : `before line ${String(line)}`;
}

/** A launch is named by its address; a row that is not JSON is the address. */
function browsing(row: Row, facts: Facts): unknown[] {
  if (facts["action"] === undefined) return ["launch", row.text];
  return [facts["action"], facts["url"], facts["coordinate"], facts["text"], facts["path"]];
}

/** The change that a row shows as a whole, as a diff; changes of several files stand one by one. */
export function changeOf(row: Row, facts: Facts): string {
  if (Array.isArray(facts["batchDiffs"])) return "";
  if (row.diff) return row.diff;
  if (!CHANGES.has(String(facts["tool"]))) return "";
  return String(facts["content"] ?? facts["diff"] ?? "");
}

/** Arguments as people read them: JSON in lines, or what it is if it is none. */
export function pretty(text: unknown): string {
  if (typeof text !== "string") return text === undefined ? "" : JSON.stringify(text, null, 2);
  try {
    const value: unknown = JSON.parse(text);
    return isEmpty(value) ? "" : JSON.stringify(value, null, 2);
  } catch {
    return text;
  }
}

function isEmpty(value: unknown): boolean {
  return typeof value === "object" && value !== null && Object.keys(value).length === 0;
}

export interface Hit {
  path: string;
  lines: string;
  score: number;
  code: string;
}

/** What `codebase_search_result` holds. */
export function hitsOf(text: string | undefined): { query: string; hits: Hit[] } {
  const content = (parsed(text)["content"] ?? {}) as { query?: unknown; results?: unknown };
  const results: unknown[] = Array.isArray(content.results) ? content.results : [];
  return { query: String(content.query ?? ""), hits: results.map(hitOf) };
}

function hitOf(result: unknown): Hit {
  const { filePath, startLine, endLine, score, codeChunk } = (result ?? {}) as Facts;
  return {
    path: String(filePath ?? ""),
    lines: `${String(startLine ?? "?")}–${String(endLine ?? "?")}`,
    score: Number(score) || 0,
    code: String(codeChunk ?? ""),
  };
}

function snake(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
