// All tasks, by the folder they work in.

import { useEffect, useState } from "preact/hooks";
import { dollars, lastPart, moment } from "./format";
import { attempt, command, conversation, link, list, openTask, welcome } from "./store";
import { dialog } from "./dialogs";
import { nextTheme, theme } from "./theme";
import { StatusBadge } from "./status";
import type { Group } from "./tasklist";
import type { TaskInfo } from "./wire";

const PATIENCE = 200;

export function Sidebar({ close }: { close(): void }) {
  const go = (id: string | null) => {
    openTask(id);
    close();
  };
  const groups = list.groups.value;
  return (
    <nav class="sidebar" id="tasks" aria-label="Tasks">
      <div class="sidebar-head">
        <span class="brand">joey</span>
        <button class="primary small" onClick={() => go(null)}>
          New task
        </button>
      </div>
      <Search />
      <div class="groups">
        {groups.map((group) => (
          <Workspace key={group.workspace} group={group} go={go} />
        ))}
        {groups.length === 0 && (
          <p class="muted none">{list.found.value ? "Nothing found." : "No tasks yet."}</p>
        )}
      </div>
      <div class="sidebar-foot">
        <button class="quiet small" onClick={() => (dialog.value = "settings")}>
          Settings
        </button>
        <button class="quiet small" onClick={nextTheme}>
          Theme: {theme.value === "system" ? "auto" : theme.value}
        </button>
        <button class="quiet small" onClick={() => (dialog.value = "keys")} aria-label="Keyboard shortcuts">
          ?
        </button>
        <span class="grow" />
        <span class="muted version">{welcome.value?.version}</span>
      </div>
    </nav>
  );
}

function Search() {
  const [query, setQuery] = useState("");
  useEffect(() => {
    if (!query.trim()) {
      list.found.value = null;
      return;
    }
    const timer = setTimeout(() => {
      const search = command("searchTasks", { query: query.trim(), limit: 100 });
      void attempt(
        search.then(({ tasks }) => {
          list.found.value = tasks;
        }),
      );
    }, PATIENCE);
    return () => clearTimeout(timer);
  }, [query]);
  return (
    <input
      id="search"
      type="search"
      placeholder="Search tasks"
      aria-label="Search tasks"
      value={query}
      disabled={link.value !== "open"}
      onInput={(event) => setQuery(event.currentTarget.value)}
      onKeyDown={(event) => {
        if (event.key === "Escape") setQuery("");
      }}
    />
  );
}

function Workspace({ group, go }: { group: Group; go(id: string): void }) {
  return (
    <section>
      <h2 title={group.workspace}>{lastPart(group.workspace) || "no folder"}</h2>
      <ul>
        {group.tasks.map((task) => (
          <Entry key={task.id} task={task} go={go} />
        ))}
      </ul>
    </section>
  );
}

function Entry({ task, go }: { task: TaskInfo; go(id: string): void }) {
  const current = conversation.value?.id === task.id;
  return (
    <li>
      <button
        class="entry"
        aria-current={current ? "page" : undefined}
        data-task={task.id}
        onClick={() => go(task.id)}
      >
        <span class="entry-title">{task.title || "…"}</span>
        <span class="entry-foot">
          <StatusBadge status={task.status} ask={task.ask?.ask} />
          <span class="muted">{moment(task.updated ?? task.created)}</span>
          {Boolean(task.totalCost) && <span class="muted">{dollars(task.totalCost)}</span>}
        </span>
      </button>
    </li>
  );
}

/** Open the task that stands before or after the open one. */
export function stepTask(by: number): void {
  const ids = list.groups.value.flatMap((group) => group.tasks.map((task) => task.id));
  const place = ids.indexOf(conversation.value?.id ?? "");
  const next = ids[place < 0 ? 0 : place + by];
  if (next !== undefined) openTask(next);
}
