// The composer below a conversation: questions, queued messages and the message field.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { AskPanel, buildAskForm, parseSuggestions, type AskForm, type AnswerChoice } from "../approval/panel";
import type { Conversation } from "../state/conversation";
import { loadDraft, storeDraft } from "./drafts";
import { MessageEditor, type MessageContent } from "./editor";
import { AwaitedSubtasks } from "../tasks/subtasks";
import { usePressGuard, type PressGuard } from "../approval/guard";
import { addKeyHandler } from "../page/keys";
import {
  tryOrToast,
  sendCommand,
  connectionState,
  conversationRevision,
  scrollToLatest,
} from "../state/store";
import { RewindNotice } from "../conversation/rewind";
import { ModeSelect, ProfileSelect } from "./pickers";
import { TodoBar } from "../tools/todos";
import type { AskResponse } from "../wire/protocol";

/** The unsent message, and the question that was visible when the user began to write it. */
interface ComposerDraft extends MessageContent {
  askTs: number | null;
}

const EMPTY_DRAFT: ComposerDraft = { text: "", images: [], askTs: null };

function isEmptyMessage({ text, images }: MessageContent): boolean {
  return !text.trim() && images.length === 0;
}

export function Composer({ conversation }: { conversation: Conversation }) {
  void conversationRevision.value;
  const [draft, setDraft] = useState<ComposerDraft>({ ...EMPTY_DRAFT, text: loadDraft(conversation.id) });
  const [isBusy, setIsBusy] = useState(false);
  const { id, ask } = conversation;
  const askForm = conversation.isLive ? buildAskForm(conversation) : null;
  const openAskTs = askForm === null ? null : (ask?.ts ?? null);
  const guard = usePressGuard(openAskTs === null ? null : String(openAskTs));
  const isOffline = connectionState.value !== "open";

  // Where there is no room for all of it, the buttons stay in their places and the rest is scrolled.
  const footer = useRef<HTMLElement>(null);
  useLayoutEffect(() => footer.current?.scrollTo(0, footer.current.scrollHeight), [openAskTs]);

  // A key may be pressed before the latest letters are drawn: they go along all the same.
  const latestDraft = useRef(draft);

  const updateDraft = (next: MessageContent) => {
    const draftAskTs = isEmptyMessage(latestDraft.current)
      ? guard.isOpen
        ? openAskTs
        : null
      : latestDraft.current.askTs;
    latestDraft.current = { ...next, askTs: draftAskTs };
    setDraft(latestDraft.current);
    storeDraft(id, next.text);
  };

  const runWhileBusy = async (work: Promise<unknown>): Promise<boolean> => {
    setIsBusy(true);
    const succeeded = await tryOrToast(work);
    setIsBusy(false);
    return succeeded;
  };

  /** Send the draft; the field is cleared when it has arrived. */
  const sendDraft = async (send: (message: MessageContent) => Promise<unknown>) => {
    const sentDraft = latestDraft.current;
    const { text, images } = sentDraft;
    if (!isEmptyMessage(sentDraft)) scrollToLatest();
    if ((await runWhileBusy(send({ text: text.trim(), images }))) && latestDraft.current === sentDraft)
      updateDraft(EMPTY_DRAFT);
  };

  const answerAsk = async (response: AskResponse, message: MessageContent, always = false) => {
    const args = { askTs: openAskTs, response, ...message, ...(always && { always }) };
    const { accepted } = await sendCommand("respond", args, id);
    if (!accepted) throw new Error("This was answered already.");
  };
  const respond = (event: MouseEvent | KeyboardEvent, { response, rule }: AnswerChoice) => {
    if (isBusy || !guard.accepts(event)) return;
    const always = rule !== undefined;
    if (latestDraft.current.askTs === openAskTs)
      void sendDraft((message) => answerAsk(response, message, always));
    else void runWhileBusy(answerAsk(response, { text: "", images: [] }, always));
  };
  const sendSuggestion = (event: MouseEvent | KeyboardEvent, text: string) => {
    if (isBusy || !guard.accepts(event)) return;
    scrollToLatest();
    void runWhileBusy(answerAsk("messageResponse", { text, images: [] }));
  };

  /** Whether a draft is sent as a message of its own, not as an answer. */
  const isSeparateMessage = ({ askTs }: ComposerDraft) =>
    askForm === null || (askForm.isApproval === true && askTs !== openAskTs);

  const sendMessage = (event: MouseEvent | KeyboardEvent) => {
    if (isBusy || isEmptyMessage(latestDraft.current)) return;
    if (isSeparateMessage(latestDraft.current)) {
      // A question may be open that is not on the screen yet: it must not be answered by this.
      void sendDraft(({ text: message, images }) =>
        sendCommand("sendMessage", { message, images, queue: true }, id),
      );
    } else if (guard.accepts(event)) {
      void sendDraft((message) => answerAsk("messageResponse", message));
    }
  };

  useLayoutEffect(() =>
    addKeyHandler((event) => {
      if (!event.altKey || event.ctrlKey || event.metaKey || askForm === null) return false;
      const acceptChoice = askForm.choices.find((choice) => choice.kind === "primary");
      const rejectChoice = askForm.choices.find((choice) => choice.kind === "danger");
      if (event.code === "KeyY" && acceptChoice) respond(event, acceptChoice);
      else if (event.code === "KeyN" && rejectChoice) respond(event, rejectChoice);
      else {
        const suggestion = parseSuggestions(conversation)[Number(event.code.replace("Digit", "")) - 1];
        if (suggestion === undefined) return false;
        sendSuggestion(event, suggestion.answer);
      }
      return true;
    }),
  );

  const placeholder =
    askForm?.placeholder ??
    (["running", "delegated"].includes(conversation.status)
      ? "Say something; joey reads it before its next step"
      : "Say how to go on");
  return (
    <footer class="composer" ref={footer}>
      {conversation.failureMessage && <p class="notice bad">✕ {conversation.failureMessage}</p>}
      <TodoBar todos={conversation.todos} taskId={id} />
      <QueuedMessages conversation={conversation} />
      <AwaitedSubtasks conversation={conversation} />
      <RewindNotice conversation={conversation} />
      {askForm && (
        <AskPanel
          conversation={conversation}
          isBusy={isBusy || isOffline}
          guard={guard}
          onRespond={respond}
          onSuggest={sendSuggestion}
        />
      )}
      <MessageEditor
        message={draft}
        onChange={updateDraft}
        onSend={sendMessage}
        label="Message to joey"
        placeholder={placeholder}
      >
        <ModeSelect
          value={conversation.mode}
          disabled={!conversation.isLive}
          onChange={(mode) => void tryOrToast(sendCommand("switchMode", { mode }, id))}
        />
        <ProfileSelect />
        <span class="grow" />
        <SendButton
          askForm={isEmptyMessage(draft) || !isSeparateMessage(draft) ? askForm : null}
          isDisabled={isBusy || isOffline || isEmptyMessage(draft)}
          guard={guard}
          onSend={sendMessage}
        />
      </MessageEditor>
    </footer>
  );
}

interface SendButtonProps {
  /** The question that the message answers. */
  askForm: AskForm | null;
  isDisabled: boolean;
  guard: PressGuard;
  onSend(event: MouseEvent): void;
}

function SendButton({ askForm, isDisabled, guard, onSend }: SendButtonProps) {
  return (
    <button
      class={askForm?.sendRejects ? "send danger" : "send"}
      disabled={isDisabled}
      aria-disabled={askForm !== null && !guard.isOpen}
      onClick={onSend}
    >
      {askForm?.sendLabel ?? "Send"}
    </button>
  );
}

function QueuedMessages({ conversation }: { conversation: Conversation }) {
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
              void tryOrToast(sendCommand("editQueue", { id: message.id, remove: true }, conversation.id))
            }
          >
            ✕
          </button>
        </li>
      ))}
    </ul>
  );
}
