// The card of a tool call: title, warnings, diff, arguments and result; and the output of a command.

import type { ComponentChildren } from "preact";
import { CodeBlock } from "../render/code";
import { Diff } from "../render/diff";
import { FoldButton, isFoldOpen } from "../render/folds";
import { parseJsonObject, escapeHiddenChars, prettyPrintJson, renderTerminalText } from "../render/format";
import { Markdown } from "../render/markdown";
import { PlainText } from "../render/plain";
import { TodoItems } from "./todos";
import type { CalledFile, Row, Todo, ToolCallSummary } from "../wire/protocol";

const MAX_OUTPUT_LINES = 24;
const MAX_RESULT_LINES = 400;
/** Arguments that are long texts. */
const LONG_ARGUMENTS = ["diff", "patch", "new_string", "file_text", "content"];

const STATE_LABELS: Record<string, string> = {
  pending: "needs your approval",
  approved: "",
  rejected: "rejected",
};

/** Rows of a server that sends no summaries. */
const UNKNOWN_CALL: ToolCallSummary = { tool: "tool", title: "Tool" };

export function ToolCard({ row, rowId }: { row: Row; rowId: string }) {
  const summary = row.summary ?? UNKNOWN_CALL;
  const isCommand = summary.kind === "execute";
  const diff = row.diff ?? summary.diff;
  const files = summary.files ?? [];
  return (
    <div class={`card ${row.approvalState ?? ""}`}>
      <CardHead row={row} rowId={rowId} summary={summary}>
        <DiffStats files={files} />
      </CardHead>
      {summary.warnings?.map((warning) => (
        <p class="warning" key={warning}>
          ⚠ {warning}
        </p>
      ))}
      {isCommand && <Command row={row} summary={summary} />}
      {diff && <Diff foldId={`${rowId}/diff`} text={escapeHiddenChars(diff)} />}
      {files.length > 1 && <BatchFiles files={files} />}
      <ToolCardBody row={row} summary={summary} />
      {row.partial && !diff && <StreamingArgument data={parseJsonObject(row.text)} path={row.path} />}
      <ToolResult row={row} rowId={rowId} />
    </div>
  );
}

/** What a tool shows besides its title and a diff. */
function ToolCardBody({ row, summary }: { row: Row; summary: ToolCallSummary }) {
  const lists = ["update_todo_list", "new_task"].includes(summary.tool);
  const todos = lists ? parseJsonObject(row.text)["todos"] : undefined;
  return (
    <>
      {summary.message && (
        <div class="card-body">
          <Markdown text={summary.message} />
        </div>
      )}
      {summary.arguments && <CodeBlock code={prettyPrintJson(summary.arguments)} language="json" />}
      {Array.isArray(todos) && todos.length > 0 && <TodoItems todos={todos as Todo[]} />}
    </>
  );
}

function Command({ row, summary }: { row: Row; summary: ToolCallSummary }) {
  const isConfined = row.type === "ask" && ["full", "landlock", "seatbelt"].includes(row.sandbox ?? "");
  return (
    <>
      {isConfined && <p class="card-body muted">sandboxed ({row.sandbox})</p>}
      <pre class="command" tabIndex={0}>
        {escapeHiddenChars(row.partial ? (summary.subject ?? "") : getCommand(row))}
      </pre>
      {row.path && <p class="card-body muted">in {escapeHiddenChars(row.path)}</p>}
    </>
  );
}

/** The command of a row, whose text is JSON if nobody was asked about it. */
export function getCommand({ type, text }: Row): string {
  return type === "ask" ? (text ?? "") : String(parseJsonObject(text)["command"] ?? text ?? "");
}

interface CardHeadProps {
  row: Row;
  rowId: string;
  summary: ToolCallSummary;
  children?: ComponentChildren;
}

function CardHead({ row, rowId, summary, children }: CardHeadProps) {
  const stateLabel = row.partial ? "being written…" : getStateLabel(row);
  const subject = summary.kind === "execute" ? "" : escapeHiddenChars(summary.subject ?? "");
  return (
    <div class="card-head">
      <strong>{escapeHiddenChars(summary.title)}</strong>
      {subject && (
        <span class="path" title={subject}>
          {subject}
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

function DiffStats({ files }: { files: CalledFile[] }) {
  const added = files.reduce((sum, file) => sum + (file.added ?? 0), 0);
  const removed = files.reduce((sum, file) => sum + (file.removed ?? 0), 0);
  if (added + removed === 0) return null;
  return (
    <span class="stats">
      <span class="plus">+{added}</span> <span class="minus">−{removed}</span>
    </span>
  );
}

/** Several files in one call. */
function BatchFiles({ files }: { files: CalledFile[] }) {
  return (
    <ul class="batch">
      {files.map((file, index) => (
        <li key={index}>
          <span class="path">{escapeHiddenChars(file.path)}</span> <span class="muted">{file.lines}</span>
          <DiffStats files={[file]} />
        </li>
      ))}
    </ul>
  );
}

/** Arguments while the model still writes them. */
function StreamingArgument({ data, path }: { data: Record<string, unknown>; path: string | undefined }) {
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
