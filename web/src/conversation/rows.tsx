// One row of the conversation, rendered by its kind.

import { CommandOutput, ToolCard } from "../tools/cards";
import { Fold } from "../render/folds";
import { compact, dollars, parsed } from "../render/format";
import { Pictures } from "../render/images";
import { isImage, Markdown } from "../render/markdown";
import { memo } from "../render/memo";
import { BrowserView, CodeHits, MadePicture, ServerResponse, SubtaskResult } from "../tools/results";
import { askToRewind } from "./rewind";
import type { Row } from "../wire/protocol";

const FAILURES: Record<string, string> = {
  MODEL_NO_TOOLS_USED: "The model used no tool and was told to.",
  MODEL_NO_ASSISTANT_MESSAGES: "The model answered nothing.",
};
const QUESTIONS: Record<string, string> = {
  api_req_failed: "The request to the model failed.",
  mistake_limit_reached: "joey made several mistakes in a row.",
  auto_approval_max_req_reached: "The limit of what may go without asking is reached.",
};

const ACTS = new Set(["tool", "command", "use_mcp_server", "browser_action_launch"]);

/** Whether a row has anything to show. */
export function isVisible(row: Row, isLast = true): boolean {
  if (row.type === "ask")
    return (
      !["completion_result", "resume_task", "resume_completed_task"].includes(row.ask ?? "") ||
      Boolean(row.text)
    );
  if (row.say === "api_req_retried" || row.say === "checkpoint_saved") return false;
  if (row.say === "mcp_server_request_started") return isLast;
  if (row.say === "text" || row.say === "reasoning") return Boolean(row.text?.trim() || row.images?.length);
  return true;
}

export const RowView = memo(function RowView({
  row,
  name,
  first,
}: {
  row: Row;
  name: string;
  first: boolean;
}) {
  if (row.say === "tool" || ACTS.has(row.ask ?? "")) return <ToolCard row={row} name={name} />;
  return row.type === "ask" ? (
    <AskRow row={row} />
  ) : (
    <SayRow row={row} name={name} first={first} />
  );
});

function SayRow({ row, name, first }: { row: Row; name: string; first: boolean }) {
  switch (row.say) {
    case "text":
      return first ? <Person row={row} first /> : <Markdown text={row.text ?? ""} />;
    case "user_feedback":
    case "user_feedback_diff":
      return <Person row={row} />;
    case "reasoning":
      return <Thinking row={row} name={name} />;
    case "api_req_started":
      return <Request row={row} />;
    case "api_req_retry_delayed":
      return (
        <p class="notice warn">
          ⟳ {(row.text ?? "").replace(/<retry_timer>(\d+)<\/retry_timer>/, "again in $1 s")}
        </p>
      );
    case "completion_result":
      return (
        <div class="completion">
          <div class="card-head">
            <strong>✓ Result</strong>
          </div>
          <Markdown text={row.text ?? ""} />
        </div>
      );
    case "command_output":
      return <CommandOutput row={row} name={name} />;
    case "codebase_search_result":
      return <CodeHits row={row} name={name} />;
    case "browser_action_result":
      return <BrowserView row={row} name={name} />;
    case "mcp_server_request_started":
      return <p class="request working">the server works on it…</p>;
    case "mcp_server_response":
      return <ServerResponse row={row} name={name} />;
    case "subtask_result":
      return <SubtaskResult row={row} />;
    case "image":
      return <MadePicture row={row} />;
    case "error":
    case "diff_error":
    case "rooignore_error":
      return <p class="notice bad">✕ {FAILURES[row.text ?? ""] ?? row.text}</p>;
    default:
      return <Other row={row} />;
  }
}

function AskRow({ row }: { row: Row }) {
  switch (row.ask) {
    case "followup": {
      const facts = parsed(row.text);
      return (
        <div class={`question ${row.isAnswered ? "answered" : ""}`}>
          <div class="card-head">
            <strong>? Question</strong>
          </div>
          <Markdown text={String(facts["question"] ?? row.text ?? "")} />
        </div>
      );
    }
    default:
      return (
        <div class="notice warn">
          <strong>{QUESTIONS[row.ask ?? ""] ?? "joey asks"}</strong>
          {row.text && <Markdown text={row.text} />}
        </div>
      );
  }
}

function Person({ row, first = false }: { row: Row; first?: boolean }) {
  return (
    <div class="person">
      <span class="visually-hidden">You said: </span>
      <button
        class="icon go-back"
        aria-label="Go back to this message"
        title="Edit, go back or begin another task here"
        onClick={() => askToRewind(row, first)}
      >
        ↶
      </button>
      <div class="words">{row.text}</div>
      <Pictures images={(row.images ?? []).filter(isImage)} />
    </div>
  );
}

function Thinking({ row, name }: { row: Row; name: string }) {
  const text = row.text ?? "";
  const last = text.trim().split("\n").at(-1) ?? "";
  const title = (
    <>
      <span>{row.partial ? "Thinking…" : "Thought"}</span>
      {row.partial && <span class="ellipsis muted">{last.slice(-120)}</span>}
    </>
  );
  return (
    <Fold name={`${name}/thinking`} title={title} class="thinking">
      {() => <Markdown text={text} />}
    </Fold>
  );
}

function Request({ row }: { row: Row }) {
  const facts = parsed(row.text) as Record<string, number | string | undefined>;
  if (facts["streamingFailedMessage"]) return <p class="notice bad">✕ {facts["streamingFailedMessage"]}</p>;
  if (facts["cancelReason"]) return <p class="request">request stopped</p>;
  if (facts["tokensIn"] === undefined && facts["cost"] === undefined)
    return <p class="request working">the model works on it…</p>;
  const cached = Number(facts["cacheReads"] ?? 0);
  return (
    <p class="request">
      {compact(Number(facts["tokensIn"] ?? 0))} in
      {cached > 0 && ` · ${compact(cached)} cached`} · {compact(Number(facts["tokensOut"] ?? 0))} out
      {Number(facts["cost"] ?? 0) > 0 && ` · ${dollars(Number(facts["cost"]))}`}
    </p>
  );
}

function Other({ row }: { row: Row }) {
  return (
    <div class="notice">
      <Markdown text={row.text ?? row.say ?? ""} />
      <Pictures images={(row.images ?? []).filter(isImage)} />
    </div>
  );
}
