// Links from a task to its parent and to the subtasks that it waits for.

import type { Conversation } from "../state/conversation";
import { StatusBadge } from "./status";
import { taskList, openTask } from "../state/store";
import { findWaitingTasks } from "../state/tasktree";
import type { TaskInfo } from "../wire/protocol";

export function ParentLink({ conversation }: { conversation: Conversation }) {
  const { parentId } = conversation;
  if (!parentId) return null;
  return (
    <nav class="header-line parent" aria-label="The task above">
      <span class="muted">Subtask of</span>
      <TaskLink id={parentId} />
    </nav>
  );
}

/** The subtasks that a task waits for, with links to those that wait for the user, however deep. */
export function AwaitedSubtasks({ conversation }: { conversation: Conversation }) {
  const { awaitedSubtaskIds } = conversation;
  if (awaitedSubtaskIds.length === 0 || !conversation.isLive) return null;
  const tasks = [...taskList.tasks.value.values()];
  const waitingTasks = new Map(awaitedSubtaskIds.map((id) => [id, findWaitingTasks(id, tasks)]));
  const isUserNeeded = [...waitingTasks.values()].some((found) => found.length > 0);
  const title =
    awaitedSubtaskIds.length === 1 ? "Waits for a subtask" : `Waits for ${awaitedSubtaskIds.length} subtasks`;
  return (
    <nav class={`awaited ${isUserNeeded ? "needed" : ""}`} aria-label={title}>
      <strong>{isUserNeeded ? "A subtask needs you" : title}</strong>
      <ul>
        {awaitedSubtaskIds.map((id) => (
          <AwaitedSubtask key={id} id={id} waitingTasks={waitingTasks.get(id) ?? []} />
        ))}
      </ul>
    </nav>
  );
}

function AwaitedSubtask({ id, waitingTasks }: { id: string; waitingTasks: TaskInfo[] }) {
  const task = taskList.tasks.value.get(id);
  const waitingSubtasks = waitingTasks.filter((subtask) => subtask.id !== id);
  return (
    <li>
      <TaskLink id={id} />
      {task && <StatusBadge status={task.status} ask={task.ask?.ask} />}
      {waitingSubtasks.map((subtask) => (
        <span class="below" key={subtask.id}>
          <span aria-hidden="true">↳</span> <TaskLink id={subtask.id} />
          <StatusBadge status={subtask.status} ask={subtask.ask?.ask} />
        </span>
      ))}
    </li>
  );
}

function TaskLink({ id }: { id: string }) {
  const handleClick = (event: MouseEvent) => {
    event.preventDefault();
    openTask(id);
  };
  return (
    <a class="ellipsis" href={`#task=${encodeURIComponent(id)}`} onClick={handleClick}>
      {taskList.tasks.value.get(id)?.title || id}
    </a>
  );
}
