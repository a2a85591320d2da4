import { expect, test } from "vitest";
import sentences from "../../src/joey/presentation/questions.py?raw";
import { SWITCHES, whyAsked } from "../src/approval/reasons";

test("the reason does not repeat the command, nor itself", () => {
  const command = "make `x`; rm -rf build";
  const off = `running \`${command}\`: alwaysAllowExecute is off`;
  expect(whyAsked(off, command)).toBe("commands are not allowed without you (alwaysAllowExecute)");
  expect(whyAsked("running `rm x`: no rule allows it", "rm x")).toBe("no rule allows it");
  expect(whyAsked("a; a; b")).toBe("a; b");
  expect(whyAsked("")).toBe("");
});

test("a switch is called the same here and in the terminal", () => {
  const table = /^_SWITCHES = (\{.*?\n\})/ms.exec(sentences)?.[1] ?? "";
  expect(JSON.parse(table.replace(/,\n\}/, "}"))).toEqual(SWITCHES);
});
