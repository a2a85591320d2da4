// The card of a tool call: title, warnings, diff, arguments and result; and the output of a command.

import type { ComponentChildren } from "preact";
import { CodeBlock } from "../render/code";
import { Diff } from "../render/diff";
import { FoldButton, isFoldOpen } from "../render/folds";
import { parseJsonObject, escapeHiddenChars, renderTerminalText } from "../render/format";
import {
  getDiff,
  formatToolDetail,
  type ToolData,
  prettyPrintJson,
  getToolTitle,
  resolveTool,
} from "./calls";
import { Markdown } from "../render/markdown";
import { PlainText } from "../render/plain";
import { TodoItems } from "./todos";
import type { Row, Todo } from "../wire/protocol";

const MAX_OUTPUT_LINES = 24;
const MAX_RESULT_LINES = 400;
/** Arguments that are long texts. */
const LONG_ARGUMENTS = ["diff", "patch", "new_string", "file_text", "content"];

const STATE_LABELS: Record<string, string> = {
  pending: "needs your approval",
  approved: "",
  rejected: "rejected",
};

export function ToolCard({ row, rowId }: { row: Row; rowId: string }) {
  const data = parseJsonObject(row.text);
  const tool = resolveTool(row, data);
  if (tool === "execute_command") return <CommandCard row={row} data={data} rowId={rowId} />;
  const diff = getDiff(row, data);
  return (
    <div class={`card ${row.approvalState ?? ""}`}>
      <CardHead row={row} rowId={rowId} title={getToolTitle(tool)} detail={formatToolDetail(row, data)}>
        <DiffStats data={data} />
      </CardHead>
      <FileWarnings row={row} data={data} />
      {diff && <Diff foldId={`${rowId}/diff`} text={escapeHiddenChars(diff)} />}
      <BatchFiles data={data} rowId={rowId} />
      <ToolCardBody tool={tool} row={row} data={data} />
      {row.partial && !diff && <StreamingArgument data={data} path={row.path} />}
      <ToolResult row={row} rowId={rowId} />
    </div>
  );
}

/** What a tool shows besides its title and a diff. */
function ToolCardBody({ tool, row, data }: { tool: string; row: Row; data: ToolData }) {
  const todos = Array.isArray(data["todos"]) ? (data["todos"] as Todo[]) : [];
  switch (tool) {
    case "update_todo_list":
      return <TodoItems todos={todos} />;
    case "new_task":
      return (
        <div class="card-body">
          {data["worktree"] === true && <p class="muted">In a git worktree of its own.</p>}
          <Markdown text={String(data["content"] ?? data["message"] ?? "")} />
          {todos.length > 0 && <TodoItems todos={todos} />}
        </div>
      );
    case "use_mcp_tool":
    case "custom_tool":
      return <ToolArguments data={data} isPartial={row.partial} />;
    case "skill":
    case "run_slash_command":
      return data["description"] ? <p class="card-body muted">{String(data["description"])}</p> : null;
    case "generate_image":
      return <p class="card-body pre-wrap">{String(data["content"] ?? data["prompt"] ?? "")}</p>;
    case "finish_task":
      return <p class="card-body muted">The task that began this one goes on with it.</p>;
    default:
      return null;
  }
}

function ToolArguments({ data, isPartial }: { data: ToolData; isPartial: boolean | undefined }) {
  const args = data["arguments"] ?? (isPartial ? data : undefined);
  const text = prettyPrintJson(args);
  return text ? <CodeBlock code={text} language="json" /> : null;
}

function CommandCard(props: { row: Row; data: ToolData; rowId: string }) {
  const { row, data, rowId } = props;
  const command = row.partial ? String(data["command"] ?? "") : (row.text ?? "");
  return (
    <div class={`card ${row.approvalState ?? ""}`}>
      <CardHead row={row} rowId={rowId} title="Run" detail="" />
      <FileWarnings row={row} data={data} />
      <SandboxNote row={row} />
      <pre class="command" tabIndex={0}>
        {escapeHiddenChars(command)}
      </pre>
      <ToolResult row={row} rowId={rowId} />
    </div>
  );
}

interface CardHeadProps {
  row: Row;
  rowId: string;
  title: string;
  detail: string;
  children?: ComponentChildren;
}

function CardHead({ row, rowId, title, detail, children }: CardHeadProps) {
  const stateLabel = row.partial ? "being written…" : getStateLabel(row);
  return (
    <div class="card-head">
      <strong>{title}</strong>
      {detail && (
        <span class="path" title={detail}>
          {detail}
        </span>
      )}
      {children}
      <span class="grow" />
      {stateLabel && <span class={`state ${row.approvalState ?? "partial"}`}>{stateLabel}</span>}
      {row.result?.trim() && <FoldButton foldId={`${rowId}/result`} label="Result" />}
    </div>
  );
}

function getStateLabel(row: Row): string | undefined {
  if (row.approvalState === "rejected" && !row.isAnswered) return "not answered";
  return STATE_LABELS[row.approvalState ?? ""];
}

function DiffStats({ data }: { data: ToolData }) {
  const stats = data["diffStats"] as { added?: number; removed?: number } | undefined;
  if (stats === undefined) return null;
  return (
    <span class="stats">
      <span class="plus">+{stats.added ?? 0}</span> <span class="minus">−{stats.removed ?? 0}</span>
    </span>
  );
}

function FileWarnings({ row, data }: { row: Row; data: ToolData }) {
  const isProtected = row.isProtected || data["isProtected"];
  return (
    <>
      {isProtected && <p class="warning">⚠ A protected file: it steers joey itself.</p>}
      {Boolean(data["isOutsideWorkspace"]) && <p class="warning">⚠ Outside of the workspace.</p>}
    </>
  );
}

/** The sandbox of a command; a warning when there is none. */
function SandboxNote({ row }: { row: Row }) {
  if (row.sandbox === "none") return <p class="warning">⚠ Runs unconfined: no sandbox works here.</p>;
  if (row.sandbox === "off") return <p class="warning">⚠ Runs unconfined: the sandbox is switched off.</p>;
  if (row.sandbox && row.type === "ask") return <p class="card-body muted">Runs confined ({row.sandbox}).</p>;
  return null;
}

/** Several files in one call. */
function BatchFiles({ data, rowId }: { data: ToolData; rowId: string }) {
  const files = (data["batchDiffs"] ?? data["batchFiles"]) as ToolData[] | undefined;
  if (!Array.isArray(files)) return null;
  return (
    <ul class="batch">
      {files.map((file, index) => (
        <li key={index}>
          <span class="path">{String(file["path"] ?? file["key"] ?? "")}</span>{" "}
          <span class="muted">{String(file["lineSnippet"] ?? "")}</span>
          <DiffStats data={file} />
          {data["batchDiffs"] !== undefined && typeof file["content"] === "string" && (
            <Diff foldId={`${rowId}/diff/${index}`} text={escapeHiddenChars(file["content"])} />
          )}
        </li>
      ))}
    </ul>
  );
}

/** Arguments while the model still writes them. */
function StreamingArgument({ data, path }: { data: ToolData; path: string | undefined }) {
  const argument = LONG_ARGUMENTS.map((key) => data[key]).find((value) => value !== undefined);
  if (typeof argument !== "string" || !argument) return null;
  return (
    <CodeBlock
      code={argument.split("\n").slice(-MAX_OUTPUT_LINES).join("\n")}
      language={path?.split(".").at(-1)}
    />
  );
}

/** The result that the model received. */
function ToolResult({ row, rowId }: { row: Row; rowId: string }) {
  if (!row.result?.trim() || !isFoldOpen(`${rowId}/result`)) return null;
  return <PlainText foldId={`${rowId}/lines`} text={row.result} limit={MAX_RESULT_LINES} />;
}

export function CommandOutput({ row, rowId }: { row: Row; rowId: string }) {
  const text = renderTerminalText(row.text ?? "").replace(/\n$/, "");
  return (
    <div class="card output">
      <div class="card-head">
        <span class="muted">Output</span>
        <span class="grow" />
        {row.partial && <span class="state partial">running…</span>}
      </div>
      {text ? (
        <PlainText foldId={`${rowId}/output`} text={text} limit={MAX_OUTPUT_LINES} showTail />
      ) : (
        <p class="muted none">nothing yet</p>
      )}
    </div>
  );
}
