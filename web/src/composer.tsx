// Below the conversation: what joey asks, what is queued, and the field for words.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { AskPanel, shapeOf, suggestionsOf } from "./askpanel";
import type { Conversation } from "./conversation";
import { draftOf, keepDraft } from "./drafts";
import { Editor, type Words } from "./editor";
import { Awaited } from "./family";
import { onKey } from "./keys";
import { attempt, command, link, revision, showLatest } from "./store";
import { Rewound } from "./rewind";
import { ModeSelect, ProfileSelect } from "./selectors";
import { TodoBar } from "./todos";
import type { AskResponse } from "./wire";

export function Composer({ conversation }: { conversation: Conversation }) {
  void revision.value;
  const [words, setWords] = useState<Words>({ text: draftOf(conversation.id), images: [] });
  const [busy, setBusy] = useState(false);
  const { id, ask } = conversation;
  const shape = conversation.live ? shapeOf(conversation) : null;
  const offline = link.value !== "open";

  // A key may be pressed before the latest letters are drawn: they go along all the same.
  const latest = useRef(words);

  const change = (next: Words) => {
    latest.current = next;
    setWords(next);
    keepDraft(id, next.text);
  };

  /** Send what is written; it is taken out of the field when it has arrived. */
  const carryOut = async (work: (words: Words) => Promise<unknown>) => {
    if (busy) return;
    const sent = latest.current;
    if (sent.text.trim() || sent.images.length > 0) showLatest();
    setBusy(true);
    const done = await attempt(work({ ...sent, text: sent.text.trim() }));
    setBusy(false);
    if (done && latest.current === sent) change({ text: "", images: [] });
  };

  const answer = async (response: AskResponse, words: Words, always = false) => {
    const said = { askTs: ask?.ts, response, ...words, ...(always && { always }) };
    const { accepted } = await command("respond", said, id);
    if (!accepted) throw new Error("This was answered already.");
  };
  const respond = (response: AskResponse, always = false) =>
    void carryOut((words) => answer(response, words, always));
  const suggest = (text: string) => {
    showLatest();
    void attempt(answer("messageResponse", { text, images: [] }));
  };

  const send = () => {
    const { text, images } = latest.current;
    if (!text.trim() && images.length === 0) return;
    if (shape !== null) respond("messageResponse");
    else void carryOut(({ text: message, images }) => command("sendMessage", { message, images }, id));
  };

  useLayoutEffect(() =>
    onKey((event) => {
      if (!event.altKey || event.ctrlKey || event.metaKey || shape === null) return false;
      const yes = shape.choices.find((choice) => choice.kind === "primary");
      const no = shape.choices.find((choice) => choice.kind === "danger");
      if (event.code === "KeyY" && yes) respond(yes.response);
      else if (event.code === "KeyN" && no) respond(no.response);
      else {
        const suggestion = suggestionsOf(conversation)[Number(event.code.replace("Digit", "")) - 1];
        if (suggestion === undefined) return false;
        suggest(suggestion.answer);
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
    <footer class="composer">
      {conversation.failure && <p class="notice bad">✕ {conversation.failure}</p>}
      <TodoBar todos={conversation.todos} name={id} />
      <Queue conversation={conversation} />
      <Awaited conversation={conversation} />
      <Rewound conversation={conversation} />
      {shape && (
        <AskPanel
          conversation={conversation}
          busy={busy || offline}
          respond={respond}
          suggest={suggest}
        />
      )}
      <Editor words={words} change={change} send={send} label="Message to joey" hint={hint}>
        <ModeSelect
          value={conversation.mode}
          disabled={!conversation.live}
          change={(mode) => void attempt(command("switchMode", { mode }, id))}
        />
        <ProfileSelect />
        <span class="grow" />
        <button
          class={shape?.rejects ? "send danger" : "send"}
          disabled={busy || offline || (!words.text.trim() && !words.images.length)}
          onClick={send}
        >
          {shape?.send ?? "Send"}
        </button>
      </Editor>
    </footer>
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
