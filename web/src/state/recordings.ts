// Which recordings are shown in place of a task, and what is loaded of them.

import { effect, signal } from "@preact/signals";
import type { RecordedComparison, RecordedConversation, RecordedSession } from "../wire/protocol";
import { closeTaskView, openedTaskCounter, sendCommand, tryOrToast } from "./store";

const REQUESTS_PER_PAGE = 100;
const SESSIONS_PER_PAGE = 100;

export const isShowingRecordings = signal(false);
export const sessions = signal<{ sessions: RecordedSession[]; total: number } | null>(null);
export const recording = signal<RecordedConversation | null>(null);
export const comparison = signal<RecordedComparison | null>(null);
/** What the view waits for; a later answer to an earlier wish is dropped. */
let latestRequest = 0;

effect(() => {
  void openedTaskCounter.value;
  isShowingRecordings.value = false;
});

export function openRecordings(): void {
  closeTaskView();
  isShowingRecordings.value = true;
  recording.value = comparison.value = null;
  load(sendCommand("getRecordings", { limit: SESSIONS_PER_PAGE }), (data) => (sessions.value = data));
}

export function loadMoreSessions(): void {
  const known = sessions.value?.sessions ?? [];
  load(sendCommand("getRecordings", { limit: SESSIONS_PER_PAGE, offset: known.length }), (data) => {
    sessions.value = { sessions: [...known, ...data.sessions], total: data.total };
  });
}

export function openRecording(session: number): void {
  comparison.value = null;
  load(sendCommand("getRecording", { session, limit: REQUESTS_PER_PAGE }), (data) => (recording.value = data));
}

export function loadMoreRequests(): void {
  const known = recording.value;
  if (known === null) return;
  const range = { session: known.session.id, limit: REQUESTS_PER_PAGE, offset: known.requests.length };
  load(sendCommand("getRecording", range), (data) => {
    recording.value = { ...data, requests: [...known.requests, ...data.requests] };
  });
}

/** Without `other`, with the request that could have filled the cache. */
export function compareRequests(session: number, turn: number, other?: number): void {
  const pair = other === undefined ? { session, turn } : { session, turn, other };
  load(sendCommand("compareRecordedRequests", pair), (data) => (comparison.value = data));
}

export function leaveComparison(): void {
  latestRequest++;
  comparison.value = null;
}

function load<T>(answer: Promise<T>, show: (data: T) => void): void {
  const request = ++latestRequest;
  void tryOrToast(
    answer.then((data) => {
      if (request === latestRequest) show(data);
    }),
  );
}
