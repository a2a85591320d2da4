// Links from a task to its parent and to the subtasks that it waits for.

import type { Conversation } from "../state/conversation";
import { StatusBadge } from "./status";
import { list, openTask } from "../state/store";
import { asking } from "../state/tasktree";
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

/** What a task sleeps for; questions of subtasks, however deep, are one press away. */
export function Awaited({ conversation }: { conversation: Conversation }) {
  const { waitsFor } = conversation;
  if (waitsFor.length === 0 || !conversation.live) return null;
  const tasks = [...list.tasks.value.values()];
  const questions = new Map(waitsFor.map((id) => [id, asking(id, tasks)]));
  const needed = [...questions.values()].some((found) => found.length > 0);
  const title = waitsFor.length === 1 ? "Waits for a subtask" : `Waits for ${waitsFor.length} subtasks`;
  return (
    <nav class={`awaited ${needed ? "needed" : ""}`} aria-label={title}>
      <strong>{needed ? "A subtask needs you" : title}</strong>
      <ul>
        {waitsFor.map((id) => (
          <Waited key={id} id={id} questions={questions.get(id) ?? []} />
        ))}
      </ul>
    </nav>
  );
}

function Waited({ id, questions }: { id: string; questions: TaskInfo[] }) {
  const task = list.tasks.value.get(id);
  const below = questions.filter((asked) => asked.id !== id);
  return (
    <li>
      <TaskLink id={id} />
      {task && <StatusBadge status={task.status} ask={task.ask?.ask} />}
      {below.map((asked) => (
        <span class="below" key={asked.id}>
          <span aria-hidden="true">↳</span> <TaskLink id={asked.id} />
          <StatusBadge status={asked.status} ask={asked.ask?.ask} />
        </span>
      ))}
    </li>
  );
}

function TaskLink({ id }: { id: string }) {
  const go = (event: MouseEvent) => {
    event.preventDefault();
    openTask(id);
  };
  return (
    <a class="ellipsis" href={`#task=${encodeURIComponent(id)}`} onClick={go}>
      {list.tasks.value.get(id)?.title || id}
    </a>
  );
}
