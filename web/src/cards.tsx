// What a tool does or wants to do: a headline, the change, and what came of it.

import type { ComponentChildren } from "preact";
import { CodeBlock } from "./code";
import { Diff } from "./diff";
import { Clipped, FoldButton, isUnfolded } from "./folds";
import { parsed, terminalText } from "./format";
import { TodoItems } from "./todos";
import type { Row, Todo } from "./wire";

const OUTPUT_LINES = 24;
const RESULT_LINES = 400;

const TITLES: Record<string, string> = {
  read_file: "Read",
  write_to_file: "Write",
  apply_diff: "Edit",
  list_files: "List",
  search_files: "Search",
  execute_command: "Run",
  read_command_output: "Read output",
  switch_mode: "Switch mode",
  update_todo_list: "Todo list",
  ask_followup_question: "Question",
  attempt_completion: "Result",
  new_task: "Subtask",
};

const STATES: Record<string, string> = {
  pending: "needs your approval",
  approved: "",
  rejected: "rejected",
};

export function ToolCard({ row, name }: { row: Row; name: string }) {
  const facts = parsed(row.text);
  const tool = row.tool ?? String(facts["tool"] ?? "tool");
  if (tool === "execute_command" || row.ask === "command")
    return <CommandCard row={row} facts={facts} name={name} />;
  const change = row.diff || changeOf(facts);
  return (
    <div class={`card ${row.approvalState ?? ""}`}>
      <CardHead row={row} name={name} title={TITLES[tool] ?? tool} detail={detailOf(row, facts)}>
        <Stats facts={facts} />
      </CardHead>
      <Warnings row={row} facts={facts} />
      {change && <Diff name={`${name}/diff`} text={change} />}
      <Batch facts={facts} name={name} />
      {tool === "update_todo_list" && Array.isArray(facts["todos"]) && (
        <TodoItems todos={facts["todos"] as Todo[]} />
      )}
      {row.partial && !change && <Draft facts={facts} path={row.path} />}
      <Result row={row} name={name} />
    </div>
  );
}

function CommandCard(props: { row: Row; facts: Record<string, unknown>; name: string }) {
  const { row, facts, name } = props;
  const command = row.partial ? String(facts["command"] ?? "") : (row.text ?? "");
  return (
    <div class={`card ${row.approvalState ?? ""}`}>
      <CardHead row={row} name={name} title="Run" detail="" />
      <Warnings row={row} facts={facts} />
      <pre class="command" tabIndex={0}>
        {command}
      </pre>
      <Result row={row} name={name} />
    </div>
  );
}

interface HeadProps {
  row: Row;
  name: string;
  title: string;
  detail: string;
  children?: ComponentChildren;
}

function CardHead({ row, name, title, detail, children }: HeadProps) {
  const state = row.partial ? "being written…" : STATES[row.approvalState ?? ""];
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
      {state && <span class={`state ${row.approvalState ?? "partial"}`}>{state}</span>}
      {row.result?.trim() && <FoldButton name={`${name}/result`} label="Result" />}
    </div>
  );
}

function Stats({ facts }: { facts: Record<string, unknown> }) {
  const stats = facts["diffStats"] as { added?: number; removed?: number } | undefined;
  if (stats === undefined) return null;
  return (
    <span class="stats">
      <span class="plus">+{stats.added ?? 0}</span> <span class="minus">−{stats.removed ?? 0}</span>
    </span>
  );
}

function Warnings({ row, facts }: { row: Row; facts: Record<string, unknown> }) {
  const isProtected = row.isProtected || facts["isProtected"];
  return (
    <>
      {isProtected && <p class="warning">⚠ A protected file: it steers joey itself.</p>}
      {Boolean(facts["isOutsideWorkspace"]) && <p class="warning">⚠ Outside of the workspace.</p>}
    </>
  );
}

/** Several files in one call. */
function Batch({ facts, name }: { facts: Record<string, unknown>; name: string }) {
  const files = (facts["batchDiffs"] ?? facts["batchFiles"]) as Record<string, unknown>[] | undefined;
  if (!Array.isArray(files)) return null;
  return (
    <ul class="batch">
      {files.map((file, index) => (
        <li key={index}>
          <span class="path">{String(file["path"] ?? file["key"] ?? "")}</span>{" "}
          <span class="muted">{String(file["lineSnippet"] ?? "")}</span>
          {facts["batchDiffs"] !== undefined && typeof file["content"] === "string" && (
            <Diff name={`${name}/diff/${index}`} text={file["content"]} />
          )}
        </li>
      ))}
    </ul>
  );
}

/** Arguments while the model still writes them. */
function Draft({ facts, path }: { facts: Record<string, unknown>; path: string | undefined }) {
  const draft = facts["content"] ?? facts["diff"] ?? facts["file_text"];
  if (typeof draft !== "string" || !draft) return null;
  return (
    <CodeBlock code={draft.split("\n").slice(-OUTPUT_LINES).join("\n")} language={path?.split(".").at(-1)} />
  );
}

/** What the model was told. */
function Result({ row, name }: { row: Row; name: string }) {
  if (!row.result?.trim() || !isUnfolded(`${name}/result`)) return null;
  return <Plain name={`${name}/lines`} text={row.result} limit={RESULT_LINES} />;
}

export function CommandOutput({ row, name }: { row: Row; name: string }) {
  const text = terminalText(row.text ?? "").replace(/\n$/, "");
  return (
    <div class="card output">
      <div class="card-head">
        <span class="muted">Output</span>
        <span class="grow" />
        {row.partial && <span class="state partial">running…</span>}
      </div>
      {text ? (
        <Plain name={`${name}/output`} text={text} limit={OUTPUT_LINES} tail />
      ) : (
        <p class="muted none">nothing yet</p>
      )}
    </div>
  );
}

function Plain(props: { name: string; text: string; limit: number; tail?: boolean }) {
  const lines = props.text.split("\n").map((line, index) => <div key={index}>{line || " "}</div>);
  return (
    <div class="plain" tabIndex={0} role="region" aria-label="Output">
      <div class="lines">
        <Clipped name={props.name} lines={lines} limit={props.limit} tail={props.tail} />
      </div>
    </div>
  );
}

function changeOf(facts: Record<string, unknown>): string {
  const kinds = ["editedExistingFile", "newFileCreated", "appliedDiff"];
  if (!kinds.includes(String(facts["tool"]))) return "";
  return String(facts["content"] ?? facts["diff"] ?? "");
}

function detailOf(row: Row, facts: Record<string, unknown>): string {
  const path = row.path ?? facts["path"];
  const parts = [
    facts["regex"] && `/${String(facts["regex"])}/`,
    path,
    facts["filePattern"],
    facts["mode"] ?? facts["mode_slug"],
    facts["reason"],
  ];
  return parts.filter((part) => typeof part === "string" && part).join(" · ");
}
