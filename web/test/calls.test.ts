// The table of `tests/presentation/test_tool_calls.py`, drawn by the page.

import { isValidElement, type ComponentChildren, type VNode } from "preact";
import { expect, test } from "vitest";
import table from "../../tests/presentation/tool_calls.json";
import { AskPanel } from "../src/approval/panel";
import { AskSubject } from "../src/approval/subject";
import { Diff } from "../src/render/diff";
import { Markdown } from "../src/render/markdown";
import { CodeBlock } from "../src/render/code";
import { getCommand, ToolCard } from "../src/tools/cards";
import type { AskView, Row } from "../src/wire/protocol";

interface Case {
  name: string;
  row: Row;
  view?: AskView;
}

const CASES = table as unknown as Case[];
/** Components with state, which are drawn only in a browser. */
const STATEFUL: unknown[] = [Diff, Markdown, CodeBlock, AskSubject];

function getText(node: ComponentChildren): string {
  if (Array.isArray(node)) return node.map(getText).join("");
  if (!isValidElement(node)) return typeof node === "string" || typeof node === "number" ? String(node) : "";
  const { type, props } = node as VNode<{ children?: ComponentChildren }>;
  if (typeof type !== "function") return getText(props.children);
  return STATEFUL.includes(type) ? "" : getText((type as (props: unknown) => ComponentChildren)(props));
}

test.each(CASES.filter(({ row }) => row.summary))("the card of: $name", ({ row }) => {
  const text = getText(ToolCard({ row, rowId: "r" }));
  const { title, subject = "", kind, warnings = [] } = row.summary!;
  const expected = kind === "execute" ? [title, getCommand(row)] : [title, subject];
  for (const each of [...expected, ...warnings]) expect(text).toContain(each);
});

test.each(CASES.filter(({ view }) => view))("the question about: $name", ({ view }) => {
  const guard = { isOpen: true, isSettled: true, accepts: () => true };
  const text = getText(AskPanel({ view: view!, isBusy: false, guard, onChoose: () => undefined }));
  for (const { label, rule = "" } of view!.choices) expect(text).toContain(label + rule);
  expect(text).toContain(view!.title);
  expect(text).toContain(view!.reason ?? "");
  const { warnings = [], programs = [], confinement = "" } = view!;
  for (const each of [...warnings, ...programs, confinement]) expect(text).toContain(each);
});
