// The list of all tasks, as signals kept up to date by events.

import { computed, signal } from "@preact/signals";
import { grouped } from "./tasktree";
import type { EventFrame, Row, TaskInfo, TaskStatus, Usage } from "../wire/protocol";

const STATUS: Record<string, TaskStatus> = {
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
  /** What a search found; null when nothing is searched for. */
  readonly found = signal<TaskInfo[] | null>(null);
  readonly groups = computed(() => grouped(this.found.value ?? [...this.tasks.value.values()]));

  load(tasks: TaskInfo[]): void {
    this.tasks.value = new Map(tasks.map((task) => [task.id, task]));
  }

  forget(id: string): void {
    const tasks = new Map(this.tasks.value);
    if (tasks.delete(id)) this.tasks.value = tasks;
    if (this.found.value) this.found.value = this.found.value.filter((task) => task.id !== id);
  }

  hear(frame: EventFrame, workspace: string): void {
    const id = frame.taskId;
    if (id === undefined) return;
    if (frame.eventName === "taskDeleted") {
      this.forget(id);
      return;
    }
    const known = this.tasks.value.get(id) ?? unknown(id, workspace);
    const news = newsOf(frame, known);
    if (news === null) return;
    const tasks = new Map(this.tasks.value);
    tasks.set(id, { ...known, ...news });
    this.tasks.value = tasks;
  }
}

function newsOf(frame: EventFrame, known: TaskInfo): Partial<TaskInfo> | null {
  const { eventName, payload } = frame;
  const status = STATUS[eventName];
  if (status !== undefined) {
    const ask = status === "waiting" ? { ts: Number(payload["askTs"]), ask: String(payload["ask"]) } : null;
    return { status, ask, live: true, updated: Date.now() };
  }
  switch (eventName) {
    case "taskCreated":
      return {
        workspace: String(payload["workspace"] ?? known.workspace),
        mode: String(payload["mode"] ?? known.mode),
        title: String(payload["title"] ?? known.title),
        parentId: payload["parentId"] ? String(payload["parentId"]) : null,
        live: true,
      };
    case "message":
      return titleOf(payload["message"] as Row, known);
    case "taskModeSwitched":
      return { mode: String(payload["modeSlug"]) };
    case "taskTokenUsageUpdated":
      return { totalCost: (payload["usage"] as Usage | undefined)?.totalCost };
    default:
      return null;
  }
}

function titleOf(row: Row, known: TaskInfo): Partial<TaskInfo> | null {
  if (known.title || row.type !== "say" || row.say !== "text" || row.partial !== undefined) return null;
  return { title: (row.text ?? "").trim().split("\n", 1)[0] ?? "" };
}

function unknown(id: string, workspace: string): TaskInfo {
  const now = Date.now();
  return { id, title: "", workspace, mode: "", status: "created", live: true, created: now, updated: now };
}
