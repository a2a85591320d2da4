// The sidebar: search, and all tasks grouped by workspace.

import { useEffect, useState } from "preact/hooks";
import { isUnfolded, setFold } from "../render/folds";
import { dollars, lastPart, moment } from "../render/format";
import { attempt, command, conversation, link, list, openTask, welcome } from "../state/store";
import { dialog } from "../page/dialogs";
import { nextTheme, theme } from "../settings/theme";
import { StatusBadge } from "./status";
import { type Branch, countBelow, type Group, inSight, isAsking } from "../state/tasktree";
import type { TaskInfo } from "../wire/protocol";

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
        {group.branches.map((branch) => (
          <Entry key={branch.task.id} branch={branch} go={go} />
        ))}
      </ul>
    </section>
  );
}

function Entry({ branch, go }: { branch: Branch; go(id: string): void }) {
  const { task, below } = branch;
  const current = conversation.value?.id === task.id;
  const open = isOpen(branch);
  return (
    <li>
      <div class="entry-line">
        {below.length > 0 && (
          <button
            class="icon twisty"
            aria-expanded={open}
            aria-label={`Subtasks of ${task.title}`}
            onClick={() => setFold(foldOf(task), !open)}
          >
            {open ? "▾" : "▸"}
          </button>
        )}
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
          {!open && below.length > 0 && <Below branch={branch} />}
        </button>
      </div>
      {open && below.length > 0 && (
        <ul class="subtasks">
          {below.map((one) => (
            <Entry key={one.task.id} branch={one} go={go} />
          ))}
        </ul>
      )}
    </li>
  );
}

/** What a folded entry hides. */
function Below({ branch }: { branch: Branch }) {
  const count = countBelow(branch, () => true);
  const asked = countBelow(branch, isAsking);
  return (
    <span class="entry-foot">
      <span class="muted">{count === 1 ? "1 subtask" : `${count} subtasks`}</span>
      {asked > 0 && <span class="status waiting">◆ {asked === 1 ? "1 needs you" : `${asked} need you`}</span>}
    </span>
  );
}

function foldOf(task: TaskInfo): string {
  return `subtasks/${task.id}`;
}

/** Unless somebody chose otherwise, subtasks are shown while there is something going on. */
function isOpen(branch: Branch): boolean {
  const busy = (task: TaskInfo) =>
    task.id === conversation.value?.id ||
    (task.live && ["running", "waiting", "delegated"].includes(task.status));
  return isUnfolded(foldOf(branch.task), countBelow(branch, busy) > 0);
}

/** Open the task that stands before or after the open one. */
export function stepTask(by: number): void {
  const ids = inSight(list.groups.value, isOpen).map((task) => task.id);
  const place = ids.indexOf(conversation.value?.id ?? "");
  const next = ids[place < 0 ? 0 : place + by];
  if (next !== undefined) openTask(next);
}
