import { expect, test } from "vitest";
import {
  getDiff,
  formatToolDetail,
  parseSearchHits,
  prettyPrintJson,
  formatAskSubject,
  getToolTitle,
  resolveTool,
} from "../src/tools/calls";
import { parseJsonObject } from "../src/render/format";
import type { Row } from "../src/wire/protocol";

function formatHeadline(row: Partial<Row>, data: unknown): string {
  const text = typeof data === "string" ? data : JSON.stringify(data);
  const fullRow: Row = { ts: 1, type: "say", say: "tool", text, ...row };
  const tool = resolveTool(fullRow, parseJsonObject(text));
  return [getToolTitle(tool), formatToolDetail(fullRow, parseJsonObject(text))].filter(Boolean).join(": ");
}

test.each([
  [{ tool: "edit", path: "a.py" }, { tool: "appliedDiff" }, "Edit: a.py"],
  [{ tool: "edit", partial: true }, { file_path: "a.py", old_string: "x" }, "Edit: a.py"],
  [{ tool: "apply_patch" }, { tool: "appliedDiff", batchDiffs: [{}, {}] }, "Patch: 2 files"],
  [
    { tool: "insert_content", path: "a.py" },
    { tool: "insertContent", lineNumber: 3 },
    "Insert: a.py · before line 3",
  ],
  [
    { tool: "insert_content", path: "a.py" },
    { tool: "insertContent", lineNumber: 0 },
    "Insert: a.py · at the end",
  ],
  [
    { tool: "codebase_search" },
    { tool: "codebaseSearch", query: "where is it", path: null },
    "Search code: where is it",
  ],
  [
    { tool: "mcp--git--log" },
    { type: "use_mcp_tool", serverName: "git", toolName: "log" },
    "MCP tool: git · log",
  ],
  [{ tool: "mcp--git--log", partial: true }, {}, "MCP tool: git · log"],
  [
    { tool: "access_mcp_resource" },
    { serverName: "git", uri: "git://head" },
    "MCP resource: git · git://head",
  ],
  [
    { tool: "browser_action", ask: "browser_action_launch" },
    "http://a.example/",
    "Browser: launch · http://a.example/",
  ],
  [
    { tool: "browser_action" },
    { tool: "browserAction", action: "click", coordinate: "4,5" },
    "Browser: click · 4,5",
  ],
  [
    { tool: "weather" },
    { tool: "customTool", name: "weather", path: "/t/weather.py" },
    "Custom tool: weather · /t/weather.py",
  ],
  [
    { tool: "run_slash_command" },
    { command: "init", args: "now", source: "project" },
    "Slash command: /init · now · project",
  ],
  [{ tool: "attempt_completion" }, { tool: "finishTask" }, "Hand over the result"],
  [{ tool: "new_task" }, { tool: "newTask", mode: "Ask" }, "Subtask: Ask"],
  [
    { tool: "fetch_instructions" },
    { tool: "fetchInstructions", content: "create_mode" },
    "Fetch instructions: create_mode",
  ],
  // Rows of other programs name the tool in their JSON alone.
  [{}, { tool: "listFilesRecursive", path: "src" }, "List: src"],
  [{}, { tool: "listCodeDefinitionNames", path: "src" }, "Definitions: src"],
  [{}, { tool: "somethingNew" }, "something_new"],
])("%j %j reads %s", (row, data, expected) => {
  expect(formatHeadline(row as Partial<Row>, data)).toBe(expected);
});

test("a change is shown wherever the row has it", () => {
  const row: Row = { ts: 1, type: "say" };
  expect(getDiff({ ...row, diff: "+a" }, {})).toBe("+a");
  expect(getDiff(row, { tool: "insertContent", diff: "+b" })).toBe("+b");
  expect(getDiff({ ...row, diff: "+a" }, { tool: "appliedDiff", batchDiffs: [{ content: "+a" }] })).toBe("");
  expect(getDiff(row, { tool: "generateImage", content: "a cat" })).toBe("");
});

test("arguments are laid out, and nothing stands where there are none", () => {
  expect(prettyPrintJson('{"a":[1]}')).toBe('{\n  "a": [\n    1\n  ]\n}');
  expect(prettyPrintJson("not json")).toBe("not json");
  expect(prettyPrintJson("{}")).toBe("");
  expect(prettyPrintJson(undefined)).toBe("");
});

test("hits that are none are no hits", () => {
  expect(parseSearchHits('{"content": {"query": "q", "results": 3}}')).toEqual({ query: "q", hits: [] });
  expect(parseSearchHits("garbage")).toEqual({ query: "", hits: [] });
  expect(parseSearchHits('{"content": {"results": [null]}}').hits).toEqual([
    { path: "", lines: "?–?", score: 0, code: "" },
  ]);
});

test.each([
  [{ ask: "command" }, "echo a \n rm b\u202e\n", "echo a ⏎ rm b<U+202E>"],
  [{ ask: "tool", tool: "write_to_file", path: "a.py" }, { tool: "newFileCreated" }, "Write a.py"],
  [
    { ask: "tool", tool: "apply_patch" },
    { tool: "appliedDiff", batchDiffs: [{ path: "a.py" }, { path: "b.py" }] },
    "Patch a.py, b.py",
  ],
  [
    { ask: "use_mcp_server", tool: "mcp--git--log" },
    { serverName: "git", toolName: "log", arguments: '{"n":1}' },
    'MCP tool git · log · {"n":1}',
  ],
  [
    { ask: "tool", tool: "new_task" },
    { tool: "newTask", mode: "Ask", content: "Look" },
    "Subtask Ask · Look",
  ],
  [{ ask: "tool", tool: "attempt_completion" }, { tool: "finishTask" }, ""],
  [{ ask: "browser_action_launch" }, "http://a.example/", "Browser launch · http://a.example/"],
  [{ ask: "followup" }, { question: "Which\ncolour?" }, "Which ⏎ colour?"],
  [{ ask: "completion_result" }, "", ""],
])("a question with %j %j is about %s", (row, data, expected) => {
  const text = typeof data === "string" ? data : JSON.stringify(data);
  expect(formatAskSubject({ ts: 1, type: "ask", text, ...row } as Row)).toBe(expected);
});
