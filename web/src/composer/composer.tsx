// The composer below a conversation: questions, queued messages and the message field.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { AskPanel, shapeOf, suggestionsOf, type AskShape, type Choice } from "../approval/panel";
import type { Conversation } from "../state/conversation";
import { draftOf, keepDraft } from "./drafts";
import { Editor, type Words } from "./editor";
import { Awaited } from "../tasks/subtasks";
import { useGuard, type Guard } from "../approval/guard";
import { onKey } from "../page/keys";
import { attempt, command, link, revision, showLatest } from "../state/store";
import { Rewound } from "../conversation/rewind";
import { ModeSelect, ProfileSelect } from "./pickers";
import { TodoBar } from "../tools/todos";
import type { AskResponse } from "../wire/protocol";

/** What is being written, and the question in sight when it was begun. */
interface Draft extends Words {
  askTs: number | null;
}

const NOTHING: Draft = { text: "", images: [], askTs: null };

function isEmpty({ text, images }: Words): boolean {
  return !text.trim() && images.length === 0;
}

export function Composer({ conversation }: { conversation: Conversation }) {
  void revision.value;
  const [draft, setDraft] = useState<Draft>({ ...NOTHING, text: draftOf(conversation.id) });
  const [busy, setBusy] = useState(false);
  const { id, ask } = conversation;
  const shape = conversation.live ? shapeOf(conversation) : null;
  const asked = shape === null ? null : (ask?.ts ?? null);
  const guard = useGuard(asked === null ? null : String(asked));
  const offline = link.value !== "open";

  // Where there is no room for all of it, the buttons stay in their places and the rest is scrolled.
  const footer = useRef<HTMLElement>(null);
  useLayoutEffect(() => footer.current?.scrollTo(0, footer.current.scrollHeight), [asked]);

  // A key may be pressed before the latest letters are drawn: they go along all the same.
  const latest = useRef(draft);

  const change = (next: Words) => {
    const begun = isEmpty(latest.current) ? (guard.open ? asked : null) : latest.current.askTs;
    latest.current = { ...next, askTs: begun };
    setDraft(latest.current);
    keepDraft(id, next.text);
  };

  const carryOut = async (work: Promise<unknown>): Promise<boolean> => {
    setBusy(true);
    const done = await attempt(work);
    setBusy(false);
    return done;
  };

  /** Send what is written; it is taken out of the field when it has arrived. */
  const carryOutWith = async (work: (words: Words) => Promise<unknown>) => {
    const sent = latest.current;
    const { text, images } = sent;
    if (!isEmpty(sent)) showLatest();
    if ((await carryOut(work({ text: text.trim(), images }))) && latest.current === sent) change(NOTHING);
  };

  const answer = async (response: AskResponse, words: Words, always = false) => {
    const said = { askTs: asked, response, ...words, ...(always && { always }) };
    const { accepted } = await command("respond", said, id);
    if (!accepted) throw new Error("This was answered already.");
  };
  const respond = (event: MouseEvent | KeyboardEvent, { response, rule }: Choice) => {
    if (busy || !guard.accepts(event)) return;
    const always = rule !== undefined;
    if (latest.current.askTs === asked) void carryOutWith((words) => answer(response, words, always));
    else void carryOut(answer(response, { text: "", images: [] }, always));
  };
  const suggest = (event: MouseEvent | KeyboardEvent, text: string) => {
    if (busy || !guard.accepts(event)) return;
    showLatest();
    void carryOut(answer("messageResponse", { text, images: [] }));
  };

  /** Whether a draft is sent as a message of its own, not as an answer. */
  const isMessage = ({ askTs }: Draft) => shape === null || (shape.approval === true && askTs !== asked);

  const send = (event: MouseEvent | KeyboardEvent) => {
    if (busy || isEmpty(latest.current)) return;
    if (isMessage(latest.current)) {
      // A question may be open that is not on the screen yet: it must not be answered by this.
      void carryOutWith(({ text: message, images }) =>
        command("sendMessage", { message, images, queue: true }, id),
      );
    } else if (guard.accepts(event)) {
      void carryOutWith((words) => answer("messageResponse", words));
    }
  };

  useLayoutEffect(() =>
    onKey((event) => {
      if (!event.altKey || event.ctrlKey || event.metaKey || shape === null) return false;
      const yes = shape.choices.find((choice) => choice.kind === "primary");
      const no = shape.choices.find((choice) => choice.kind === "danger");
      if (event.code === "KeyY" && yes) respond(event, yes);
      else if (event.code === "KeyN" && no) respond(event, no);
      else {
        const suggestion = suggestionsOf(conversation)[Number(event.code.replace("Digit", "")) - 1];
        if (suggestion === undefined) return false;
        suggest(event, suggestion.answer);
      }
      return true;
    }),
  );

  const hint =
    shape?.hint ??
    (["running", "delegated"].includes(conversation.status)
      ? "Say something; joey reads it before its next step"
      : "Say how to go on");
  return (
    <footer class="composer" ref={footer}>
      {conversation.failure && <p class="notice bad">✕ {conversation.failure}</p>}
      <TodoBar todos={conversation.todos} name={id} />
      <Queue conversation={conversation} />
      <Awaited conversation={conversation} />
      <Rewound conversation={conversation} />
      {shape && (
        <AskPanel
          conversation={conversation}
          busy={busy || offline}
          guard={guard}
          respond={respond}
          suggest={suggest}
        />
      )}
      <Editor words={draft} change={change} send={send} label="Message to joey" hint={hint}>
        <ModeSelect
          value={conversation.mode}
          disabled={!conversation.live}
          change={(mode) => void attempt(command("switchMode", { mode }, id))}
        />
        <ProfileSelect />
        <span class="grow" />
        <SendButton
          shape={isEmpty(draft) || !isMessage(draft) ? shape : null}
          disabled={busy || offline || isEmpty(draft)}
          guard={guard}
          send={send}
        />
      </Editor>
    </footer>
  );
}

interface SendProps {
  /** The question that is answered by it. */
  shape: AskShape | null;
  disabled: boolean;
  guard: Guard;
  send(event: MouseEvent): void;
}

function SendButton({ shape, disabled, guard, send }: SendProps) {
  return (
    <button
      class={shape?.rejects ? "send danger" : "send"}
      disabled={disabled}
      aria-disabled={shape !== null && !guard.open}
      onClick={send}
    >
      {shape?.send ?? "Send"}
    </button>
  );
}

function Queue({ conversation }: { conversation: Conversation }) {
  if (conversation.queue.length === 0) return null;
  return (
    <ul class="queue" aria-label="Queued messages">
      {conversation.queue.map((message) => (
        <li key={message.id}>
          <span class="muted">queued</span>
          <span class="ellipsis">{message.text || "a picture"}</span>
          <button
            class="icon"
            aria-label={`Remove the queued message: ${message.text}`}
            onClick={() =>
              void attempt(command("editQueue", { id: message.id, remove: true }, conversation.id))
            }
          >
            ✕
          </button>
        </li>
      ))}
    </ul>
  );
}
