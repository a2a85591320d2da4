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

function makeConversation(rows: Row[] = [], seq = 0): Conversation {
  const conversation = new Conversation("t");
  conversation.load(rows, seq, info, []);
  return conversation;
}

function makeEvent(eventName: string, payload: Record<string, unknown>, seq = 1, part = 0): EventFrame {
  return { type: "event", eventName, taskId: "t", payload, seq, record: seq, part };
}

function makeMessageEvent(row: Row, seq = 1): EventFrame {
  return makeEvent("message", { action: "updated", message: row }, seq);
}

const makeTextRow = (ts: number, text: string, partial?: boolean): Row => ({
  ts,
  type: "say",
  say: "text",
  text,
  partial,
});

test("rows stand in the order of their ts, in whatever order they come", () => {
  const conversation = makeConversation();
  for (const ts of [30, 10, 20]) conversation.applyEvent(makeMessageEvent(makeTextRow(ts, `${ts}`)));
  expect(conversation.rows.map((row) => row.ts)).toEqual([10, 20, 30]);
});

test("hearing the same frames again changes nothing", () => {
  const frames = [
    makeMessageEvent(makeTextRow(1, "Hello"), 1),
    makeEvent("taskInteractive", { askTs: 2, ask: "tool" }, 2),
    makeEvent("taskAskResponded", { askTs: 2, response: "yesButtonClicked", by: "person" }, 3),
    makeEvent("taskTokenUsageUpdated", { usage: { totalTokensIn: 5 } }, 4),
  ];
  const once = makeConversation();
  const twice = makeConversation();
  for (const frame of frames) once.applyEvent(frame);
  for (const frame of [...frames, ...frames]) twice.applyEvent(frame);
  expect(twice).toEqual(once);
});

test("a row that streams is one row, and the last word counts", () => {
  const conversation = makeConversation();
  for (const text of ["He", "Hell", "Hello"])
    conversation.applyEvent(makeMessageEvent(makeTextRow(1, text, true)));
  conversation.applyEvent(makeMessageEvent(makeTextRow(1, "Hello.", false), 2));
  expect(conversation.rows).toEqual([makeTextRow(1, "Hello.", false)]);
  expect(conversation.lastEvent).toEqual({ record: 2, part: 0 });
});

test("what only streamed is dropped when the connection is lost", () => {
  const conversation = makeConversation([makeTextRow(1, "whole", false)], 4);
  conversation.applyEvent(makeMessageEvent(makeTextRow(2, "half", true), 4));
  conversation.discardPartialRows();
  expect(conversation.rows.map((row) => row.text)).toEqual(["whole"]);
  expect(conversation.lastEvent).toEqual({ record: 4 });
});

test("a new request clears what the one before left unfinished, but no running command", () => {
  const conversation = makeConversation();
  conversation.applyEvent(makeMessageEvent(makeTextRow(1, "cut", true)));
  conversation.applyEvent(
    makeMessageEvent({ ts: 2, type: "say", say: "command_output", text: "…", partial: true }),
  );
  conversation.applyEvent(makeMessageEvent({ ts: 3, type: "say", say: "api_req_started", text: "{}" }));
  expect(conversation.rows.map((row) => row.ts)).toEqual([2, 3]);
});

test("a request that is told again leaves the reply that streams since", () => {
  const conversation = makeConversation();
  const request = makeMessageEvent({ ts: 1, type: "say", say: "api_req_started", text: "{}" }, 4);
  conversation.applyEvent(makeMessageEvent(makeTextRow(2, "half", true), 4));
  conversation.applyEvent(request);
  expect(conversation.rows.map((row) => row.ts)).toEqual([1, 2]);
});

test("an answer to an older question leaves the open one open", () => {
  const conversation = makeConversation();
  conversation.applyEvent(makeEvent("taskInteractive", { askTs: 9, ask: "command" }));
  conversation.applyEvent(
    makeEvent("taskAskResponded", { askTs: 5, response: "yesButtonClicked", by: "person" }),
  );
  expect(conversation.ask).toEqual({ ts: 9, ask: "command" });
  expect(conversation.status).toBe("waiting");
});

test("the last event is the one with the highest identity, not the latest to arrive", () => {
  const conversation = makeConversation([], 7);
  conversation.applyEvent(makeMessageEvent(makeTextRow(1, "old"), 3));
  expect(conversation.lastEvent).toEqual({ record: 7 });
  for (const part of [0, 2, 1]) conversation.applyEvent(makeEvent("taskActive", {}, 8, part));
  expect(conversation.lastEvent).toEqual({ record: 8, part: 2 });
});

test("what waits and what failed is known after loading", () => {
  const conversation = new Conversation("t");
  const queue = [{ id: "q", text: "later", timestamp: 1 }];
  const failure = { code: "provider", message: "no model there" };
  conversation.load([makeTextRow(1, "Hello")], 4, { ...info, status: "failed", queue, failure }, []);
  expect([conversation.failureMessage, conversation.queue]).toEqual(["no model there", queue]);
  conversation.applyTaskInfo(info);
  expect([conversation.failureMessage, conversation.queue]).toEqual(["", []]);
});

test("what it waits for is known until it goes on", () => {
  const conversation = makeConversation();
  conversation.applyEvent(makeEvent("taskPaused", { childTaskIds: ["one", "two"] }));
  expect([conversation.status, conversation.awaitedSubtaskIds]).toEqual(["delegated", ["one", "two"]]);
  conversation.applyEvent(makeEvent("taskUnpaused", {}));
  expect([conversation.status, conversation.awaitedSubtaskIds]).toEqual(["running", []]);
  conversation.applyTaskInfo({ ...info, status: "delegated", waitsFor: ["two"], parentId: "above" });
  expect([conversation.awaitedSubtaskIds, conversation.parentId]).toEqual([["two"], "above"]);
});

test("rows that a rewind removes are gone, and those that come back stand in their place", () => {
  const conversation = makeConversation([
    makeTextRow(10, "a"),
    makeTextRow(20, "b"),
    makeTextRow(30, "c", true),
  ]);
  conversation.applyEvent(makeEvent("taskRewound", { messageTs: 10, removed: [20] }, 2));
  expect(conversation.rows.map((row) => row.ts)).toEqual([10]);
  expect([conversation.status, conversation.isRewound]).toEqual(["aborted", true]);
  conversation.applyEvent(makeEvent("taskRewound", { messageTs: 20, removed: [] }, 3));
  conversation.applyEvent(makeMessageEvent(makeTextRow(20, "b"), 3));
  expect(conversation.rows.map((row) => row.ts)).toEqual([10, 20]);
  conversation.applyEvent(makeEvent("taskStarted", {}, 4));
  expect(conversation.isRewound).toBe(false);
});
