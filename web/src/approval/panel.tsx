// The panel for joey's questions, with the answer buttons. They are in the same places for every kind
// of question; a message that was written for the question is sent with the answer.

import type { Conversation } from "../state/conversation";
import { parseJsonObject, escapeHiddenChars } from "../render/format";
import type { PressGuard } from "./guard";
import { formatAskSubject } from "../tools/calls";
import { formatReason } from "./reasons";
import { scrollToLatest } from "../state/store";
import type { AskResponse } from "../wire/protocol";

export interface AnswerChoice {
  label: string;
  response: AskResponse;
  kind: "primary" | "danger" | "other";
  /** The rule that this answer adds. */
  rule?: string;
}

export interface AskForm {
  title: string;
  choices: AnswerChoice[];
  placeholder: string;
  sendLabel: string;
  /** Whether sending a message rejects. */
  sendRejects?: boolean;
  /** joey asks to do something: only a message that was written for this question may reject it. */
  isApproval?: boolean;
}

const buildAcceptChoice = (label: string): AnswerChoice => ({
  label,
  response: "yesButtonClicked",
  kind: "primary",
});
const buildRejectChoice = (label: string): AnswerChoice => ({
  label,
  response: "noButtonClicked",
  kind: "danger",
});

const buildAlwaysChoice = (rule: string): AnswerChoice => ({
  label: "Always allow",
  response: "yesButtonClicked",
  kind: "other",
  rule,
});

const ASK_FORMS: Record<string, AskForm> = {
  tool: {
    title: "joey wants to do this",
    choices: [buildAcceptChoice("Approve"), buildRejectChoice("Reject")],
    placeholder: "Optional words for Approve or Reject",
    sendLabel: "Reject with words",
    sendRejects: true,
    isApproval: true,
  },
  command: {
    title: "joey wants to run this command",
    choices: [buildAcceptChoice("Approve"), buildRejectChoice("Reject")],
    placeholder: "Optional words for Approve or Reject",
    sendLabel: "Reject with words",
    sendRejects: true,
    isApproval: true,
  },
  followup: { title: "joey has a question", choices: [], placeholder: "Your answer", sendLabel: "Answer" },
  completion_result: {
    title: "joey is done",
    choices: [buildAcceptChoice("Accept")],
    placeholder: "Or say what is missing",
    sendLabel: "Send feedback",
  },
  api_req_failed: {
    title: "The request to the model failed",
    choices: [buildAcceptChoice("Try again"), buildRejectChoice("Give up")],
    placeholder: "Optional words",
    sendLabel: "Send",
  },
  mistake_limit_reached: {
    title: "joey is stuck",
    choices: [buildAcceptChoice("Go on")],
    placeholder: "Say how to go on",
    sendLabel: "Send",
  },
  auto_approval_max_req_reached: {
    title: "The limit is reached",
    choices: [buildAcceptChoice("Go on"), buildRejectChoice("Stop here")],
    placeholder: "Optional words",
    sendLabel: "Send",
  },
  resume_task: {
    title: "This task was interrupted",
    choices: [buildAcceptChoice("Resume")],
    placeholder: "Optional words to go on with",
    sendLabel: "Resume with words",
  },
  resume_completed_task: {
    title: "This task is done",
    choices: [buildAcceptChoice("Resume")],
    placeholder: "What shall be done next?",
    sendLabel: "Send",
  },
};
const APPROVAL_FORM = ASK_FORMS["tool"] as AskForm;
ASK_FORMS["use_mcp_server"] = { ...APPROVAL_FORM, title: "joey wants to use an MCP server" };
ASK_FORMS["browser_action_launch"] = { ...APPROVAL_FORM, title: "joey wants to open this page in a browser" };

const FALLBACK_FORM: AskForm = {
  title: "joey asks",
  choices: [buildAcceptChoice("Yes"), buildRejectChoice("No")],
  placeholder: "Your answer",
  sendLabel: "Answer",
  isApproval: true,
};

/** Approvals of certain tools have texts of their own. */
const TOOL_FORM_OVERRIDES: Record<string, Partial<AskForm>> = {
  newTask: { title: "joey wants to begin a subtask" },
  finishTask: {
    title: "The subtask wants to hand over its result",
    choices: [buildAcceptChoice("Hand over"), buildRejectChoice("Not yet")],
    placeholder: "Or say what is missing",
    sendLabel: "Send feedback",
    sendRejects: false,
  },
  customTool: { title: "joey wants to use a custom tool" },
};

export function buildAskForm(conversation: Conversation): AskForm | null {
  const { ask } = conversation;
  if (ask === null) return null;
  const row = conversation.findRow(ask.ts);
  // It is on its way; until then there is nothing to see, and so nothing to answer.
  if (row === undefined) return null;
  const form = ASK_FORMS[ask.ask] ?? FALLBACK_FORM;
  if (row.alwaysRule) return { ...form, choices: [...form.choices, buildAlwaysChoice(row.alwaysRule)] };
  if (ask.ask !== "tool") return form;
  const { tool } = parseJsonObject(row.text);
  return { ...form, ...TOOL_FORM_OVERRIDES[String(tool)] };
}

export function parseSuggestions(conversation: Conversation): { answer: string; mode?: string }[] {
  const { ask } = conversation;
  if (ask?.ask !== "followup") return [];
  const { suggest } = parseJsonObject(conversation.findRow(ask.ts)?.text);
  return Array.isArray(suggest) ? (suggest as { answer: string; mode?: string }[]) : [];
}

const CHOICE_SHORTCUTS = { primary: "Alt+Y", danger: "Alt+N", other: undefined };

/** What the question is about, and why it is asked; a click scrolls to its row. */
function AskSubject({ conversation }: { conversation: Conversation }) {
  const row = conversation.ask && conversation.findRow(conversation.ask.ts);
  if (!row) return null;
  const subject = formatAskSubject(row);
  const reason = escapeHiddenChars(formatReason(row.reason ?? "", row.ask === "command" ? row.text : ""));
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
  conversation: Conversation;
  isBusy: boolean;
  guard: PressGuard;
  onRespond(event: MouseEvent, choice: AnswerChoice): void;
  onSuggest(event: MouseEvent, answer: string): void;
}

export function AskPanel({ conversation, isBusy, guard, onRespond, onSuggest }: AskPanelProps) {
  const form = buildAskForm(conversation);
  if (form === null) return null;
  const buttonState = { disabled: isBusy, "aria-disabled": !guard.isOpen };
  return (
    <section class="ask" aria-label={form.title}>
      <div class="asked">
        <strong>{form.title}</strong>
        <AskSubject conversation={conversation} />
        <div class="suggestions">
          {parseSuggestions(conversation).map(({ answer, mode }, index) => (
            <button
              key={answer}
              class="suggestion"
              {...buttonState}
              onClick={(event) => onSuggest(event, answer)}
            >
              <kbd>{index + 1}</kbd> <span>{answer}</span>
              {mode && <span class="muted"> in {mode}</span>}
            </button>
          ))}
        </div>
      </div>
      <div class="buttons">
        {form.choices.length === 0 && <span class="muted">Or write your own answer</span>}
        {form.choices.map((choice) => (
          <button
            key={choice.label}
            class={choice.kind}
            {...buttonState}
            aria-keyshortcuts={CHOICE_SHORTCUTS[choice.kind]}
            onClick={(event) => onRespond(event, choice)}
          >
            {choice.label}
            {choice.rule && <code class="rule">{escapeHiddenChars(choice.rule)}</code>}
          </button>
        ))}
      </div>
    </section>
  );
}
