// The page's state as signals (connection, task list, open conversation), and the commands that load
// it after each connect.

import { batch, signal } from "@preact/signals";
import { Conversation } from "./conversation";
import { CommandError, ReconnectingSocket, type ConnectionState } from "../wire/socket";
import { TaskList } from "./tasklist";
import { showToast } from "../page/toasts";
import { clearToken, loadToken, removeCredential, storeToken } from "../wire/token";
import type { CommandResults, CommandName, EventFrame, Mode, SlashCommand, Welcome } from "../wire/protocol";

const TASK_LIST_LIMIT = 500;

export const connectionState = signal<ConnectionState | "login">("login");
export const welcome = signal<Welcome | null>(null);
export const taskList = new TaskList();
export const currentConversation = signal<Conversation | null>(null);
/**
 * Rises with every change of the current conversation, at most once per animation frame. A component
 * that renders it has to read this signal: the conversation stays the same object.
 */
export const conversationRevision = signal(0);
/** Rises when the newest row should be visible, wherever the user has scrolled to. */
export const scrollToLatestCounter = signal(0);
export const modes = signal<Mode[]>([]);
export const slashCommands = signal<SlashCommand[]>([]);
export const profileNames = signal<string[]>([]);
export const activeProfile = signal<string | null>(null);
/** The mode that new tasks start in. */
export const defaultMode = signal("code");
export const isLoading = signal(false);
/** Rises when rules were revoked, here or by another client. */
export const permissionsRevision = signal(0);

let socket: ReconnectingSocket | null = null;
let lastCredential = "";
let isUpdateScheduled = false;
/** Tasks that the user has resumed; the question that follows is answered at once. */
const resumingTaskIds = new Set<string>();

/** Connect with the token, or with a code that is exchanged for it. */
export function connect(credential: string): void {
  socket?.close();
  lastCredential = credential;
  const url = new URL("ws", location.href);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  url.hash = "";
  socket = new ReconnectingSocket(url.href, credential, {
    onToken: (token) => {
      storeToken(token);
      removeCredential();
    },
    onStateChange: handleConnectionState,
    onWelcome: handleWelcome,
    onEvent: handleEvent,
  });
}

export function sendCommand<C extends CommandName>(
  name: C,
  args: Record<string, unknown> = {},
  taskId?: string,
): Promise<CommandResults[C]> {
  if (socket === null) return Promise.reject(new CommandError("OFFLINE", "not connected"));
  return socket.request(name, args, taskId);
}

/** Wait for a promise and show its error as a toast; returns whether it succeeded. */
export async function tryOrToast(work: Promise<unknown>): Promise<boolean> {
  try {
    await work;
    return true;
  } catch (error) {
    showToast(error instanceof Error ? error.message : String(error));
    return false;
  }
}

/** Counts the times that a task, or the page for a new one, was opened. */
export const openedTaskCounter = signal(0);

/** Show something in place of a task. */
export function closeTaskView(): void {
  if (location.hash) history.pushState(null, "", location.pathname);
  currentConversation.value = null;
}

/** Open a task, or with null the page for a new one. */
export function openTask(id: string | null): void {
  openedTaskCounter.value++;
  const hash = id === null ? "" : `#task=${encodeURIComponent(id)}`;
  if (location.hash !== hash) history.pushState(null, "", hash || location.pathname);
  if (id === null) {
    currentConversation.value = null;
    return;
  }
  if (currentConversation.value?.id === id) return;
  currentConversation.value = new Conversation(id);
  conversationRevision.value++;
  void loadConversation(currentConversation.value);
}

export function scrollToLatest(): void {
  scrollToLatestCounter.value++;
}

export function resumeTask(id: string): Promise<boolean> {
  resumingTaskIds.add(id);
  return tryOrToast(
    sendCommand("resumeTask", {}, id).catch((error: unknown) => {
      resumingTaskIds.delete(id);
      throw error;
    }),
  );
}

function handleConnectionState(state: ConnectionState): void {
  if (state === "refused") {
    removeCredential();
    const storedToken = loadToken();
    if (storedToken !== null && storedToken !== lastCredential) {
      // The link was used before, perhaps by this browser.
      connect(storedToken);
      return;
    }
    clearToken();
    socket = null;
    connectionState.value = "login";
    showToast("joey does not know this token. Each link works once.");
    return;
  }
  connectionState.value = state;
}

function handleWelcome(data: Welcome): void {
  welcome.value = data;
  void tryOrToast(Promise.all([loadTaskList(), loadModesAndProfiles()]));
  const conversation = currentConversation.value;
  if (conversation === null) {
    const taskId = new URLSearchParams(location.hash.slice(1)).get("task");
    if (taskId) openTask(taskId);
  } else void (conversation.isLoaded ? resyncConversation(conversation) : loadConversation(conversation));
}

async function loadTaskList(): Promise<void> {
  const { tasks } = await sendCommand("listTasks", { limit: TASK_LIST_LIMIT });
  taskList.load(tasks);
}

export async function loadModesAndProfiles(): Promise<void> {
  const [modeData, profileData, activeData, { configuration }] = await Promise.all([
    sendCommand("getModes"),
    sendCommand("getProfiles"),
    sendCommand("getActiveProfile"),
    sendCommand("getConfiguration"),
  ]);
  batch(() => {
    modes.value = modeData.modes;
    profileNames.value = profileData.profiles;
    activeProfile.value = activeData.activeProfile;
    defaultMode.value = String(configuration["mode"] ?? "code");
  });
}

/** Slash commands may change while the page is open, so they are loaded whenever the menu opens. */
export async function loadSlashCommands(): Promise<void> {
  slashCommands.value = (await sendCommand("getCommands")).commands;
}

async function loadConversation(conversation: Conversation): Promise<void> {
  isLoading.value = true;
  try {
    const { messages, seq } = await sendCommand("getMessages", {}, conversation.id);
    const [{ task }, { todos }] = await Promise.all([
      sendCommand("getTask", {}, conversation.id),
      sendCommand("getTodos", {}, conversation.id),
    ]);
    conversation.load(messages, seq, task, todos);
    await subscribe(conversation);
  } catch (error) {
    handleLoadError(conversation, error);
  } finally {
    isLoading.value = false;
    scheduleUpdate();
  }
}

async function subscribe(conversation: Conversation): Promise<{ seq: number }> {
  const { record, part } = conversation.lastEvent;
  return sendCommand("subscribe", { taskId: conversation.id, since: record, part }, conversation.id);
}

/** After a gap: receive the missed events, then load the task's status. */
async function resyncConversation(conversation: Conversation): Promise<void> {
  conversation.discardPartialRows();
  try {
    const { seq } = await subscribe(conversation);
    if (seq < conversation.lastEvent.record) {
      await loadConversation(conversation);
      return;
    }
    conversation.applyTaskInfo((await sendCommand("getTask", {}, conversation.id)).task);
  } catch (error) {
    handleLoadError(conversation, error);
  }
  scheduleUpdate();
}

function handleLoadError(conversation: Conversation, error: unknown): void {
  if (error instanceof CommandError && error.code === "OFFLINE") return;
  if (error instanceof CommandError && error.code === "TASK_NOT_FOUND") conversation.isMissing = true;
  else showToast(error instanceof Error ? error.message : String(error));
}

function handleEvent(frame: EventFrame): void {
  taskList.applyEvent(frame, welcome.value?.workspace ?? "");
  if (["providerProfileChanged", "modeChanged"].includes(frame.eventName))
    void tryOrToast(loadModesAndProfiles());
  if (frame.eventName === "permissionsChanged") permissionsRevision.value++;
  const conversation = currentConversation.value;
  if (frame.eventName === "resync") {
    void loadTaskList();
    if (conversation?.isLoaded) void resyncConversation(conversation);
    return;
  }
  if (frame.eventName === "taskResumable" || frame.eventName === "taskIdle") confirmResume(frame);
  if (conversation === null || frame.taskId !== conversation.id || !conversation.isLoaded) return;
  conversation.applyEvent(frame);
  if (frame.eventName === "taskStarted") void tryOrToast(refreshTaskMetadata(conversation));
  scheduleUpdate();
}

function confirmResume(frame: EventFrame): void {
  const { taskId, payload } = frame;
  if (taskId === undefined || !String(payload["ask"]).startsWith("resume_")) return;
  if (!resumingTaskIds.delete(taskId)) return;
  const answer = { askTs: payload["askTs"], response: "yesButtonClicked" };
  void tryOrToast(sendCommand("respond", answer, taskId));
}

/** The model and the context window of a task are known once it has started. */
async function refreshTaskMetadata(conversation: Conversation): Promise<void> {
  conversation.applyTaskMetadata((await sendCommand("getTask", {}, conversation.id)).task);
  scheduleUpdate();
}

function scheduleUpdate(): void {
  if (isUpdateScheduled) return;
  isUpdateScheduled = true;
  // A hidden tab gets no frames, and need not be drawn; it catches up with the next one.
  requestAnimationFrame(() => {
    isUpdateScheduled = false;
    conversationRevision.value++;
  });
}
