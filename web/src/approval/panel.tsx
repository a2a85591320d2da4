// The panel for joey's questions, with the answer buttons. They are in the same places for every kind
// of question; a message that was written for the question is sent with the answer.

import type { Ref } from "preact";
import type { Conversation } from "../state/conversation";
import { escapeHiddenChars } from "../render/format";
import type { PressGuard } from "./guard";
import { AskSubject, AskWarnings, ProgramChips } from "./subject";
import type { AskChoice, AskView } from "../wire/protocol";

/** The open question; null until its row has arrived, as there is nothing to see and to answer. */
export function getOpenAsk(conversation: Conversation): AskView | null {
  const { ask } = conversation;
  return ask !== null && conversation.findRow(ask.ts) !== undefined ? ask.view : null;
}

type ChoiceKind = "primary" | "danger" | "other" | "suggestion";

export function getChoiceKind({ answer, word }: AskChoice): ChoiceKind {
  if (answer.response === "messageResponse") return "suggestion";
  if (answer.response === "noButtonClicked") return "danger";
  return word === "yes" ? "primary" : "other";
}

const CHOICE_SHORTCUTS = { primary: "Alt+Y", danger: "Alt+N", other: undefined, suggestion: undefined };

interface AskPanelProps {
  view: AskView;
  isBusy: boolean;
  guard: PressGuard;
  /** The panel itself, which takes the focus of a question that was answered by a key. */
  panelRef?: Ref<HTMLElement>;
  onChoose(event: MouseEvent, choice: AskChoice): void;
}

export function AskPanel({ view, isBusy, guard, panelRef, onChoose }: AskPanelProps) {
  const suggestions = view.choices.filter((choice) => getChoiceKind(choice) === "suggestion");
  const buttons = view.choices.filter((choice) => ["primary", "danger"].includes(getChoiceKind(choice)));
  const others = view.choices.filter((choice) => getChoiceKind(choice) === "other");
  const { text = "", reason = "", confinement = "" } = view;
  const renderChoice = (choice: AskChoice, index: number) => {
    const kind = getChoiceKind(choice);
    return (
      <button
        key={index}
        class={kind}
        disabled={isBusy}
        aria-disabled={!guard.isOpen || !guard.isSettled}
        aria-keyshortcuts={CHOICE_SHORTCUTS[kind]}
        onClick={(event) => onChoose(event, choice)}
      >
        {kind === "suggestion" && <kbd>{index + 1}</kbd>} <span>{escapeHiddenChars(choice.label)}</span>
        {choice.rule && <code class="rule">{escapeHiddenChars(choice.rule)}</code>}
      </button>
    );
  };
  return (
    <section class="ask" aria-label={view.title} ref={panelRef} tabIndex={-1}>
      <AskWarnings {...view} />
      <div class="asked">
        <strong dir="auto">{escapeHiddenChars(view.title)}</strong>
        <ProgramChips {...view} />
        {text && `${text}?` !== view.title && <AskSubject text={text} />}
        {confinement && <p class="why">{escapeHiddenChars(confinement)}</p>}
        {reason && (
          <p class="why" title={reason}>
            Asks because {escapeHiddenChars(reason)}
          </p>
        )}
        <div class="suggestions">{suggestions.map(renderChoice)}</div>
      </div>
      <div class="buttons">
        {buttons.length + others.length === 0 && <span class="muted">{view.hint}</span>}
        {buttons.map(renderChoice)}
        {others.length > 0 && <div class="others">{others.map(renderChoice)}</div>}
      </div>
    </section>
  );
}
