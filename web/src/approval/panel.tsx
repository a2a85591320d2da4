// The panel for joey's questions, with the answer buttons. They are in the same places for every kind
// of question; a message that was written for the question is sent with the answer.

import type { Conversation } from "../state/conversation";
import { escapeHiddenChars } from "../render/format";
import type { PressGuard } from "./guard";
import { scrollToLatest } from "../state/store";
import type { AskChoice, AskView } from "../wire/protocol";

/** The open question; null until its row has arrived, as there is nothing to see and to answer. */
export function getOpenAsk(conversation: Conversation): AskView | null {
  const { ask } = conversation;
  return ask !== null && conversation.findRow(ask.ts) !== undefined ? ask.view : null;
}

type ChoiceKind = "primary" | "danger" | "other" | "suggestion";

export function getChoiceKind({ answer }: AskChoice): ChoiceKind {
  if (answer.response === "messageResponse") return "suggestion";
  if (answer.response === "noButtonClicked") return "danger";
  return answer.always ? "other" : "primary";
}

const CHOICE_SHORTCUTS = { primary: "Alt+Y", danger: "Alt+N", other: undefined, suggestion: undefined };

/** What the question is about, and why it is asked; a click scrolls to its row. */
function AskSubject({ view }: { view: AskView }) {
  const subject = escapeHiddenChars(view.text ?? "").replace(/\s*\n\s*/g, " ⏎ ");
  const reason = escapeHiddenChars(view.reason ?? "");
  return (
    <>
      {subject && (
        <button class="about" title={subject} onClick={scrollToLatest}>
          <code>{subject}</code>
        </button>
      )}
      {reason && (
        <p class="why" title={reason}>
          Asks because {reason}
        </p>
      )}
    </>
  );
}

interface AskPanelProps {
  view: AskView;
  isBusy: boolean;
  guard: PressGuard;
  onChoose(event: MouseEvent, choice: AskChoice): void;
}

export function AskPanel({ view, isBusy, guard, onChoose }: AskPanelProps) {
  const suggestions = view.choices.filter((choice) => getChoiceKind(choice) === "suggestion");
  // "Always" comes last, so that the others are in the same places at every question.
  const buttons = view.choices
    .filter((choice) => getChoiceKind(choice) !== "suggestion")
    .sort((a, b) => Number(a.answer.always ?? false) - Number(b.answer.always ?? false));
  const renderChoice = (choice: AskChoice, index: number) => {
    const kind = getChoiceKind(choice);
    return (
      <button
        key={index}
        class={kind}
        disabled={isBusy}
        aria-disabled={!guard.isOpen}
        aria-keyshortcuts={CHOICE_SHORTCUTS[kind]}
        onClick={(event) => onChoose(event, choice)}
      >
        {kind === "suggestion" && <kbd>{index + 1}</kbd>} <span>{escapeHiddenChars(choice.label)}</span>
        {choice.rule && <code class="rule">{escapeHiddenChars(choice.rule)}</code>}
      </button>
    );
  };
  return (
    <section class="ask" aria-label={view.title}>
      <div class="asked">
        <strong>{escapeHiddenChars(view.title)}</strong>
        <AskSubject view={view} />
        <div class="suggestions">{suggestions.map(renderChoice)}</div>
      </div>
      <div class="buttons">
        {buttons.length === 0 && <span class="muted">{view.hint}</span>}
        {buttons.map(renderChoice)}
      </div>
    </section>
  );
}
