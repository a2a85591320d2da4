// The rewind form: a preview of what changes, editing the message, forking; and the undo notice.

import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import type { Conversation } from "../state/conversation";
import { attempt, command, conversation, openTask, showLatest } from "../state/store";
import type { Row, RewindChanges } from "../wire/protocol";

interface Target {
  taskId: string;
  ts: number;
  text: string;
  /** The task itself: it can be said anew, but not be taken back. */
  first: boolean;
}

/** The message that the dialog is about. */
export const rewindTarget = signal<Target | null>(null);

export function askToRewind(row: Row, first: boolean): void {
  const open = conversation.value;
  if (open === null) return;
  rewindTarget.value = { taskId: open.id, ts: row.ts, text: row.text ?? "", first };
}

export function RewindForm({ target, close }: { target: Target; close: () => void }) {
  const [text, setText] = useState(target.text);
  const [files, setFiles] = useState(false);
  const [busy, setBusy] = useState(false);
  const [changes, setChanges] = useState<RewindChanges | null>(null);
  const { taskId, ts, first } = target;
  const where = { messageTs: ts, keep: first, files };

  useEffect(() => {
    let wanted = true;
    setChanges(null);
    const looked = command("rewindTask", { ...where, preview: true }, taskId).then((answer) => {
      if (wanted) setChanges(answer.changes);
    });
    void attempt(looked).then((went) => {
      if (!went && files && wanted) setFiles(false);
    });
    return () => (wanted = false);
  }, [taskId, ts, files]);

  const carryOut = async (work: () => Promise<unknown>) => {
    setBusy(true);
    const done = await attempt(work());
    setBusy(false);
    if (done) close();
  };
  const goBack = () => command("rewindTask", { ...where, force: hasConflicts(changes) }, taskId);
  const sayInstead = async () => {
    showLatest();
    if (files) await goBack();
    if (files && !first) await command("sendMessage", { message: text }, taskId);
    else await command("editMessage", { messageTs: ts, text }, taskId);
  };
  const fork = async () => openTask((await command("forkTask", { messageTs: ts }, taskId)).taskId);

  return (
    <form class="rewind" onSubmit={(event) => event.preventDefault()}>
      <label class="field">
        <span>Your message</span>
        <textarea
          rows={4}
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
      </label>
      <label class="toggle">
        <input
          type="checkbox"
          role="switch"
          checked={files}
          onChange={(event) => setFiles(event.currentTarget.checked)}
        />
        Bring back the files of that moment
      </label>
      <Changes changes={changes} />
      <div class="buttons">
        <button type="button" disabled={busy || !text.trim()} onClick={() => void carryOut(sayInstead)}>
          Send this instead
        </button>
        <button type="button" disabled={busy || changes === null} onClick={() => void carryOut(goBack)}>
          {hasConflicts(changes) ? "Go back all the same" : "Only go back"}
        </button>
        <button type="button" disabled={busy} onClick={() => void carryOut(fork)}>
          New task from here
        </button>
      </div>
    </form>
  );
}

function hasConflicts(changes: RewindChanges | null): boolean {
  return (changes?.conflicts.length ?? 0) > 0;
}

function Changes({ changes }: { changes: RewindChanges | null }) {
  if (changes === null) return <p class="muted">Looking at what would change…</p>;
  const { rows, commands, subtasks, files, conflicts, filesLeft, editsAsked } = changes;
  return (
    <ul class="rewind-changes" aria-label="What going back changes">
      <li>{count(rows.length, "row")} of this conversation will go; this can be undone.</li>
      {commands.length > 0 && (
        <li>
          {count(commands.length, "command")} ran since, and what they did stays: {some(commands)}
        </li>
      )}
      {subtasks.length > 0 && <li>{count(subtasks.length, "subtask")} stay as tasks of their own.</li>}
      {fatesOf(files).map(({ fate, paths }) => (
        <li key={fate}>
          {count(paths.length, "file")} will be {fate}: {some(paths)}
        </li>
      ))}
      {leftOf(filesLeft).map(({ reason, paths }) => (
        <li key={reason}>
          {count(paths.length, "file")} will not be taken back ({reason}): {some(paths)}
        </li>
      ))}
      {editsAsked && <li>Edits, which you accepted for this task, will be asked about again.</li>}
      {conflicts.length > 0 && (
        <li class="warning">
          Somebody else changed {some(conflicts)}: that would be lost, but for a checkpoint.
        </li>
      )}
    </ul>
  );
}

/** What becomes of files, by how they differ afterwards. */
const FATES = { removed: "deleted", changed: "restored", added: "created" } as const;
const KINDS = ["removed", "changed", "added"] as const;

function fatesOf(files: RewindChanges["files"]): { fate: string; paths: string[] }[] {
  return KINDS.map((kind) => ({
    fate: FATES[kind],
    paths: files.filter((file) => file.kind === kind).map(({ path }) => path),
  })).filter(({ paths }) => paths.length > 0);
}

/** Why a file is in no checkpoint. */
const REASONS = {
  ignored: "ignored by git",
  outside: "outside of the workspace",
  large: "too large to be kept, or not readable",
} as const;

function leftOf(files: RewindChanges["filesLeft"]): { reason: string; paths: string[] }[] {
  return Object.entries(REASONS)
    .map(([why, reason]) => ({
      reason,
      paths: files.filter((file) => file.why === why).map(({ path }) => path),
    }))
    .filter(({ paths }) => paths.length > 0);
}

/** Below a conversation that went back, until it goes on. */
export function Rewound({ conversation }: { conversation: Conversation }) {
  if (!conversation.rewound) return null;
  return (
    <p class="rewound" role="status">
      <span>The task went back to here.</span>
      <button onClick={() => void attempt(command("undoRewind", {}, conversation.id))}>Undo</button>
    </p>
  );
}

function count(number: number, thing: string): string {
  return `${number} ${thing}${number === 1 ? "" : "s"}`;
}

function some(things: string[]): string {
  const rest = things.length - 5;
  return things.slice(0, 5).join(", ") + (rest > 0 ? ` and ${rest} more` : "");
}
