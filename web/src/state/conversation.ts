// The state of one task: its rows, status, queue and todos, folded from event frames. Folding is
// idempotent: after a reconnect, the page asks again from the last sequence number that it has seen.

import type { Ask, EventFrame, QueuedMessage, Row, TaskInfo, TaskStatus, Todo, Usage } from "../wire/protocol";

/** Rows that a reply is made of. */
const STREAMED = new Set(["text", "reasoning", "tool", "completion_result"]);

export class Conversation {
  rows: Row[] = [];
  seq = 0;
  loaded = false;
  status: TaskStatus = "created";
  live = false;
  ask: Ask | null = null;
  usage: Usage = {};
  contextWindow: number | null = null;
  todos: Todo[] = [];
  queue: QueuedMessage[] = [];
  mode = "";
  model = "";
  title = "";
  workspace = "";
  /** Why it cannot go on by itself. */
  failure = "";
  /** The task that this one is a subtask of. */
  parentId = "";
  /** The subtasks that it sleeps for. */
  waitsFor: string[] = [];
  gone = false;
  /** It went back to an earlier row, and has not gone on since. */
  rewound = false;

  constructor(readonly id: string) {}

  load(rows: Row[], seq: number, info: TaskInfo, todos: Todo[]): void {
    this.rows = [...rows].sort((one, other) => one.ts - other.ts);
    this.seq = seq;
    this.todos = todos;
    this.describe(info);
    this.loaded = true;
  }

  describe(info: TaskInfo): void {
    this.status = info.status;
    this.live = info.live;
    this.ask = info.ask ?? null;
    this.queue = info.queue ?? [];
    this.failure = info.failure?.message ?? "";
    this.waitsFor = info.waitsFor ?? [];
    this.outline(info);
    this.usage = {
      totalTokensIn: info.tokensIn,
      totalTokensOut: info.tokensOut,
      totalCacheWrites: info.cacheWrites,
      totalCacheReads: info.cacheReads,
      totalCost: info.totalCost,
      contextTokens: info.contextTokens ?? undefined,
    };
  }

  /** What does not change from one moment to the next. */
  outline(info: TaskInfo): void {
    this.mode = info.mode;
    this.model = info.model ?? "";
    this.title = info.title;
    this.workspace = info.workspace;
    this.parentId = info.parentId ?? "";
    this.contextWindow = info.contextWindow ?? null;
  }

  /** What only streamed is gone with its connection; if it lives on, it comes again, whole. */
  dropPartial(): void {
    this.rows = this.rows.filter((row) => !row.partial);
  }

  hear(frame: EventFrame): void {
    if (frame.seq !== undefined && frame.seq > this.seq) this.seq = frame.seq;
    const { payload } = frame;
    switch (frame.eventName) {
      case "message":
        this.put(payload["message"] as Row);
        break;
      case "taskCreated":
        this.workspace = text(payload["workspace"]) || this.workspace;
        this.mode = text(payload["mode"]) || this.mode;
        this.title = text(payload["title"]) || this.title;
        this.parentId = text(payload["parentId"]);
        break;
      case "taskStarted":
        this.failure = "";
        this.rewound = false;
        this.settle("running");
        break;
      case "taskActive":
      case "taskUnpaused":
        this.settle("running");
        break;
      case "taskPaused":
        this.settle("delegated");
        this.waitsFor = payload["childTaskIds"] as string[];
        break;
      case "taskInteractive":
      case "taskResumable":
      case "taskIdle":
        this.open(payload);
        break;
      case "taskAskResponded":
        if (this.ask?.ts === payload["askTs"]) this.settle("running");
        break;
      case "taskFinished":
        this.settle("completed");
        break;
      case "taskAborted":
        this.settle("aborted");
        this.dropUnfinished();
        break;
      case "taskRewound":
        this.goBack(payload["removed"] as number[]);
        break;
      case "taskFailed":
        this.settle("failed");
        this.failure = text(payload["message"]);
        this.dropUnfinished();
        break;
      case "taskTokenUsageUpdated":
      case "taskCompleted":
        this.usage = { ...this.usage, ...(payload["usage"] as Usage | undefined) };
        break;
      case "taskModeSwitched":
        this.mode = text(payload["modeSlug"]) || this.mode;
        break;
      case "queuedMessagesUpdated":
        this.queue = payload["queue"] as QueuedMessage[];
        break;
      case "todosUpdated":
        this.todos = payload["todos"] as Todo[];
        break;
      case "taskDeleted":
        this.gone = true;
        break;
    }
  }

  private goBack(removed: number[]): void {
    const gone = new Set(removed);
    this.rows = this.rows.filter((row) => !gone.has(row.ts) && !row.partial);
    this.failure = "";
    this.settle("aborted");
    this.rewound = true;
  }

  private open(payload: Record<string, unknown>): void {
    this.status = "waiting";
    this.live = true;
    this.waitsFor = [];
    this.ask = { ts: Number(payload["askTs"]), ask: text(payload["ask"]) };
  }

  private settle(status: TaskStatus): void {
    this.status = status;
    this.live = true;
    this.waitsFor = [];
    this.ask = null;
  }

  put(row: Row): void {
    if (row.say === "api_req_started") this.dropUnfinished(row.ts);
    const place = this.place(row.ts);
    this.rows.splice(place, this.rows[place]?.ts === row.ts ? 1 : 0, row);
  }

  /** A reply that was cut off takes its unfinished rows with it. */
  private dropUnfinished(before = Infinity): void {
    const stale = ({ partial, say, ts }: Row) => partial && say && STREAMED.has(say) && ts < before;
    if (this.rows.some(stale)) this.rows = this.rows.filter((row) => !stale(row));
  }

  find(ts: number): Row | undefined {
    const row = this.rows[this.place(ts)];
    return row?.ts === ts ? row : undefined;
  }

  private place(ts: number): number {
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

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}
