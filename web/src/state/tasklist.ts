// The list of all tasks, as signals kept up to date by events.

import { computed, signal } from "@preact/signals";
import { parseAsk } from "./conversation";
import { groupByWorkspace } from "./tasktree";
import type { EventFrame, Row, TaskInfo, TaskStatus, Usage } from "../wire/protocol";

const STATUS_BY_EVENT: Record<string, TaskStatus> = {
  taskStarted: "running",
  taskActive: "running",
  taskUnpaused: "running",
  taskAskResponded: "running",
  taskPaused: "delegated",
  taskInteractive: "waiting",
  taskResumable: "waiting",
  taskIdle: "waiting",
  taskFinished: "completed",
  taskAborted: "aborted",
  taskFailed: "failed",
};

export class TaskList {
  readonly tasks = signal<ReadonlyMap<string, TaskInfo>>(new Map());
  /** Null while nothing is searched for. */
  readonly searchResults = signal<TaskInfo[] | null>(null);
  readonly groups = computed(() =>
    groupByWorkspace(this.searchResults.value ?? [...this.tasks.value.values()]),
  );

  load(tasks: TaskInfo[]): void {
    this.tasks.value = new Map(tasks.map((task) => [task.id, task]));
  }

  remove(id: string): void {
    const tasks = new Map(this.tasks.value);
    if (tasks.delete(id)) this.tasks.value = tasks;
    if (this.searchResults.value)
      this.searchResults.value = this.searchResults.value.filter((task) => task.id !== id);
  }

  applyEvent(frame: EventFrame, workspace: string): void {
    const id = frame.taskId;
    if (id === undefined) return;
    if (frame.eventName === "taskDeleted") {
      this.remove(id);
      return;
    }
    const task = this.tasks.value.get(id) ?? createTaskInfo(id, workspace);
    const update = buildTaskUpdate(frame, task);
    if (update === null) return;
    const tasks = new Map(this.tasks.value);
    tasks.set(id, { ...task, ...update });
    this.tasks.value = tasks;
  }
}

function buildTaskUpdate(frame: EventFrame, task: TaskInfo): Partial<TaskInfo> | null {
  const { eventName, payload } = frame;
  const status = STATUS_BY_EVENT[eventName];
  if (status !== undefined) {
    return { status, ask: status === "waiting" ? parseAsk(payload) : null, live: true, updated: Date.now() };
  }
  switch (eventName) {
    case "taskCreated":
      return {
        workspace: String(payload["workspace"] ?? task.workspace),
        mode: String(payload["mode"] ?? task.mode),
        title: String(payload["title"] ?? task.title),
        parentId: payload["parentId"] ? String(payload["parentId"]) : null,
        live: true,
      };
    case "message":
      return buildTitleUpdate(payload["message"] as Row, task);
    case "taskModeSwitched":
      return { mode: String(payload["modeSlug"]) };
    case "taskTokenUsageUpdated":
      return { totalCost: (payload["usage"] as Usage | undefined)?.totalCost };
    default:
      return null;
  }
}

function buildTitleUpdate(row: Row, task: TaskInfo): Partial<TaskInfo> | null {
  if (task.title || row.type !== "say" || row.say !== "text" || row.partial !== undefined) return null;
  return { title: (row.text ?? "").trim().split("\n", 1)[0] ?? "" };
}

function createTaskInfo(id: string, workspace: string): TaskInfo {
  const now = Date.now();
  return { id, title: "", workspace, mode: "", status: "created", live: true, created: now, updated: now };
}
