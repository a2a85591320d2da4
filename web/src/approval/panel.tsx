// The panel for joey's questions, with the answer buttons. They are in the same places for every kind
// of question; a message that was written for the question is sent with the answer.

import type { Conversation } from "../state/conversation";
import { parsed, plainly } from "../render/format";
import type { Guard } from "./guard";
import { subjectOf } from "../tools/calls";
import { whyAsked } from "./reasons";
import { showLatest } from "../state/store";
import type { AskResponse } from "../wire/protocol";

export interface Choice {
  label: string;
  response: AskResponse;
  kind: "primary" | "danger" | "other";
  /** The rule that this answer adds. */
  rule?: string;
}

export interface AskShape {
  title: string;
  choices: Choice[];
  /** What to write into the empty composer. */
  hint: string;
  /** What Enter does with words. */
  send: string;
  /** Whether that says no. */
  rejects?: boolean;
  /** It is about something that joey would do: only text that was written for it may say no. */
  approval?: boolean;
}

const yes = (label: string): Choice => ({ label, response: "yesButtonClicked", kind: "primary" });
const no = (label: string): Choice => ({ label, response: "noButtonClicked", kind: "danger" });

const always = (rule: string): Choice => ({
  label: "Always allow",
  response: "yesButtonClicked",
  kind: "other",
  rule,
});

const SHAPES: Record<string, AskShape> = {
  tool: {
    title: "joey wants to do this",
    choices: [yes("Approve"), no("Reject")],
    hint: "Optional words for Approve or Reject",
    send: "Reject with words",
    rejects: true,
    approval: true,
  },
  command: {
    title: "joey wants to run this command",
    choices: [yes("Approve"), no("Reject")],
    hint: "Optional words for Approve or Reject",
    send: "Reject with words",
    rejects: true,
    approval: true,
  },
  followup: { title: "joey has a question", choices: [], hint: "Your answer", send: "Answer" },
  completion_result: {
    title: "joey is done",
    choices: [yes("Accept")],
    hint: "Or say what is missing",
    send: "Send feedback",
  },
  api_req_failed: {
    title: "The request to the model failed",
    choices: [yes("Try again"), no("Give up")],
    hint: "Optional words",
    send: "Send",
  },
  mistake_limit_reached: {
    title: "joey is stuck",
    choices: [yes("Go on")],
    hint: "Say how to go on",
    send: "Send",
  },
  auto_approval_max_req_reached: {
    title: "The limit is reached",
    choices: [yes("Go on"), no("Stop here")],
    hint: "Optional words",
    send: "Send",
  },
  resume_task: {
    title: "This task was interrupted",
    choices: [yes("Resume")],
    hint: "Optional words to go on with",
    send: "Resume with words",
  },
  resume_completed_task: {
    title: "This task is done",
    choices: [yes("Resume")],
    hint: "What shall be done next?",
    send: "Send",
  },
};
const APPROVAL = SHAPES["tool"] as AskShape;
SHAPES["use_mcp_server"] = { ...APPROVAL, title: "joey wants to use an MCP server" };
SHAPES["browser_action_launch"] = { ...APPROVAL, title: "joey wants to open this page in a browser" };

const UNKNOWN: AskShape = {
  title: "joey asks",
  choices: [yes("Yes"), no("No")],
  hint: "Your answer",
  send: "Answer",
  approval: true,
};

/** Approvals of one kind of tool that deserve words of their own. */
const OF_TOOLS: Record<string, Partial<AskShape>> = {
  newTask: { title: "joey wants to begin a subtask" },
  finishTask: {
    title: "The subtask wants to hand over its result",
    choices: [yes("Hand over"), no("Not yet")],
    hint: "Or say what is missing",
    send: "Send feedback",
    rejects: false,
  },
  customTool: { title: "joey wants to use a custom tool" },
};

export function shapeOf(conversation: Conversation): AskShape | null {
  const { ask } = conversation;
  if (ask === null) return null;
  const row = conversation.find(ask.ts);
  // It is on its way; until then there is nothing to see, and so nothing to answer.
  if (row === undefined) return null;
  const shape = SHAPES[ask.ask] ?? UNKNOWN;
  if (row.alwaysRule) return { ...shape, choices: [...shape.choices, always(row.alwaysRule)] };
  if (ask.ask !== "tool") return shape;
  const { tool } = parsed(row.text);
  return { ...shape, ...OF_TOOLS[String(tool)] };
}

export function suggestionsOf(conversation: Conversation): { answer: string; mode?: string }[] {
  const { ask } = conversation;
  if (ask?.ask !== "followup") return [];
  const { suggest } = parsed(conversation.find(ask.ts)?.text);
  return Array.isArray(suggest) ? (suggest as { answer: string; mode?: string }[]) : [];
}

const SHORTCUTS = { primary: "Alt+Y", danger: "Alt+N", other: undefined };

/** What is asked about, wherever the view stands, and why; a press brings the whole of it into view. */
function About({ conversation }: { conversation: Conversation }) {
  const row = conversation.ask && conversation.find(conversation.ask.ts);
  if (!row) return null;
  const subject = subjectOf(row);
  const reason = plainly(whyAsked(row.reason ?? "", row.ask === "command" ? row.text : ""));
  return (
    <>
      {subject && (
        <button class="about" title={subject} onClick={showLatest}>
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

interface PanelProps {
  conversation: Conversation;
  busy: boolean;
  guard: Guard;
  respond(event: MouseEvent, choice: Choice): void;
  suggest(event: MouseEvent, answer: string): void;
}

export function AskPanel({ conversation, busy, guard, respond, suggest }: PanelProps) {
  const shape = shapeOf(conversation);
  if (shape === null) return null;
  const state = { disabled: busy, "aria-disabled": !guard.open };
  return (
    <section class="ask" aria-label={shape.title}>
      <div class="asked">
        <strong>{shape.title}</strong>
        <About conversation={conversation} />
        <div class="suggestions">
          {suggestionsOf(conversation).map(({ answer, mode }, index) => (
            <button key={answer} class="suggestion" {...state} onClick={(event) => suggest(event, answer)}>
              <kbd>{index + 1}</kbd> <span>{answer}</span>
              {mode && <span class="muted"> in {mode}</span>}
            </button>
          ))}
        </div>
      </div>
      <div class="buttons">
        {shape.choices.length === 0 && <span class="muted">Or write your own answer</span>}
        {shape.choices.map((choice) => (
          <button
            key={choice.label}
            class={choice.kind}
            {...state}
            aria-keyshortcuts={SHORTCUTS[choice.kind]}
            onClick={(event) => respond(event, choice)}
          >
            {choice.label}
            {choice.rule && <code class="rule">{plainly(choice.rule)}</code>}
          </button>
        ))}
      </div>
    </section>
  );
}
