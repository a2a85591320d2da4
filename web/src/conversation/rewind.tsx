// The rewind form: a preview of what changes, editing the message, forking; and the undo notice.

import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import type { Conversation } from "../state/conversation";
import { tryOrToast, sendCommand, currentConversation, openTask, scrollToLatest } from "../state/store";
import { ImageThumbnails } from "../render/images";
import { isImageDataUri } from "../render/markdown";
import { isRowVisible } from "./rows";
import type { Row, RewindChanges } from "../wire/protocol";

interface RewindTarget {
  taskId: string;
  ts: number;
  text: string;
  images: string[];
  /** The task itself: it can be edited, but not taken back. */
  isFirst: boolean;
}

/** The message that the dialog is about. */
export const rewindTarget = signal<RewindTarget | null>(null);

export function openRewindDialog(row: Row, isFirst: boolean): void {
  const conversation = currentConversation.value;
  if (conversation === null) return;
  rewindTarget.value = { taskId: conversation.id, ts: row.ts, text: row.text ?? "", images: row.images ?? [], isFirst };
}

export function RewindForm({ target, onClose }: { target: RewindTarget; onClose: () => void }) {
  const [text, setText] = useState(target.text);
  const [restoreFiles, setRestoreFiles] = useState(false);
  const [isBusy, setIsBusy] = useState(false);
  const [changes, setChanges] = useState<RewindChanges | null>(null);
  const { taskId, ts, images, isFirst } = target;
  const rewindArgs = { messageTs: ts, keep: isFirst, files: restoreFiles };

  useEffect(() => {
    let isCurrent = true;
    setChanges(null);
    const preview = sendCommand("rewindTask", { ...rewindArgs, preview: true }, taskId).then((answer) => {
      if (isCurrent) setChanges(answer.changes);
    });
    void tryOrToast(preview).then((succeeded) => {
      if (!succeeded && restoreFiles && isCurrent) setRestoreFiles(false);
    });
    return () => (isCurrent = false);
  }, [taskId, ts, restoreFiles]);

  const runAndClose = async (work: () => Promise<unknown>) => {
    setIsBusy(true);
    const succeeded = await tryOrToast(work());
    setIsBusy(false);
    if (succeeded) onClose();
  };
  const rewind = () => sendCommand("rewindTask", { ...rewindArgs, force: hasConflicts(changes) }, taskId);
  const sendInstead = async () => {
    scrollToLatest();
    if (restoreFiles) await rewind();
    if (restoreFiles && !isFirst) await sendCommand("sendMessage", { message: text, images }, taskId);
    else await sendCommand("editMessage", { messageTs: ts, text, images }, taskId);
  };
  const fork = async () => openTask((await sendCommand("forkTask", { messageTs: ts }, taskId)).taskId);

  return (
    <form class="rewind" onSubmit={(event) => event.preventDefault()}>
      <label class="field">
        <span>Your message</span>
        <textarea rows={4} value={text} onInput={(event) => setText(event.currentTarget.value)} />
      </label>
      <ImageThumbnails images={images.filter(isImageDataUri)} />
      <label class="toggle">
        <input
          type="checkbox"
          role="switch"
          checked={restoreFiles}
          onChange={(event) => setRestoreFiles(event.currentTarget.checked)}
        />
        Bring back the files of that moment
      </label>
      <RewindPreview changes={changes} />
      <div class="buttons">
        <button type="button" disabled={isBusy || !text.trim()} onClick={() => void runAndClose(sendInstead)}>
          Send this instead
        </button>
        <button type="button" disabled={isBusy || changes === null} onClick={() => void runAndClose(rewind)}>
          {hasConflicts(changes) ? "Go back anyway" : "Only go back"}
        </button>
        <button type="button" disabled={isBusy} onClick={() => void runAndClose(fork)}>
          New task from here
        </button>
      </div>
    </form>
  );
}

function hasConflicts(changes: RewindChanges | null): boolean {
  return (changes?.conflicts.length ?? 0) > 0;
}

function RewindPreview({ changes }: { changes: RewindChanges | null }) {
  if (changes === null) return <p class="muted">Checking what would change…</p>;
  const { rows, commands, subtasks, files, conflicts, filesLeft, editsAsked } = changes;
  return (
    <ul class="rewind-changes" aria-label="What going back changes">
      <li>{pluralize(countMessages(rows), "message")} of this conversation will go; this can be undone.</li>
      {commands.length > 0 && (
        <li>
          {pluralize(commands.length, "command")} ran since; what {commands.length === 1 ? "it" : "they"} did is not
          undone: {formatShortList(commands)}
        </li>
      )}
      {subtasks.length > 0 && <li>{pluralize(subtasks.length, "subtask")} stay as tasks of their own.</li>}
      {groupByOutcome(files).map(({ outcome, paths }) => (
        <li key={outcome}>
          {pluralize(paths.length, "file")} will be {outcome}: {formatShortList(paths)}
        </li>
      ))}
      {groupByReason(filesLeft).map(({ reason, paths }) => (
        <li key={reason}>
          {pluralize(paths.length, "file")} will not be taken back ({reason}): {formatShortList(paths)}
        </li>
      ))}
      {editsAsked && <li>Edits, which you accepted for this task, will need approval again.</li>}
      {conflicts.length > 0 && (
        <li class="warning">
          Somebody else changed {formatShortList(conflicts)}: that would be lost, but for a checkpoint.
        </li>
      )}
    </ul>
  );
}

/** Messages are counted as `joey tasks rewind` does: requests are none. */
function countMessages(timestamps: number[]): number {
  const removed = new Set(timestamps);
  const isMessage = (row: Row) => row.say !== "api_req_started" && isRowVisible(row, false);
  const rows = currentConversation.value?.rows ?? [];
  return rows.filter((row) => removed.has(row.ts) && isMessage(row)).length;
}

/** What becomes of files, by how they differ afterwards. */
const FILE_OUTCOMES = { removed: "deleted", changed: "restored", added: "created" } as const;
const FILE_CHANGE_KINDS = ["removed", "changed", "added"] as const;

function groupByOutcome(files: RewindChanges["files"]): { outcome: string; paths: string[] }[] {
  return FILE_CHANGE_KINDS.map((kind) => ({
    outcome: FILE_OUTCOMES[kind],
    paths: files.filter((file) => file.kind === kind).map(({ path }) => path),
  })).filter(({ paths }) => paths.length > 0);
}

/** Why a file is in no checkpoint. */
const UNRESTORED_REASONS = {
  ignored: "ignored by git",
  outside: "outside of the workspace",
  large: "too large to be kept, or not readable",
} as const;

function groupByReason(files: RewindChanges["filesLeft"]): { reason: string; paths: string[] }[] {
  return Object.entries(UNRESTORED_REASONS)
    .map(([why, reason]) => ({
      reason,
      paths: files.filter((file) => file.why === why).map(({ path }) => path),
    }))
    .filter(({ paths }) => paths.length > 0);
}

/** Shown below a rewound conversation until it continues. */
export function RewindNotice({ conversation }: { conversation: Conversation }) {
  if (!conversation.isRewound) return null;
  return (
    <p class="rewound" role="status">
      <span>The task was rewound to here.</span>
      <button onClick={() => void tryOrToast(sendCommand("undoRewind", {}, conversation.id))}>Undo</button>
    </p>
  );
}

function pluralize(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

function formatShortList(items: string[]): string {
  const hiddenCount = items.length - 5;
  return items.slice(0, 5).join(", ") + (hiddenCount > 0 ? ` and ${hiddenCount} more` : "");
}
