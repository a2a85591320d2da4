import { expect, test } from "vitest";
import { completeCommand, matchCommands, findCommandPrefix } from "../src/composer/slash";

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
])("in %j at %i the word is %j", (text, caret, prefix) => {
  expect(findCommandPrefix(text, caret)).toBe(prefix);
});

test("commands that begin so come first", () => {
  expect(matchCommands(commands, "RE").map((command) => command.name)).toEqual([
    "re.test",
    "review",
    "preview",
  ]);
  expect(matchCommands(commands, "nothing")).toEqual([]);
  expect(matchCommands(commands, "")).toHaveLength(4);
});

test("a picked command takes the place of its beginning", () => {
  expect(completeCommand("do /re now", 6, "review")).toEqual({ text: "do /review now", caret: 11 });
  expect(completeCommand("/", 1, "init")).toEqual({ text: "/init ", caret: 6 });
});
