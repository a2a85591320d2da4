import { expect, test } from "vitest";
import { completed, fitting, wordAt } from "../src/composer/slash";

const commands = ["review", "preview", "init", "re.test"].map((name) => ({ name, source: "project" }));

test.each([
  ["/", 1, ""],
  ["/re", 3, "re"],
  ["first\n/re", 9, "re"],
  ["do /re", 6, "re"],
  ["a/re", 4, null],
  ["/usr/bin", 8, null],
  ["/re now", 7, null],
  ["/review", 3, null],
  ["", 0, null],
])("in %j at %i the word is %j", (text, caret, word) => {
  expect(wordAt(text, caret)).toBe(word);
});

test("commands that begin so come first", () => {
  expect(fitting(commands, "RE").map((command) => command.name)).toEqual(["re.test", "review", "preview"]);
  expect(fitting(commands, "nothing")).toEqual([]);
  expect(fitting(commands, "")).toHaveLength(4);
});

test("a picked command takes the place of its beginning", () => {
  expect(completed("do /re now", 6, "review")).toEqual({ text: "do /review now", caret: 11 });
  expect(completed("/", 1, "init")).toEqual({ text: "/init ", caret: 6 });
});
