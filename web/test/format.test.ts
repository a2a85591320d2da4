import { expect, test } from "vitest";
import { parseDiffLines } from "../src/render/diff";
import {
  formatCount,
  formatDollars,
  parseJsonObject,
  escapeHiddenChars,
  renderTerminalText,
} from "../src/render/format";

test("numbers are short", () => {
  expect([0, 999, 1000, 12_340, 256_789, 2_500_000].map(formatCount)).toEqual([
    "0",
    "999",
    "1k",
    "12.3k",
    "257k",
    "2.5M",
  ]);
  expect([0, 0.001, 1.5].map(formatDollars)).toEqual(["$0", "< $0.01", "$1.50"]);
});

test("terminal output loses its colours and the lines that were written over", () => {
  expect(renderTerminalText("\u001b[31mred\u001b[0m\r\n10%\r50%\r100%\n\u001b]0;title\u0007end")).toBe(
    "red\n100%\nend",
  );
});

test("what is not an object is an empty one", () => {
  expect([
    parseJsonObject("[1]"),
    parseJsonObject("nonsense"),
    parseJsonObject(undefined),
    parseJsonObject('{"a":1}'),
  ]).toEqual([{}, {}, {}, { a: 1 }]);
});

test("lines of a change have their kinds", () => {
  const kinds = parseDiffLines("--- a\n+++ b\n@@ -1 +1 @@\n-old\n+new\n same\n").map((line) => line.kind);
  expect(kinds).toEqual(["meta", "meta", "hunk", "del", "add", "same"]);
});

test("what is not seen or turns words around is named", () => {
  expect(escapeHiddenChars("rm \u202etxt.a\u200b\u001b[8m\u{e0041}x\r")).toBe(
    "rm <U+202E>txt.a<U+200B><U+001B>[8m<U+E0041>x<U+000D>",
  );
  expect(escapeHiddenChars("ünï → 👩🏽\tcode\r\n  two\n")).toBe("ünï → 👩🏽\tcode\r\n  two\n");
});
