// The status badge of a task, and its token, cost and context meters.

import type { Conversation } from "../state/conversation";
import { formatCount, formatDollars } from "../render/format";
import type { TaskStatus } from "../wire/protocol";

const STATUS_BADGES: Record<TaskStatus, [symbol: string, label: string]> = {
  created: ["○", "New"],
  running: ["●", "Working"],
  waiting: ["◆", "Needs you"],
  delegated: ["◇", "Subtask runs"],
  completed: ["✓", "Done"],
  aborted: ["■", "Stopped"],
  failed: ["✕", "Failed"],
};

export function StatusBadge({ status, ask }: { status: TaskStatus; ask?: string }) {
  const [symbol, label] = STATUS_BADGES[status] ?? STATUS_BADGES.created;
  return (
    <span class={`status ${status}`}>
      <span aria-hidden="true">{symbol}</span>{" "}
      {status === "waiting" && ask === "completion_result" ? "Result ready" : label}
    </span>
  );
}

/** Tokens, cost, and how full the model's window is. */
export function UsageMeters({ conversation }: { conversation: Conversation }) {
  const { usage, contextWindow } = conversation;
  const contextTokens = usage.contextTokens ?? 0;
  const cachedTokens = usage.totalCacheReads ?? 0;
  return (
    <div class="meters">
      {contextWindow ? (
        <label class="meter" title={`${contextTokens} of ${contextWindow} tokens of context`}>
          <span>Context</span>
          <meter
            min={0}
            max={contextWindow}
            low={contextWindow * 0.7}
            high={contextWindow * 0.9}
            optimum={0}
            value={contextTokens}
          />
          <span>
            {formatCount(contextTokens)} / {formatCount(contextWindow)}
          </span>
        </label>
      ) : (
        contextTokens > 0 && <span>Context {formatCount(contextTokens)}</span>
      )}
      <span title="Tokens sent and received">
        ↑ {formatCount(usage.totalTokensIn)} ↓ {formatCount(usage.totalTokensOut)}
      </span>
      {cachedTokens > 0 && <span title="Tokens read from the cache">cached {formatCount(cachedTokens)}</span>}
      <span title="Cost">{formatDollars(usage.totalCost)}</span>
    </div>
  );
}
