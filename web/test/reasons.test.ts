import { expect, test } from "vitest";
import questionsSource from "../../src/joey/presentation/questions.py?raw";
import { SETTING_REASONS, formatReason } from "../src/approval/reasons";

test("the reason does not repeat the command, nor itself", () => {
  const command = "make `x`; rm -rf build";
  const reason = `running \`${command}\`: alwaysAllowExecute is off`;
  expect(formatReason(reason, command)).toBe("commands are not allowed without you (alwaysAllowExecute)");
  expect(formatReason("running `rm x`: no rule allows it", "rm x")).toBe("no rule allows it");
  expect(formatReason("a; a; b")).toBe("a; b");
  expect(formatReason("")).toBe("");
});

test("a switch is called the same here and in the terminal", () => {
  const table = /^\w+ = (\{\n *"autoApprovalEnabled".*?\n\})/ms.exec(questionsSource)?.[1] ?? "";
  expect(JSON.parse(table.replace(/,\n\}/, "}"))).toEqual(SETTING_REASONS);
});
