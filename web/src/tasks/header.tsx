// The header of the open task: title, status, usage, and the stop, resume and delete buttons.

import type { Conversation } from "../state/conversation";
import { ParentLink } from "./subtasks";
import { lastPart } from "../render/format";
import { useGuard } from "../approval/guard";
import { attempt, command, link, list, openTask, resume, revision } from "../state/store";
import { Meters, StatusBadge } from "./status";

export const TASK_BUTTON = "stop-or-resume";

export function Header({
  conversation,
  menu,
}: {
  conversation: Conversation;
  menu: preact.ComponentChildren;
}) {
  void revision.value;
  const { id, status, workspace, model } = conversation;
  const title = conversation.title || list.tasks.value.get(id)?.title || "";
  return (
    <header class="header">
      <div class="header-line">
        {menu}
        <h1 class="ellipsis" title={title}>
          {title || "…"}
        </h1>
        <StatusBadge status={status} ask={conversation.ask?.ask} />
        {!hasResult(conversation) && <TaskButton id={id} atWork={isAtWork(conversation)} />}
        <DeleteButton id={id} />
      </div>
      <div class="header-line second">
        <span class="ellipsis muted" title={workspace}>
          {[lastPart(workspace), model].filter(Boolean).join(" · ")}
        </span>
        <span class="grow" />
        <Meters conversation={conversation} />
      </div>
      <ParentLink conversation={conversation} />
    </header>
  );
}

function DeleteButton({ id }: { id: string }) {
  const remove = () => {
    if (!window.confirm("Delete this task and its history? This cannot be undone.")) return;
    void attempt(
      command("deleteTask", {}, id).then(() => {
        list.forget(id);
        openTask(null);
      }),
    );
  };
  return (
    <button class="quiet small delete" onClick={remove}>
      Delete
    </button>
  );
}

function isAtWork(conversation: Conversation): boolean {
  return conversation.live && ["running", "waiting", "delegated"].includes(conversation.status);
}

/** There is nothing to stop any more: a result is accepted, or answered with words. */
function hasResult({ live, ask }: Conversation): boolean {
  return live && ["completion_result", "resume_completed_task"].includes(ask?.ask ?? "");
}

/** Stop a task that is at work, set one at rest to work again: not with the press that stopped it. */
function TaskButton({ id, atWork }: { id: string; atWork: boolean }) {
  const guard = useGuard(atWork ? null : id);
  const pressed = (event: MouseEvent) => {
    if (atWork) void attempt(command("cancelTask", {}, id));
    else if (guard.accepts(event)) void resume(id);
  };
  return (
    <button
      id={TASK_BUTTON}
      class={atWork ? "danger small" : "small"}
      disabled={link.value !== "open"}
      aria-disabled={!atWork && !guard.open}
      aria-keyshortcuts="Alt+S"
      onClick={pressed}
    >
      {atWork ? "Stop" : "Resume"}
    </button>
  );
}
