import { expect, test } from "vitest";
import { Streams } from "../src/streams";
import type { EventFrame, Row } from "../src/wire";

function message(row: Row, taskId = "t"): EventFrame {
  return {
    type: "event",
    eventName: "message",
    taskId,
    payload: { action: "updated", message: row },
    seq: 1,
  };
}

const text = (ts: number, partial: boolean): Row => ({
  ts,
  type: "say",
  say: "text",
  text: `${ts}`,
  partial,
});

test("a row is known while it streams and no longer", () => {
  const streams = new Streams();
  streams.hear(message(text(1, true)));
  streams.hear(message(text(2, true), "other"));
  expect(streams.of("t").map((row) => row.ts)).toEqual([1]);
  streams.hear(message(text(1, false)));
  expect(streams.of("t")).toEqual([]);
});

test("a new request and an ending clear what was left unfinished", () => {
  const streams = new Streams();
  streams.hear(message(text(1, true)));
  streams.hear(message({ ts: 2, type: "say", say: "command_output", text: "…", partial: true }));
  streams.hear(message({ ts: 3, type: "say", say: "api_req_started", text: "{}" }));
  expect(streams.of("t").map((row) => row.ts)).toEqual([2]);
  streams.hear({ type: "event", eventName: "taskAborted", taskId: "t", payload: {}, seq: 2 });
  expect(streams.of("t")).toEqual([]);
});
