// The todo list, in full and as a one-line summary.

import { Fold } from "../render/folds";
import type { Todo } from "../wire/protocol";

const STATUS_SYMBOLS = { completed: "✓", in_progress: "◐", pending: "○" };
const STATUS_LABELS = { completed: "done", in_progress: "in progress", pending: "to do" };

export function TodoItems({ todos }: { todos: Todo[] }) {
  return (
    <ul class="todos">
      {todos.map((todo) => (
        <li key={todo.id} class={todo.status}>
          <span class="mark" role="img" aria-label={STATUS_LABELS[todo.status]}>
            {STATUS_SYMBOLS[todo.status]}
          </span>
          <span>{todo.content}</span>
        </li>
      ))}
    </ul>
  );
}

/** The list in one line: how far it is and what is being done; unfolded, all of it. */
export function TodoBar({ todos, taskId }: { todos: Todo[]; taskId: string }) {
  if (todos.length === 0) return null;
  const doneCount = todos.filter((todo) => todo.status === "completed").length;
  const current = todos.find((todo) => todo.status === "in_progress");
  const title = (
    <>
      <strong>
        Todo {doneCount}/{todos.length}
      </strong>
      {current && <span class="ellipsis muted">{current.content}</span>}
    </>
  );
  return (
    <Fold foldId={`${taskId}/todos`} title={title} class="todo-bar">
      {() => <TodoItems todos={todos} />}
    </Fold>
  );
}
