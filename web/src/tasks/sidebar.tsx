// The sidebar: search, and all tasks grouped by workspace.

import { useEffect, useState } from "preact/hooks";
import { isFoldOpen, setFoldOpen } from "../render/folds";
import { formatDollars, getBaseName, formatTime } from "../render/format";
import {
  tryOrToast,
  sendCommand,
  currentConversation,
  connectionState,
  taskList,
  openTask,
  welcome,
} from "../state/store";
import { activeDialogName } from "../page/dialogs";
import { isShowingRecordings, openRecordings } from "../state/recordings";
import { cycleTheme, theme } from "../settings/theme";
import { StatusBadge } from "./status";
import {
  type TaskNode,
  countSubtasks,
  type WorkspaceGroup,
  listVisibleTasks,
  isWaitingForUser,
} from "../state/tasktree";
import type { TaskInfo } from "../wire/protocol";
import { logOut } from "../wire/token";

const SEARCH_DEBOUNCE_MS = 200;

export function Sidebar({ onClose }: { onClose(): void }) {
  const openAndClose = (id: string | null) => {
    openTask(id);
    onClose();
  };
  const groups = taskList.groups.value;
  return (
    <nav class="sidebar" id="tasks" aria-label="Tasks">
      <div class="sidebar-head">
        <span class="brand">joey</span>
        <button class="primary small" onClick={() => openAndClose(null)}>
          New task
        </button>
      </div>
      <SearchField />
      <div class="groups">
        {groups.map((group) => (
          <WorkspaceSection key={group.workspace} group={group} onOpen={openAndClose} />
        ))}
        {groups.length === 0 && (
          <p class="muted none">{taskList.searchResults.value ? "Nothing found." : "No tasks yet."}</p>
        )}
      </div>
      <div class="sidebar-foot">
        <button class="quiet small" onClick={() => (activeDialogName.value = "settings")}>
          Settings
        </button>
        <button
          class="quiet small"
          disabled={connectionState.value !== "open"}
          aria-current={isShowingRecordings.value ? "page" : undefined}
          onClick={() => {
            openRecordings();
            onClose();
          }}
        >
          Recordings
        </button>
        <button class="quiet small" onClick={cycleTheme}>
          Theme: {theme.value === "system" ? "auto" : theme.value}
        </button>
        <button
          class="quiet small"
          onClick={() => (activeDialogName.value = "keys")}
          aria-label="Keyboard shortcuts"
        >
          ?
        </button>
        <button class="quiet small" onClick={logOut}>
          Log out
        </button>
        <span class="grow" />
        <span class="muted version">{welcome.value?.version}</span>
      </div>
    </nav>
  );
}

function SearchField() {
  const [query, setQuery] = useState("");
  useEffect(() => {
    if (!query.trim()) {
      taskList.searchResults.value = null;
      return;
    }
    const timer = setTimeout(() => {
      const search = sendCommand("searchTasks", { query: query.trim(), limit: 100 });
      void tryOrToast(
        search.then(({ tasks }) => {
          taskList.searchResults.value = tasks;
        }),
      );
    }, SEARCH_DEBOUNCE_MS);
    return () => clearTimeout(timer);
  }, [query]);
  return (
    <input
      id="search"
      type="search"
      placeholder="Search tasks"
      aria-label="Search tasks"
      value={query}
      disabled={connectionState.value !== "open"}
      onInput={(event) => setQuery(event.currentTarget.value)}
      onKeyDown={(event) => {
        if (event.key === "Escape") setQuery("");
      }}
    />
  );
}

function WorkspaceSection({ group, onOpen }: { group: WorkspaceGroup; onOpen(id: string): void }) {
  return (
    <section>
      <h2 title={group.workspace}>{getBaseName(group.workspace) || "no folder"}</h2>
      <ul>
        {group.roots.map((node) => (
          <TaskEntry key={node.task.id} node={node} onOpen={onOpen} />
        ))}
      </ul>
    </section>
  );
}

function TaskEntry({ node, onOpen }: { node: TaskNode; onOpen(id: string): void }) {
  const { task, subtasks } = node;
  const isCurrent = currentConversation.value?.id === task.id;
  const isOpen = isNodeExpanded(node);
  return (
    <li>
      <div class="entry-line">
        {subtasks.length > 0 && (
          <button
            class="icon twisty"
            aria-expanded={isOpen}
            aria-label={`Subtasks of ${task.title}`}
            onClick={() => setFoldOpen(getFoldId(task), !isOpen)}
          >
            {isOpen ? "▾" : "▸"}
          </button>
        )}
        <button
          class="entry"
          aria-current={isCurrent ? "page" : undefined}
          data-task={task.id}
          onClick={() => onOpen(task.id)}
        >
          <span class="entry-title">{task.title || "…"}</span>
          <span class="entry-foot">
            <StatusBadge status={task.status} ask={task.ask?.ask} />
            <span class="muted">{formatTime(task.updated ?? task.created)}</span>
            {Boolean(task.totalCost) && <span class="muted">{formatDollars(task.totalCost)}</span>}
          </span>
          {!isOpen && subtasks.length > 0 && <SubtaskSummary node={node} />}
        </button>
      </div>
      {isOpen && subtasks.length > 0 && (
        <ul class="subtasks">
          {subtasks.map((subtask) => (
            <TaskEntry key={subtask.task.id} node={subtask} onOpen={onOpen} />
          ))}
        </ul>
      )}
    </li>
  );
}

/** What a folded entry hides. */
function SubtaskSummary({ node }: { node: TaskNode }) {
  const count = countSubtasks(node, () => true);
  const waitingCount = countSubtasks(node, isWaitingForUser);
  return (
    <span class="entry-foot">
      <span class="muted">{count === 1 ? "1 subtask" : `${count} subtasks`}</span>
      {waitingCount > 0 && (
        <span class="status waiting">
          ◆ {waitingCount === 1 ? "1 needs you" : `${waitingCount} need you`}
        </span>
      )}
    </span>
  );
}

function getFoldId(task: TaskInfo): string {
  return `subtasks/${task.id}`;
}

/** Unless the user chose otherwise, subtasks are shown while any of them is active. */
function isNodeExpanded(node: TaskNode): boolean {
  const isBusy = (task: TaskInfo) =>
    task.id === currentConversation.value?.id ||
    (task.live && ["running", "waiting", "delegated"].includes(task.status));
  return isFoldOpen(getFoldId(node.task), countSubtasks(node, isBusy) > 0);
}

/** Open the task before or after the open one. */
export function openAdjacentTask(step: number): void {
  const ids = listVisibleTasks(taskList.groups.value, isNodeExpanded).map((task) => task.id);
  const index = ids.indexOf(currentConversation.value?.id ?? "");
  const next = ids[index < 0 ? 0 : index + step];
  if (next !== undefined) openTask(next);
}
