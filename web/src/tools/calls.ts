// The title, detail, diff and search hits of a tool call, parsed from its row. The row's text is JSON:
// the tool's own report or, while the model still streams them, the arguments. Rows that other programs
// wrote may not name one of joey's tools, but their JSON says what they do.

import { parseJsonObject, escapeHiddenChars } from "../render/format";
import type { Row } from "../wire/protocol";

export type ToolData = Record<string, unknown>;

const TOOL_TITLES: Record<string, string> = {
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

/** Names in the JSON that are not just a tool's name in camel case. */
const TOOL_NAME_ALIASES: Record<string, string> = {
  editedExistingFile: "apply_diff",
  appliedDiff: "apply_diff",
  newFileCreated: "write_to_file",
  listFilesTopLevel: "list_files",
  listFilesRecursive: "list_files",
};

const EDIT_TOOLS = new Set([
  "editedExistingFile",
  "newFileCreated",
  "appliedDiff",
  "insertContent",
  "searchAndReplace",
]);

/** The tool that a row is about: what its JSON says where that says more. */
export function resolveTool(row: Row, data: ToolData): string {
  const nameInData = String(data["tool"] ?? "");
  if (nameInData === "finishTask" || nameInData === "customTool") return toSnakeCase(nameInData);
  if (row.tool?.startsWith("mcp--")) return "use_mcp_tool";
  if (row.tool) return row.tool;
  if (row.ask === "command") return "execute_command";
  if (row.ask === "browser_action_launch") return "browser_action";
  return TOOL_NAME_ALIASES[nameInData] ?? (toSnakeCase(nameInData) || String(data["type"] ?? "tool"));
}

export function getToolTitle(tool: string): string {
  return TOOL_TITLES[tool] ?? tool;
}

export function formatToolDetail(row: Row, data: ToolData): string {
  const parts = collectDetails(resolveTool(row, data), row, data).filter(
    (part) => typeof part === "string" && part,
  );
  return escapeHiddenChars(parts.join(" · "));
}

/** What a question is about, on one line; empty where its kind says it all. */
export function formatAskSubject(row: Row): string {
  const data = parseJsonObject(row.text);
  switch (row.ask) {
    case "command":
      return toOneLine(row.text ?? "");
    case "followup":
      return toOneLine(String(data["question"] ?? row.text ?? ""));
    case "tool":
    case "use_mcp_server":
    case "browser_action_launch":
      return toOneLine(formatToolCall(row, data));
    default:
      return "";
  }
}

function formatToolCall(row: Row, data: ToolData): string {
  const tool = resolveTool(row, data);
  if (tool === "finish_task") return "";
  const argument = tool === "new_task" ? data["content"] : data["arguments"];
  const parts = [
    formatBatchPaths(data) ?? formatToolDetail(row, data),
    typeof argument === "string" ? argument : "",
  ];
  return `${getToolTitle(tool)} ${parts.filter(Boolean).join(" · ")}`;
}

/** Several files in one call, by name. */
function formatBatchPaths(data: ToolData): string | undefined {
  const files = data["batchDiffs"] ?? data["batchFiles"];
  if (!Array.isArray(files)) return undefined;
  return files.map((file: ToolData) => String(file["path"] ?? file["key"] ?? "")).join(", ");
}

function toOneLine(text: string): string {
  return escapeHiddenChars(text.trim()).replace(/\s*\n\s*/g, " ⏎ ");
}

function collectDetails(tool: string, row: Row, data: ToolData): unknown[] {
  switch (tool) {
    case "use_mcp_tool":
      return [data["serverName"] ?? data["server_name"], data["toolName"] ?? data["tool_name"]].concat(
        row.partial ? row.tool?.split("--").slice(1) : [],
      );
    case "access_mcp_resource":
      return [data["serverName"] ?? data["server_name"], data["uri"]];
    case "browser_action":
      return collectBrowserDetails(row, data);
    case "codebase_search":
      return [data["query"], data["path"]];
    case "skill":
      return [data["skill"], data["args"], data["source"]];
    case "run_slash_command":
      return [data["command"] && `/${String(data["command"])}`, data["args"], data["source"]];
    case "fetch_instructions":
      return [data["content"] ?? data["task"]];
    case "custom_tool":
      return [data["name"], data["path"]];
    case "insert_content":
      return [getPath(row, data), formatInsertPosition(data["lineNumber"] ?? data["line"])];
    case "generate_image":
      return [getPath(row, data), data["inputImage"] && `from ${String(data["inputImage"])}`];
    default:
      return [
        data["regex"] && `/${String(data["regex"])}/`,
        formatBatchSize(data) ?? getPath(row, data),
        data["filePattern"],
        data["mode"] ?? data["mode_slug"],
        data["reason"],
      ];
  }
}

function formatBatchSize(data: ToolData): string | undefined {
  const files = data["batchDiffs"] ?? data["batchFiles"];
  return Array.isArray(files) ? `${files.length} files` : undefined;
}

function getPath(row: Row, data: ToolData): unknown {
  return row.path ?? data["path"] ?? data["file_path"];
}

function formatInsertPosition(line: unknown): string {
  if (line === undefined || line === "") return "";
  return Number(line) === 0 ? "at the end" : `before line ${String(line)}`;
}

/** A launch is named by its address; a row that is not JSON is the address. */
function collectBrowserDetails(row: Row, data: ToolData): unknown[] {
  if (data["action"] === undefined) return ["launch", row.text];
  return [data["action"], data["url"], data["coordinate"], data["text"], data["path"]];
}

/** The diff that a row shows as a whole; empty for a batch, whose files are shown one by one. */
export function getDiff(row: Row, data: ToolData): string {
  if (Array.isArray(data["batchDiffs"])) return "";
  if (row.diff) return row.diff;
  if (!EDIT_TOOLS.has(String(data["tool"]))) return "";
  return String(data["content"] ?? data["diff"] ?? "");
}

/** Indented JSON, or the text itself if it is not JSON. */
export function prettyPrintJson(text: unknown): string {
  if (typeof text !== "string") return text === undefined ? "" : JSON.stringify(text, null, 2);
  try {
    const value: unknown = JSON.parse(text);
    return isEmptyObject(value) ? "" : JSON.stringify(value, null, 2);
  } catch {
    return text;
  }
}

function isEmptyObject(value: unknown): boolean {
  return typeof value === "object" && value !== null && Object.keys(value).length === 0;
}

export interface SearchHit {
  path: string;
  lines: string;
  score: number;
  code: string;
}

/** What `codebase_search_result` holds. */
export function parseSearchHits(text: string | undefined): { query: string; hits: SearchHit[] } {
  const content = (parseJsonObject(text)["content"] ?? {}) as { query?: unknown; results?: unknown };
  const results: unknown[] = Array.isArray(content.results) ? content.results : [];
  return { query: String(content.query ?? ""), hits: results.map(parseSearchHit) };
}

function parseSearchHit(result: unknown): SearchHit {
  const { filePath, startLine, endLine, score, codeChunk } = (result ?? {}) as ToolData;
  return {
    path: String(filePath ?? ""),
    lines: `${String(startLine ?? "?")}–${String(endLine ?? "?")}`,
    score: Number(score) || 0,
    code: String(codeChunk ?? ""),
  };
}

function toSnakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
