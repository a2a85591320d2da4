import { expect, test } from "vitest";
import { Conversation } from "../src/state/conversation";
import type { EventFrame, Row, TaskInfo } from "../src/wire/protocol";

const info: TaskInfo = {
  id: "t",
  title: "Say hello",
  workspace: "/w",
  mode: "code",
  status: "running",
  live: true,
};

function opened(rows: Row[] = [], seq = 0): Conversation {
  const conversation = new Conversation("t");
  conversation.load(rows, seq, info, []);
  return conversation;
}

function event(eventName: string, payload: Record<string, unknown>, seq = 1): EventFrame {
  return { type: "event", eventName, taskId: "t", payload, seq };
}

function message(row: Row, seq = 1): EventFrame {
  return event("message", { action: "updated", message: row }, seq);
}

const say = (ts: number, text: string, partial?: boolean): Row => ({
  ts,
  type: "say",
  say: "text",
  text,
  partial,
});

test("rows stand in the order of their ts, in whatever order they come", () => {
  const conversation = opened();
  for (const ts of [30, 10, 20]) conversation.hear(message(say(ts, `${ts}`)));
  expect(conversation.rows.map((row) => row.ts)).toEqual([10, 20, 30]);
});

test("hearing the same frames again changes nothing", () => {
  const frames = [
    message(say(1, "Hello"), 1),
    event("taskInteractive", { askTs: 2, ask: "tool" }, 2),
    event("taskAskResponded", { askTs: 2, response: "yesButtonClicked", by: "person" }, 3),
    event("taskTokenUsageUpdated", { usage: { totalTokensIn: 5 } }, 4),
  ];
  const once = opened();
  const twice = opened();
  for (const frame of frames) once.hear(frame);
  for (const frame of [...frames, ...frames]) twice.hear(frame);
  expect(twice).toEqual(once);
});

test("a row that streams is one row, and the last word counts", () => {
  const conversation = opened();
  for (const text of ["He", "Hell", "Hello"]) conversation.hear(message(say(1, text, true)));
  conversation.hear(message(say(1, "Hello.", false), 2));
  expect(conversation.rows).toEqual([say(1, "Hello.", false)]);
  expect(conversation.seq).toBe(2);
});

test("what only streamed is dropped when the connection is lost", () => {
  const conversation = opened([say(1, "whole", false)], 4);
  conversation.hear(message(say(2, "half", true), 4));
  conversation.dropPartial();
  expect(conversation.rows.map((row) => row.text)).toEqual(["whole"]);
  expect(conversation.seq).toBe(4);
});

test("a new request clears what the one before left unfinished, but no running command", () => {
  const conversation = opened();
  conversation.hear(message(say(1, "cut", true)));
  conversation.hear(message({ ts: 2, type: "say", say: "command_output", text: "…", partial: true }));
  conversation.hear(message({ ts: 3, type: "say", say: "api_req_started", text: "{}" }));
  expect(conversation.rows.map((row) => row.ts)).toEqual([2, 3]);
});

test("a request that is told again leaves the reply that streams since", () => {
  const conversation = opened();
  const request = message({ ts: 1, type: "say", say: "api_req_started", text: "{}" }, 4);
  conversation.hear(message(say(2, "half", true), 4));
  conversation.hear(request);
  expect(conversation.rows.map((row) => row.ts)).toEqual([1, 2]);
});

test("an answer to an older question leaves the open one open", () => {
  const conversation = opened();
  conversation.hear(event("taskInteractive", { askTs: 9, ask: "command" }));
  conversation.hear(event("taskAskResponded", { askTs: 5, response: "yesButtonClicked", by: "person" }));
  expect(conversation.ask).toEqual({ ts: 9, ask: "command" });
  expect(conversation.status).toBe("waiting");
});

test("an older frame never takes the number back", () => {
  const conversation = opened([], 7);
  conversation.hear(message(say(1, "old"), 3));
  expect(conversation.seq).toBe(7);
});

test("what waits and what failed is known after loading", () => {
  const conversation = new Conversation("t");
  const queue = [{ id: "q", text: "later", timestamp: 1 }];
  const failure = { code: "provider", message: "no model there" };
  conversation.load([say(1, "Hello")], 4, { ...info, status: "failed", queue, failure }, []);
  expect([conversation.failure, conversation.queue]).toEqual(["no model there", queue]);
  conversation.describe(info);
  expect([conversation.failure, conversation.queue]).toEqual(["", []]);
});

test("what it waits for is known until it goes on", () => {
  const conversation = opened();
  conversation.hear(event("taskPaused", { childTaskIds: ["one", "two"] }));
  expect([conversation.status, conversation.waitsFor]).toEqual(["delegated", ["one", "two"]]);
  conversation.hear(event("taskUnpaused", {}));
  expect([conversation.status, conversation.waitsFor]).toEqual(["running", []]);
  conversation.describe({ ...info, status: "delegated", waitsFor: ["two"], parentId: "above" });
  expect([conversation.waitsFor, conversation.parentId]).toEqual([["two"], "above"]);
});

test("rows that a rewind removes are gone, and those that come back stand in their place", () => {
  const conversation = opened([say(10, "a"), say(20, "b"), say(30, "c", true)]);
  conversation.hear(event("taskRewound", { messageTs: 10, removed: [20] }, 2));
  expect(conversation.rows.map((row) => row.ts)).toEqual([10]);
  expect([conversation.status, conversation.rewound]).toEqual(["aborted", true]);
  conversation.hear(event("taskRewound", { messageTs: 20, removed: [] }, 3));
  conversation.hear(message(say(20, "b"), 3));
  expect(conversation.rows.map((row) => row.ts)).toEqual([10, 20]);
  conversation.hear(event("taskStarted", {}, 4));
  expect(conversation.rewound).toBe(false);
});
