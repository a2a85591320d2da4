// The page's state as signals (connection, task list, open conversation), and the commands that load
// it after each connect.

import { batch, signal } from "@preact/signals";
import { Conversation } from "./conversation";
import { CommandError, Socket, type Link } from "../wire/socket";
import { TaskList } from "./tasklist";
import { toast } from "../page/toasts";
import { forgetToken, keepToken } from "../wire/token";
import type { Answers, CommandName, EventFrame, Mode, SlashCommand, Welcome } from "../wire/protocol";

const LIST_LENGTH = 500;

export const link = signal<Link | "login">("login");
export const welcome = signal<Welcome | null>(null);
export const list = new TaskList();
export const conversation = signal<Conversation | null>(null);
/**
 * Rises with every change of the open conversation, at most once per frame of the screen. Who draws
 * from the conversation and reads any signal has to read this one: it is the same object all along.
 */
export const revision = signal(0);
/** Rises when the newest row shall be in sight, wherever the person has scrolled to. */
export const latestWanted = signal(0);
export const modes = signal<Mode[]>([]);
export const slashCommands = signal<SlashCommand[]>([]);
export const profiles = signal<string[]>([]);
export const activeProfile = signal<string | null>(null);
/** The mode that new tasks start in. */
export const firstMode = signal("code");
export const loading = signal(false);

let socket: Socket | null = null;
let frameWanted = false;
/** Tasks that a person has already told to go on; the question that follows is answered at once. */
const goingOn = new Set<string>();

export function connect(token: string): void {
  socket?.close();
  keepToken(token);
  const url = new URL("ws", location.href);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  url.hash = "";
  socket = new Socket(url.href, token, { linked, welcomed, heard });
}

export function command<C extends CommandName>(
  name: C,
  args: Record<string, unknown> = {},
  taskId?: string,
): Promise<Answers[C]> {
  if (socket === null) return Promise.reject(new CommandError("OFFLINE", "not connected"));
  return socket.request(name, args, taskId);
}

/** Carry something out and show what went wrong; tells whether it went well. */
export async function attempt(work: Promise<unknown>): Promise<boolean> {
  try {
    await work;
    return true;
  } catch (error) {
    toast(error instanceof Error ? error.message : String(error));
    return false;
  }
}

/** Open a task, or with null the page for a new one. */
export function openTask(id: string | null): void {
  const address = id === null ? location.pathname : `#task=${encodeURIComponent(id)}`;
  history.replaceState(null, "", address);
  if (id === null) {
    conversation.value = null;
    return;
  }
  if (conversation.value?.id === id) return;
  conversation.value = new Conversation(id);
  revision.value++;
  void load(conversation.value);
}

export function showLatest(): void {
  latestWanted.value++;
}

export function resume(id: string): Promise<boolean> {
  goingOn.add(id);
  return attempt(
    command("resumeTask", {}, id).catch((error: unknown) => {
      goingOn.delete(id);
      throw error;
    }),
  );
}

function linked(now: Link): void {
  if (now === "refused") {
    forgetToken();
    socket = null;
    link.value = "login";
    toast("joey does not know this token.");
    return;
  }
  link.value = now;
}

function welcomed(words: Welcome): void {
  welcome.value = words;
  void attempt(Promise.all([loadList(), loadChoices()]));
  const open = conversation.value;
  if (open === null) {
    const named = new URLSearchParams(location.hash.slice(1)).get("task");
    if (named) openTask(named);
  } else void (open.loaded ? catchUp(open) : load(open));
}

async function loadList(): Promise<void> {
  const { tasks } = await command("listTasks", { limit: LIST_LENGTH });
  list.load(tasks);
}

export async function loadChoices(): Promise<void> {
  const [known, named, active, { configuration }] = await Promise.all([
    command("getModes"),
    command("getProfiles"),
    command("getActiveProfile"),
    command("getConfiguration"),
  ]);
  batch(() => {
    modes.value = known.modes;
    profiles.value = named.profiles;
    activeProfile.value = active.activeProfile;
    firstMode.value = String(configuration["mode"] ?? "code");
  });
}

/** People write them while the page is open, so they are asked for when somebody wants one. */
export async function loadSlashCommands(): Promise<void> {
  slashCommands.value = (await command("getCommands")).commands;
}

async function load(open: Conversation): Promise<void> {
  loading.value = true;
  try {
    const { messages, seq } = await command("getMessages", {}, open.id);
    const [{ task }, { todos }] = await Promise.all([
      command("getTask", {}, open.id),
      command("getTodos", {}, open.id),
    ]);
    open.load(messages, seq, task, todos);
    await command("subscribe", { taskId: open.id, since: open.seq }, open.id);
  } catch (error) {
    missing(open, error);
  } finally {
    loading.value = false;
    changed();
  }
}

/** After a gap: hear what was missed, then ask where the task stands now. */
async function catchUp(open: Conversation): Promise<void> {
  open.dropPartial();
  try {
    const { seq } = await command("subscribe", { taskId: open.id, since: open.seq }, open.id);
    if (seq < open.seq) {
      await load(open);
      return;
    }
    open.describe((await command("getTask", {}, open.id)).task);
  } catch (error) {
    missing(open, error);
  }
  changed();
}

function missing(open: Conversation, error: unknown): void {
  if (error instanceof CommandError && error.code === "OFFLINE") return;
  if (error instanceof CommandError && error.code === "TASK_NOT_FOUND") open.gone = true;
  else toast(error instanceof Error ? error.message : String(error));
}

function heard(frame: EventFrame): void {
  list.hear(frame, welcome.value?.workspace ?? "");
  if (["providerProfileChanged", "modeChanged"].includes(frame.eventName)) void attempt(loadChoices());
  const open = conversation.value;
  if (frame.eventName === "resync") {
    void loadList();
    if (open?.loaded) void catchUp(open);
    return;
  }
  if (frame.eventName === "taskResumable" || frame.eventName === "taskIdle") goOn(frame);
  if (open === null || frame.taskId !== open.id || !open.loaded) return;
  open.hear(frame);
  if (frame.eventName === "taskStarted") void attempt(describe(open));
  changed();
}

function goOn(frame: EventFrame): void {
  const { taskId, payload } = frame;
  if (taskId === undefined || !String(payload["ask"]).startsWith("resume_")) return;
  if (!goingOn.delete(taskId)) return;
  const answer = { askTs: payload["askTs"], response: "yesButtonClicked" };
  void attempt(command("respond", answer, taskId));
}

/** A task that was opened just now knows its model and the room that it has. */
async function describe(open: Conversation): Promise<void> {
  open.outline((await command("getTask", {}, open.id)).task);
  changed();
}

function changed(): void {
  if (frameWanted) return;
  frameWanted = true;
  // A hidden tab gets no frames, and need not be drawn; it catches up with the next one.
  requestAnimationFrame(() => {
    frameWanted = false;
    revision.value++;
  });
}
