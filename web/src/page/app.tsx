// The root component: layout, global shortcuts and announcements for screen readers.

import { signal } from "@preact/signals";
import { useEffect, useLayoutEffect } from "preact/hooks";
import { Composer } from "../composer/composer";
import { Dialogs, dialog } from "./dialogs";
import { Header, TASK_BUTTON } from "../tasks/header";
import { isWriting, onKey } from "./keys";
import { Login } from "./login";
import { NewTask } from "./newtask";
import { Sidebar, stepTask } from "../tasks/sidebar";
import { conversation, link, list, loading, openTask, revision } from "../state/store";
import { asking } from "../state/tasktree";
import { nextTheme } from "../settings/theme";
import { Thread } from "../conversation/thread";
import { Toasts } from "./toasts";
import type { TaskStatus } from "../wire/protocol";

/** On a narrow screen the list is a drawer. */
const drawer = signal(false);

export function App() {
  useLayoutEffect(() => onKey(pressed), []);
  if (link.value === "login")
    return (
      <>
        <Login />
        <Toasts />
      </>
    );
  return (
    <div class={`page ${drawer.value ? "drawer-open" : ""}`}>
      <a class="skip" href="#composer" onClick={skip}>
        Skip to the message field
      </a>
      <Sidebar close={() => (drawer.value = false)} />
      <div class="shade" onClick={() => (drawer.value = false)} />
      <Main />
      <Dialogs />
      <Toasts />
      <Announcer />
    </div>
  );
}

function Main() {
  const open = conversation.value;
  const menu = (
    <button
      class="icon menu"
      aria-label="Tasks"
      aria-expanded={drawer.value}
      aria-controls="tasks"
      onClick={() => (drawer.value = !drawer.value)}
    >
      ☰
    </button>
  );
  return (
    <main class="main">
      {link.value !== "open" && (
        <p class="offline" role="status">
          {link.value === "lost" ? "The connection to joey is lost; trying again…" : "Connecting…"}
        </p>
      )}
      {open === null ? <NewTask menu={menu} /> : <Opened menu={menu} />}
    </main>
  );
}

function Opened({ menu }: { menu: preact.ComponentChildren }) {
  const open = conversation.value;
  void revision.value;
  if (open === null) return null;
  if (open.gone) {
    return (
      <div class="new-task">
        <div class="header-line">{menu}</div>
        <p class="muted none">This task does not exist (any more).</p>
      </div>
    );
  }
  return (
    <>
      <Header conversation={open} menu={menu} />
      {!open.loaded && loading.value ? (
        <p class="muted none grow-box">Loading…</p>
      ) : (
        <Thread conversation={open} />
      )}
      <Composer key={open.id} conversation={open} />
    </>
  );
}

const ANNOUNCED: Record<TaskStatus, string> = {
  created: "",
  running: "joey is working",
  waiting: "joey waits for you",
  delegated: "A subtask is working",
  completed: "The task is done",
  aborted: "The task is stopped",
  failed: "The task failed",
};

/** Says aloud what a person who does not look would want to know. */
function Announcer() {
  const open = conversation.value;
  void revision.value;
  const asked = open?.status === "delegated" && asking(open.id, [...list.tasks.value.values()]).length > 0;
  const words = asked ? "A subtask waits for you" : open?.loaded ? ANNOUNCED[open.status] : "";
  useEffect(() => {
    const name = open === null ? "joey" : `${list.tasks.value.get(open.id)?.title || open.title} · joey`;
    document.title = open?.loaded && (asked || open.status === "waiting") ? `◆ ${name}` : name;
  });
  return (
    <div class="visually-hidden" role="status" aria-live="polite">
      {words}
    </div>
  );
}

function focus(id: string): void {
  document.getElementById(id)?.focus();
}

function skip(event: Event): void {
  event.preventDefault();
  focus("composer");
}

function pressed(event: KeyboardEvent): boolean {
  if (event.altKey) return pressedWithAlt(event);
  if (event.key === "Escape") {
    drawer.value = false;
    (document.activeElement as HTMLElement | null)?.blur();
    return false;
  }
  if (event.ctrlKey || event.metaKey || isWriting()) return false;
  switch (event.key) {
    case "?":
      dialog.value = "keys";
      return true;
    case ",":
      dialog.value = "settings";
      return true;
    case "n":
      openTask(null);
      requestAnimationFrame(() => focus("composer"));
      return true;
    case "c":
      focus("composer");
      return true;
    case "/":
      drawer.value = true;
      focus("search");
      return true;
    case "l":
      drawer.value = !drawer.value;
      return true;
    case "g":
      document.querySelector<HTMLButtonElement>(".latest")?.click();
      return true;
    case "t":
      nextTheme();
      return true;
    default:
      return false;
  }
}

function pressedWithAlt(event: KeyboardEvent): boolean {
  if (event.key === "ArrowUp" || event.key === "ArrowDown") {
    stepTask(event.key === "ArrowUp" ? -1 : 1);
    return true;
  }
  if (event.code === "KeyS") {
    if (!event.repeat) document.getElementById(TASK_BUTTON)?.click();
    return true;
  }
  return false;
}
