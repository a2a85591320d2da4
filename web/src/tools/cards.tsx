// The card of a tool call: title, warnings, diff, arguments and result; and the output of a command.

import type { ComponentChildren } from "preact";
import { CodeBlock } from "../render/code";
import { Diff } from "../render/diff";
import { FoldButton, isUnfolded } from "../render/folds";
import { parsed, plainly, terminalText } from "../render/format";
import { changeOf, detailOf, type Facts, pretty, titleOf, toolOf } from "./calls";
import { Markdown } from "../render/markdown";
import { Plain } from "../render/plain";
import { TodoItems } from "./todos";
import type { Row, Todo } from "../wire/protocol";

const OUTPUT_LINES = 24;
const RESULT_LINES = 400;
/** Arguments that are long texts. */
const DRAFTS = ["diff", "patch", "new_string", "file_text", "content"];

const STATES: Record<string, string> = {
  pending: "needs your approval",
  approved: "",
  rejected: "rejected",
};

export function ToolCard({ row, name }: { row: Row; name: string }) {
  const facts = parsed(row.text);
  const tool = toolOf(row, facts);
  if (tool === "execute_command") return <CommandCard row={row} facts={facts} name={name} />;
  const change = changeOf(row, facts);
  return (
    <div class={`card ${row.approvalState ?? ""}`}>
      <CardHead row={row} name={name} title={titleOf(tool)} detail={detailOf(row, facts)}>
        <Stats facts={facts} />
      </CardHead>
      <Warnings row={row} facts={facts} />
      {change && <Diff name={`${name}/diff`} text={plainly(change)} />}
      <Batch facts={facts} name={name} />
      <Body tool={tool} row={row} facts={facts} />
      {row.partial && !change && <Draft facts={facts} path={row.path} />}
      <Result row={row} name={name} />
    </div>
  );
}

/** What a tool shows besides its headline and a change. */
function Body({ tool, row, facts }: { tool: string; row: Row; facts: Facts }) {
  const todos = Array.isArray(facts["todos"]) ? (facts["todos"] as Todo[]) : [];
  switch (tool) {
    case "update_todo_list":
      return <TodoItems todos={todos} />;
    case "new_task":
      return (
        <div class="card-body">
          {facts["worktree"] === true && <p class="muted">In a git worktree of its own.</p>}
          <Markdown text={String(facts["content"] ?? facts["message"] ?? "")} />
          {todos.length > 0 && <TodoItems todos={todos} />}
        </div>
      );
    case "use_mcp_tool":
    case "custom_tool":
      return <Arguments facts={facts} partial={row.partial} />;
    case "skill":
    case "run_slash_command":
      return facts["description"] ? <p class="card-body muted">{String(facts["description"])}</p> : null;
    case "generate_image":
      return <p class="card-body words">{String(facts["content"] ?? facts["prompt"] ?? "")}</p>;
    case "finish_task":
      return <p class="card-body muted">The task that began this one goes on with it.</p>;
    default:
      return null;
  }
}

function Arguments({ facts, partial }: { facts: Facts; partial: boolean | undefined }) {
  const given = facts["arguments"] ?? (partial ? facts : undefined);
  const text = pretty(given);
  return text ? <CodeBlock code={text} language="json" /> : null;
}

function CommandCard(props: { row: Row; facts: Facts; name: string }) {
  const { row, facts, name } = props;
  const command = row.partial ? String(facts["command"] ?? "") : (row.text ?? "");
  return (
    <div class={`card ${row.approvalState ?? ""}`}>
      <CardHead row={row} name={name} title="Run" detail="" />
      <Warnings row={row} facts={facts} />
      <Held row={row} />
      <pre class="command" tabIndex={0}>
        {plainly(command)}
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
  const state = row.partial ? "being written…" : stateOf(row);
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

function stateOf(row: Row): string | undefined {
  if (row.approvalState === "rejected" && !row.isAnswered) return "not answered";
  return STATES[row.approvalState ?? ""];
}

function Stats({ facts }: { facts: Facts }) {
  const stats = facts["diffStats"] as { added?: number; removed?: number } | undefined;
  if (stats === undefined) return null;
  return (
    <span class="stats">
      <span class="plus">+{stats.added ?? 0}</span> <span class="minus">−{stats.removed ?? 0}</span>
    </span>
  );
}

function Warnings({ row, facts }: { row: Row; facts: Facts }) {
  const isProtected = row.isProtected || facts["isProtected"];
  return (
    <>
      {isProtected && <p class="warning">⚠ A protected file: it steers joey itself.</p>}
      {Boolean(facts["isOutsideWorkspace"]) && <p class="warning">⚠ Outside of the workspace.</p>}
    </>
  );
}

/** What holds a command: said loudly when nothing does. */
function Held({ row }: { row: Row }) {
  if (row.sandbox === "none") return <p class="warning">⚠ Runs unconfined: no sandbox works here.</p>;
  if (row.sandbox === "off") return <p class="warning">⚠ Runs unconfined: the sandbox is switched off.</p>;
  if (row.sandbox && row.type === "ask") return <p class="card-body muted">Runs confined ({row.sandbox}).</p>;
  return null;
}

/** Several files in one call. */
function Batch({ facts, name }: { facts: Facts; name: string }) {
  const files = (facts["batchDiffs"] ?? facts["batchFiles"]) as Facts[] | undefined;
  if (!Array.isArray(files)) return null;
  return (
    <ul class="batch">
      {files.map((file, index) => (
        <li key={index}>
          <span class="path">{String(file["path"] ?? file["key"] ?? "")}</span>{" "}
          <span class="muted">{String(file["lineSnippet"] ?? "")}</span>
          <Stats facts={file} />
          {facts["batchDiffs"] !== undefined && typeof file["content"] === "string" && (
            <Diff name={`${name}/diff/${index}`} text={plainly(file["content"])} />
          )}
        </li>
      ))}
    </ul>
  );
}

/** Arguments while the model still writes them. */
function Draft({ facts, path }: { facts: Facts; path: string | undefined }) {
  const draft = DRAFTS.map((key) => facts[key]).find((value) => value !== undefined);
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
