// The root component: layout, global shortcuts and announcements for screen readers.

import { signal } from "@preact/signals";
import { useEffect, useLayoutEffect } from "preact/hooks";
import { Composer } from "../composer/composer";
import { ConfirmDialog } from "./confirm";
import { ActiveDialog, activeDialogName } from "./dialogs";
import { TaskHeader, STOP_RESUME_BUTTON_ID } from "../tasks/header";
import { addKeyHandler, getShortcutLetter, isTextFieldFocused } from "./keys";
import { Login } from "./login";
import { NewTask } from "./newtask";
import { RecordingsView } from "../recordings/recordings";
import { isShowingRecordings } from "../state/recordings";
import { Sidebar, openAdjacentTask } from "../tasks/sidebar";
import {
  currentConversation,
  connectionState,
  taskList,
  isLoading,
  openTask,
  conversationRevision,
} from "../state/store";
import { findWaitingTasks } from "../state/tasktree";
import { cycleTheme } from "../settings/theme";
import { Thread } from "../conversation/thread";
import { Toasts } from "./toasts";
import type { TaskStatus } from "../wire/protocol";

/** On a narrow screen the list is a drawer. */
const isDrawerOpen = signal(false);

export function App() {
  useLayoutEffect(() => addKeyHandler(handleKey), []);
  if (connectionState.value === "login")
    return (
      <>
        <Login />
        <Toasts />
      </>
    );
  return (
    <div class={`page ${isDrawerOpen.value ? "drawer-open" : ""}`}>
      <a class="skip" href="#composer" onClick={skipToComposer}>
        Skip to the message field
      </a>
      <Sidebar onClose={() => (isDrawerOpen.value = false)} />
      <div class="shade" onClick={() => (isDrawerOpen.value = false)} />
      <Main />
      <ActiveDialog />
      <ConfirmDialog />
      <Toasts />
      <StatusAnnouncer />
    </div>
  );
}

function Main() {
  const conversation = currentConversation.value;
  const menuButton = (
    <button
      class="icon menu"
      aria-label="Tasks"
      aria-expanded={isDrawerOpen.value}
      aria-controls="tasks"
      onClick={() => (isDrawerOpen.value = !isDrawerOpen.value)}
    >
      ☰
    </button>
  );
  return (
    <main class="main">
      {connectionState.value !== "open" && (
        <p class="offline" role="status">
          {connectionState.value === "lost" ? "Connection lost; reconnecting…" : "Connecting…"}
        </p>
      )}
      {isShowingRecordings.value ? (
        <RecordingsView menuButton={menuButton} />
      ) : conversation === null ? (
        <NewTask menuButton={menuButton} />
      ) : (
        <TaskView menuButton={menuButton} />
      )}
    </main>
  );
}

function TaskView({ menuButton }: { menuButton: preact.ComponentChildren }) {
  const conversation = currentConversation.value;
  void conversationRevision.value;
  if (conversation === null) return null;
  if (conversation.isMissing) {
    return (
      <div class="new-task">
        <div class="header-line">{menuButton}</div>
        <p class="muted none">This task does not exist.</p>
      </div>
    );
  }
  return (
    <>
      <TaskHeader conversation={conversation} menuButton={menuButton} />
      {!conversation.isLoaded && isLoading.value ? (
        <p class="muted none grow-box">Loading…</p>
      ) : (
        <Thread conversation={conversation} />
      )}
      <Composer key={conversation.id} conversation={conversation} />
    </>
  );
}

const STATUS_ANNOUNCEMENTS: Record<TaskStatus, string> = {
  created: "",
  running: "joey is working",
  waiting: "joey waits for you",
  delegated: "A subtask is working",
  completed: "The task is done",
  aborted: "The task is stopped",
  failed: "The task failed",
};

/** Announces the task's status to screen readers and in the page's title. */
function StatusAnnouncer() {
  const conversation = currentConversation.value;
  void conversationRevision.value;
  const isSubtaskWaiting =
    conversation?.status === "delegated" &&
    findWaitingTasks(conversation.id, [...taskList.tasks.value.values()]).length > 0;
  const announcement = isSubtaskWaiting
    ? "A subtask is waiting for you"
    : conversation?.isLoaded
      ? STATUS_ANNOUNCEMENTS[conversation.status]
      : "";
  useEffect(() => {
    const pageTitle =
      conversation === null
        ? "joey"
        : `${taskList.tasks.value.get(conversation.id)?.title || conversation.title} · joey`;
    document.title =
      conversation?.isLoaded && (isSubtaskWaiting || conversation.status === "waiting")
        ? `◆ ${pageTitle}`
        : pageTitle;
  });
  return (
    <div class="visually-hidden" role="status" aria-live="polite">
      {announcement}
    </div>
  );
}

function focusElement(id: string): void {
  document.getElementById(id)?.focus();
}

function skipToComposer(event: Event): void {
  event.preventDefault();
  focusElement("composer");
}

function handleKey(event: KeyboardEvent): boolean {
  if (event.altKey) return handleAltKey(event);
  if (event.key === "Escape") {
    isDrawerOpen.value = false;
    (document.activeElement as HTMLElement | null)?.blur();
    return false;
  }
  if (event.ctrlKey || event.metaKey || isTextFieldFocused()) return false;
  switch (event.key) {
    case "?":
      activeDialogName.value = "keys";
      return true;
    case ",":
      activeDialogName.value = "settings";
      return true;
    case "n":
      openTask(null);
      requestAnimationFrame(() => focusElement("composer"));
      return true;
    case "c":
      focusElement("composer");
      return true;
    case "/":
      isDrawerOpen.value = true;
      focusElement("search");
      return true;
    case "l":
      isDrawerOpen.value = !isDrawerOpen.value;
      return true;
    case "g":
      document.querySelector<HTMLButtonElement>(".latest")?.click();
      return true;
    case "t":
      cycleTheme();
      return true;
    default:
      return false;
  }
}

function handleAltKey(event: KeyboardEvent): boolean {
  if (event.key === "ArrowUp" || event.key === "ArrowDown") {
    openAdjacentTask(event.key === "ArrowUp" ? -1 : 1);
    return true;
  }
  if (getShortcutLetter(event) === "s") {
    if (!event.repeat) document.getElementById(STOP_RESUME_BUTTON_ID)?.click();
    return true;
  }
  return false;
}
