// The header of the open task: title, status, usage, and the stop, resume and delete buttons.

import type { Conversation } from "../state/conversation";
import { ParentLink } from "./subtasks";
import { getBaseName } from "../render/format";
import { askToConfirm } from "../page/confirm";
import { usePressGuard } from "../approval/guard";
import {
  tryOrToast,
  sendCommand,
  connectionState,
  taskList,
  openTask,
  resumeTask,
  conversationRevision,
} from "../state/store";
import { UsageMeters, StatusBadge } from "./status";

export const STOP_RESUME_BUTTON_ID = "stop-or-resume";

export function TaskHeader({
  conversation,
  menuButton,
}: {
  conversation: Conversation;
  menuButton: preact.ComponentChildren;
}) {
  void conversationRevision.value;
  const { id, status, workspace, model } = conversation;
  const title = conversation.title || taskList.tasks.value.get(id)?.title || "";
  return (
    <header class="header">
      <div class="header-line">
        {menuButton}
        <h1 class="ellipsis" title={title}>
          {title || "…"}
        </h1>
        <StatusBadge status={status} ask={conversation.ask?.ask} />
        {!hasResult(conversation) && <StopResumeButton id={id} isActive={isTaskActive(conversation)} />}
        <DeleteButton id={id} />
      </div>
      <div class="header-line second">
        <span class="ellipsis muted" title={workspace}>
          {[getBaseName(workspace), model].filter(Boolean).join(" · ")}
        </span>
        <span class="grow" />
        <UsageMeters conversation={conversation} />
      </div>
      <ParentLink conversation={conversation} />
    </header>
  );
}

function DeleteButton({ id }: { id: string }) {
  const deleteTask = () =>
    askToConfirm({
      title: "Delete this task?",
      text: "Its history is deleted too. This cannot be undone.",
      actionLabel: "Delete task",
      run: () =>
        void tryOrToast(
          sendCommand("deleteTask", {}, id).then(() => {
            taskList.remove(id);
            openTask(null);
          }),
        ),
    });
  return (
    <button class="quiet small delete" aria-label="Delete" title="Delete this task" onClick={deleteTask}>
      <span class="delete-word">Delete</span>
      <span class="delete-sign" aria-hidden="true">
        ✕
      </span>
    </button>
  );
}

function isTaskActive(conversation: Conversation): boolean {
  return conversation.isLive && ["running", "waiting", "delegated"].includes(conversation.status);
}

/** Nothing is left to stop: a result is accepted, or answered with a message. */
function hasResult({ isLive, ask }: Conversation): boolean {
  return isLive && ["completion_result", "resume_completed_task"].includes(ask?.ask ?? "");
}

/** Stops an active task or resumes an inactive one, but never both with one press. */
function StopResumeButton({ id, isActive }: { id: string; isActive: boolean }) {
  const guard = usePressGuard(isActive ? null : id);
  const handleClick = (event: MouseEvent) => {
    if (isActive) void tryOrToast(sendCommand("cancelTask", {}, id));
    else if (guard.accepts(event)) void resumeTask(id);
  };
  return (
    <button
      id={STOP_RESUME_BUTTON_ID}
      class={isActive ? "danger small" : "small"}
      disabled={connectionState.value !== "open"}
      aria-disabled={!isActive && !guard.isOpen}
      aria-keyshortcuts="Alt+S"
      onClick={handleClick}
    >
      {isActive ? "Stop" : "Resume"}
    </button>
  );
}
