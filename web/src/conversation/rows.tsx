// One row of the conversation, rendered by its kind.

import { CommandOutput, ToolCard } from "../tools/cards";
import { Fold } from "../render/folds";
import { formatCount, formatDollars, parseJsonObject } from "../render/format";
import { ImageThumbnails } from "../render/images";
import { isImageDataUri, Markdown } from "../render/markdown";
import { memo } from "../render/memo";
import {
  BrowserResult,
  CodeSearchResult,
  GeneratedImage,
  McpResponse,
  SubtaskResult,
} from "../tools/results";
import { openRewindDialog } from "./rewind";
import type { Row } from "../wire/protocol";

const ERROR_TEXTS: Record<string, string> = {
  MODEL_NO_TOOLS_USED: "The model used no tool and was asked to use one.",
  MODEL_NO_ASSISTANT_MESSAGES: "The reply of the model was empty.",
};
const ASK_TITLES: Record<string, string> = {
  api_req_failed: "The request to the model failed.",
  mistake_limit_reached: "joey made several mistakes in a row.",
  auto_approval_max_req_reached: "The limit for automatic approval is reached.",
};

const TOOL_ASK_KINDS = new Set(["tool", "command", "use_mcp_server", "browser_action_launch"]);

/** Whether a row has anything to show. */
export function isRowVisible(row: Row, isLast = true): boolean {
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
  rowId,
  isFirst,
}: {
  row: Row;
  rowId: string;
  isFirst: boolean;
}) {
  if (row.say === "tool" || TOOL_ASK_KINDS.has(row.ask ?? "")) return <ToolCard row={row} rowId={rowId} />;
  return row.type === "ask" ? <AskRow row={row} /> : <SayRow row={row} rowId={rowId} isFirst={isFirst} />;
});

function SayRow({ row, rowId, isFirst }: { row: Row; rowId: string; isFirst: boolean }) {
  switch (row.say) {
    case "text":
      return isFirst ? <UserMessage row={row} isFirst /> : <Markdown text={row.text ?? ""} />;
    case "user_feedback":
    case "user_feedback_diff":
      return <UserMessage row={row} />;
    case "reasoning":
      return <ReasoningRow row={row} rowId={rowId} />;
    case "api_req_started":
      return <RequestRow row={row} />;
    case "api_req_retry_delayed":
      return (
        <p class="notice warn">
          ⟳ {(row.text ?? "").replace(/<retry_timer>(\d+)<\/retry_timer>/, "again in $1 s")}
        </p>
      );
    case "completion_result":
      // With the name of the tool, it is a result that was not presented.
      if (row.partial || row.tool) return <Markdown text={row.text ?? ""} />;
      return (
        <div class="completion">
          <div class="card-head">
            <strong>✓ Result</strong>
          </div>
          <Markdown text={row.text ?? ""} />
        </div>
      );
    case "command_output":
      return <CommandOutput row={row} rowId={rowId} />;
    case "codebase_search_result":
      return <CodeSearchResult row={row} rowId={rowId} />;
    case "browser_action_result":
      return <BrowserResult row={row} rowId={rowId} />;
    case "mcp_server_request_started":
      return <p class="request working">the server works on it…</p>;
    case "mcp_server_response":
      return <McpResponse row={row} rowId={rowId} />;
    case "subtask_result":
      return <SubtaskResult row={row} />;
    case "image":
      return <GeneratedImage row={row} />;
    case "error":
    case "diff_error":
    case "rooignore_error":
      return <p class="notice bad">✕ {ERROR_TEXTS[row.text ?? ""] ?? row.text}</p>;
    default:
      return <GenericRow row={row} />;
  }
}

function AskRow({ row }: { row: Row }) {
  switch (row.ask) {
    case "followup": {
      const data = parseJsonObject(row.text);
      return (
        <div class={`question ${row.isAnswered ? "answered" : ""}`}>
          <div class="card-head">
            <strong>? Question</strong>
          </div>
          <Markdown text={String(data["question"] ?? row.text ?? "")} />
        </div>
      );
    }
    default:
      return (
        <div class="notice warn">
          <strong>{ASK_TITLES[row.ask ?? ""] ?? "joey asks"}</strong>
          {row.text && <Markdown text={row.text} />}
        </div>
      );
  }
}

function UserMessage({ row, isFirst = false }: { row: Row; isFirst?: boolean }) {
  return (
    <div class="person">
      <span class="visually-hidden">You said: </span>
      <button
        class="icon go-back"
        aria-label="Go back to this message"
        title="Edit, go back or start another task here"
        onClick={() => openRewindDialog(row, isFirst)}
      >
        ↶
      </button>
      <div class="pre-wrap">{row.text}</div>
      <ImageThumbnails images={(row.images ?? []).filter(isImageDataUri)} />
    </div>
  );
}

function ReasoningRow({ row, rowId }: { row: Row; rowId: string }) {
  const text = row.text ?? "";
  const lastLine = text.trim().split("\n").at(-1) ?? "";
  const title = (
    <>
      <span>{row.partial ? "Thinking…" : "Thought"}</span>
      {row.partial && <span class="ellipsis muted">{lastLine.slice(-120)}</span>}
    </>
  );
  return (
    <Fold foldId={`${rowId}/thinking`} title={title} class="thinking">
      {() => <Markdown text={text} />}
    </Fold>
  );
}

function RequestRow({ row }: { row: Row }) {
  const data = parseJsonObject(row.text) as Record<string, number | string | undefined>;
  if (data["streamingFailedMessage"]) return <p class="notice bad">✕ {data["streamingFailedMessage"]}</p>;
  if (data["cancelReason"]) return <p class="request">request stopped</p>;
  if (data["tokensIn"] === undefined && data["cost"] === undefined)
    return <p class="request working">the model works on it…</p>;
  const cachedTokens = Number(data["cacheReads"] ?? 0);
  return (
    <p class="request">
      {formatCount(Number(data["tokensIn"] ?? 0))} in
      {cachedTokens > 0 && ` · ${formatCount(cachedTokens)} cached`} ·{" "}
      {formatCount(Number(data["tokensOut"] ?? 0))} out
      {Number(data["cost"] ?? 0) > 0 && ` · ${formatDollars(Number(data["cost"]))}`}
    </p>
  );
}

function GenericRow({ row }: { row: Row }) {
  return (
    <div class="notice">
      <Markdown text={row.text ?? row.say ?? ""} />
      <ImageThumbnails images={(row.images ?? []).filter(isImageDataUri)} />
    </div>
  );
}
