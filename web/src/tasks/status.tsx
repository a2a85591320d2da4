// The status badge of a task, and its token, cost and context meters.

import type { Conversation } from "../state/conversation";
import { compact, dollars } from "../render/format";
import type { TaskStatus } from "../wire/protocol";

const WORDS: Record<TaskStatus, [mark: string, word: string]> = {
  created: ["○", "New"],
  running: ["●", "Working"],
  waiting: ["◆", "Needs you"],
  delegated: ["◇", "Subtask runs"],
  completed: ["✓", "Done"],
  aborted: ["■", "Stopped"],
  failed: ["✕", "Failed"],
};

export function StatusBadge({ status, ask }: { status: TaskStatus; ask?: string }) {
  const [mark, word] = WORDS[status] ?? WORDS.created;
  return (
    <span class={`status ${status}`}>
      <span aria-hidden="true">{mark}</span>{" "}
      {status === "waiting" && ask === "completion_result" ? "Result ready" : word}
    </span>
  );
}

/** Tokens, cost, and how full the model's window is. */
export function Meters({ conversation }: { conversation: Conversation }) {
  const { usage, contextWindow } = conversation;
  const held = usage.contextTokens ?? 0;
  const cached = usage.totalCacheReads ?? 0;
  return (
    <div class="meters">
      {contextWindow ? (
        <label class="meter" title={`${held} of ${contextWindow} tokens of context`}>
          <span>Context</span>
          <meter
            min={0}
            max={contextWindow}
            low={contextWindow * 0.7}
            high={contextWindow * 0.9}
            optimum={0}
            value={held}
          />
          <span>
            {compact(held)} / {compact(contextWindow)}
          </span>
        </label>
      ) : (
        held > 0 && <span>Context {compact(held)}</span>
      )}
      <span title="Tokens sent and received">
        ↑ {compact(usage.totalTokensIn)} ↓ {compact(usage.totalTokensOut)}
      </span>
      {cached > 0 && <span title="Tokens read from the cache">cached {compact(cached)}</span>}
      <span title="Cost">{dollars(usage.totalCost)}</span>
    </div>
  );
}
