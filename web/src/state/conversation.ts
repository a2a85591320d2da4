// The state of one task: its rows, status, queue and todos, folded from event frames. Folding is
// idempotent: after a reconnect, the page asks again for everything after the last event that it has seen.

import type {
  Ask,
  AskView,
  EventFrame,
  QueuedMessage,
  Row,
  TaskInfo,
  TaskStatus,
  Todo,
  Usage,
} from "../wire/protocol";

/** Rows that a reply is made of. */
const REPLY_ROW_KINDS = new Set(["text", "reasoning", "tool", "completion_result"]);

export function parseAsk({ askTs, ask, view }: EventFrame["payload"]): Ask {
  return { ts: Number(askTs), ask: String(ask), view: view as AskView };
}

export class Conversation {
  rows: Row[] = [];
  /** The last event that was applied; without a part, all events of the record. */
  lastEvent: { record: number; part?: number } = { record: 0 };
  isLoaded = false;
  status: TaskStatus = "created";
  isLive = false;
  ask: Ask | null = null;
  usage: Usage = {};
  contextWindow: number | null = null;
  todos: Todo[] = [];
  queue: QueuedMessage[] = [];
  mode = "";
  model = "";
  title = "";
  workspace = "";
  /** Why the task failed; empty if it did not. */
  failureMessage = "";
  /** The task that this one is a subtask of. */
  parentId = "";
  awaitedSubtaskIds: string[] = [];
  isMissing = false;
  /** It was rewound, and has not continued since. */
  isRewound = false;

  constructor(readonly id: string) {}

  load(rows: Row[], seq: number, info: TaskInfo, todos: Todo[]): void {
    this.rows = [...rows].sort((a, b) => a.ts - b.ts);
    this.lastEvent = { record: seq };
    this.todos = todos;
    this.applyTaskInfo(info);
    this.isLoaded = true;
  }

  applyTaskInfo(info: TaskInfo): void {
    this.status = info.status;
    this.isLive = info.live;
    this.ask = info.ask ?? null;
    this.queue = info.queue ?? [];
    this.failureMessage = info.failure?.message ?? "";
    this.awaitedSubtaskIds = info.waitsFor ?? [];
    this.applyTaskMetadata(info);
    this.usage = {
      totalTokensIn: info.tokensIn,
      totalTokensOut: info.tokensOut,
      totalCacheWrites: info.cacheWrites,
      totalCacheReads: info.cacheReads,
      totalCost: info.totalCost,
      contextTokens: info.contextTokens ?? undefined,
    };
  }

  /** What seldom changes. */
  applyTaskMetadata(info: TaskInfo): void {
    this.mode = info.mode;
    this.model = info.model ?? "";
    this.title = info.title;
    this.workspace = info.workspace;
    this.parentId = info.parentId ?? "";
    this.contextWindow = info.contextWindow ?? null;
  }

  /** Rows that were streaming when the connection broke; the server sends those that still matter again. */
  discardPartialRows(): void {
    this.rows = this.rows.filter((row) => !row.partial);
  }

  applyEvent(frame: EventFrame): void {
    const { record, part } = frame;
    if (record !== undefined && part !== undefined) {
      const last = this.lastEvent;
      const isLater = record === last.record ? part > (last.part ?? Infinity) : record > last.record;
      if (isLater) this.lastEvent = { record, part };
    }
    const { payload } = frame;
    switch (frame.eventName) {
      case "message":
        this.upsertRow(payload["message"] as Row);
        break;
      case "taskCreated":
        this.workspace = asString(payload["workspace"]) || this.workspace;
        this.mode = asString(payload["mode"]) || this.mode;
        this.title = asString(payload["title"]) || this.title;
        this.parentId = asString(payload["parentId"]);
        break;
      case "taskStarted":
        this.failureMessage = "";
        this.isRewound = false;
        this.setStatus("running");
        break;
      case "taskActive":
      case "taskUnpaused":
        this.setStatus("running");
        break;
      case "taskPaused":
        this.setStatus("delegated");
        this.awaitedSubtaskIds = payload["childTaskIds"] as string[];
        break;
      case "taskInteractive":
      case "taskResumable":
      case "taskIdle":
        this.openAsk(payload);
        break;
      case "taskAskResponded":
        if (this.ask?.ts === payload["askTs"]) this.setStatus("running");
        break;
      case "taskFinished":
        this.setStatus("completed");
        break;
      case "taskAborted":
        this.setStatus("aborted");
        this.discardUnfinishedRows();
        break;
      case "taskRewound":
        this.applyRewind(payload["removed"] as number[]);
        break;
      case "taskFailed":
        this.setStatus("failed");
        this.failureMessage = asString(payload["message"]);
        this.discardUnfinishedRows();
        break;
      case "taskTokenUsageUpdated":
      case "taskCompleted":
        this.usage = { ...this.usage, ...(payload["usage"] as Usage | undefined) };
        break;
      case "taskModeSwitched":
        this.mode = asString(payload["modeSlug"]) || this.mode;
        break;
      case "queuedMessagesUpdated":
        this.queue = payload["queue"] as QueuedMessage[];
        break;
      case "todosUpdated":
        this.todos = payload["todos"] as Todo[];
        break;
      case "taskDeleted":
        this.isMissing = true;
        break;
    }
  }

  private applyRewind(removed: number[]): void {
    const removedTs = new Set(removed);
    this.rows = this.rows.filter((row) => !removedTs.has(row.ts) && !row.partial);
    this.failureMessage = "";
    this.setStatus("aborted");
    this.isRewound = true;
  }

  private openAsk(payload: Record<string, unknown>): void {
    this.status = "waiting";
    this.isLive = true;
    this.awaitedSubtaskIds = [];
    this.ask = parseAsk(payload);
  }

  private setStatus(status: TaskStatus): void {
    this.status = status;
    this.isLive = true;
    this.awaitedSubtaskIds = [];
    this.ask = null;
  }

  upsertRow(row: Row): void {
    if (row.say === "api_req_started") this.discardUnfinishedRows(row.ts);
    const index = this.findInsertionIndex(row.ts);
    this.rows.splice(index, this.rows[index]?.ts === row.ts ? 1 : 0, row);
  }

  /** Remove the unfinished rows of a reply that was cut off. */
  private discardUnfinishedRows(before = Infinity): void {
    const isStale = ({ partial, say, ts }: Row) => partial && say && REPLY_ROW_KINDS.has(say) && ts < before;
    if (this.rows.some(isStale)) this.rows = this.rows.filter((row) => !isStale(row));
  }

  findRow(ts: number): Row | undefined {
    const row = this.rows[this.findInsertionIndex(ts)];
    return row?.ts === ts ? row : undefined;
  }

  private findInsertionIndex(ts: number): number {
    let low = 0;
    let high = this.rows.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.rows[middle] as Row).ts < ts) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

function asString(value: unknown): string {
  return typeof value === "string" ? value : "";
}
