// Rows that are streaming right now, of all tasks: a task that is opened in the middle of one shows
// it at once, and need not wait until it grows.

import { STREAMED } from "./conversation";
import type { EventFrame, Row } from "./wire";

const ENDINGS = new Set(["taskFinished", "taskAborted", "taskFailed", "taskDeleted"]);

export class Streams {
  private readonly tasks = new Map<string, Map<number, Row>>();

  hear({ eventName, taskId, payload }: EventFrame): void {
    if (taskId === undefined) return;
    if (ENDINGS.has(eventName)) this.tasks.delete(taskId);
    else if (eventName === "message") this.put(taskId, payload["message"] as Row);
  }

  of(taskId: string): Row[] {
    return [...(this.tasks.get(taskId)?.values() ?? [])];
  }

  clear(): void {
    this.tasks.clear();
  }

  private put(taskId: string, row: Row): void {
    const rows = this.tasks.get(taskId) ?? new Map<number, Row>();
    if (row.say === "api_req_started") {
      for (const { ts, say } of [...rows.values()])
        if (say && STREAMED.has(say) && ts < row.ts) rows.delete(ts);
    }
    if (row.partial) rows.set(row.ts, row);
    else rows.delete(row.ts);
    if (rows.size) this.tasks.set(taskId, rows);
    else this.tasks.delete(taskId);
  }
}
