// The composer below a conversation: questions, queued messages and the message field.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { AskPanel, getChoiceKind, getOpenAsk } from "../approval/panel";
import type { Conversation } from "../state/conversation";
import { loadDraft, storeDraft } from "./drafts";
import { MessageEditor, type MessageContent } from "./editor";
import { AwaitedSubtasks } from "../tasks/subtasks";
import { usePressGuard, type PressGuard } from "../approval/guard";
import { addKeyHandler, getShortcutLetter } from "../page/keys";
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
import type { AskChoice, AskView } from "../wire/protocol";

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
  const askView = conversation.isLive ? getOpenAsk(conversation) : null;
  const openAskTs = askView === null ? null : (ask?.ts ?? null);
  const panel = useRef<HTMLElement>(null);
  const guard = usePressGuard(
    openAskTs === null ? null : String(openAskTs),
    () => panel.current?.querySelectorAll(".buttons button") ?? [],
  );
  const isOffline = connectionState.value !== "open";

  // Where there is no room for all of it, the buttons stay in their places and the rest is scrolled.
  const footer = useRef<HTMLElement>(null);
  useLayoutEffect(() => footer.current?.scrollTo(0, footer.current.scrollHeight), [openAskTs]);

  // The focus stays with the questions, but on none of their buttons: the next key must not press one.
  const wasAnsweredByKey = useRef(false);
  useLayoutEffect(() => {
    if (openAskTs === null || !wasAnsweredByKey.current) return;
    wasAnsweredByKey.current = false;
    panel.current?.focus({ preventScroll: true });
  }, [openAskTs]);

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

  const answerAsk = async (answer: AskChoice["answer"], message?: MessageContent) => {
    const { accepted } = await sendCommand("respond", { askTs: openAskTs, ...answer, ...message }, id);
    if (!accepted) throw new Error("This question was already answered.");
  };
  const choose = (event: MouseEvent | KeyboardEvent, choice: AskChoice) => {
    if (isBusy || !guard.accepts(event)) return;
    wasAnsweredByKey.current = panel.current?.contains(document.activeElement) ?? false;
    const isSuggestion = getChoiceKind(choice) === "suggestion";
    if (isSuggestion) scrollToLatest();
    if (!isSuggestion && latestDraft.current.askTs === openAskTs)
      void sendDraft((message) => answerAsk(choice.answer, message));
    else void runWhileBusy(answerAsk(choice.answer));
  };

  /** Whether a draft is sent as a message of its own, not as an answer. */
  const isSeparateMessage = ({ askTs }: ComposerDraft) =>
    askView === null || (askView.isApproval === true && askTs !== openAskTs);

  const sendMessage = (event: MouseEvent | KeyboardEvent) => {
    if (isBusy || isEmptyMessage(latestDraft.current)) return;
    if (isSeparateMessage(latestDraft.current)) {
      // A question may be open that is not on the screen yet: it must not be answered by this.
      void sendDraft(({ text: message, images }) =>
        sendCommand("sendMessage", { message, images, queue: true }, id),
      );
    } else if (guard.accepts(event)) {
      void sendDraft((message) =>
        answerAsk({ response: askView?.messageResponse ?? "messageResponse" }, message),
      );
    }
  };

  useLayoutEffect(() =>
    addKeyHandler((event) => {
      if (!event.altKey || event.ctrlKey || event.metaKey || askView === null) return false;
      const kind = { y: "primary", n: "danger" }[getShortcutLetter(event)] ?? "suggestion";
      const choices = askView.choices.filter((choice) => getChoiceKind(choice) === kind);
      const choice = choices[kind === "suggestion" ? Number(event.code.replace("Digit", "")) - 1 : 0];
      if (choice === undefined) return false;
      choose(event, choice);
      return true;
    }),
  );

  const placeholder =
    askView?.hint ??
    (["running", "delegated"].includes(conversation.status)
      ? "Say something; joey reads it before its next step"
      : "Say how to continue");
  return (
    <footer class="composer" ref={footer}>
      {conversation.failureMessage && <p class="notice bad">✕ {conversation.failureMessage}</p>}
      <TodoBar todos={conversation.todos} taskId={id} />
      <QueuedMessages conversation={conversation} />
      <AwaitedSubtasks conversation={conversation} />
      <RewindNotice conversation={conversation} />
      {askView && (
        <AskPanel
          key={openAskTs}
          view={askView}
          isBusy={isBusy || isOffline}
          guard={guard}
          panelRef={panel}
          onChoose={choose}
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
          askView={isEmptyMessage(draft) || !isSeparateMessage(draft) ? askView : null}
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
  askView: AskView | null;
  isDisabled: boolean;
  guard: PressGuard;
  onSend(event: MouseEvent): void;
}

function SendButton({ askView, isDisabled, guard, onSend }: SendButtonProps) {
  return (
    <button
      class={askView?.isApproval ? "send danger" : "send"}
      disabled={isDisabled}
      aria-disabled={askView !== null && !guard.isOpen}
      onClick={onSend}
    >
      {askView?.messageLabel ?? "Send"}
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
