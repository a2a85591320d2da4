// Syntax highlighting without HTML: the highlighter's tree becomes elements, its text stays text.

import hljs from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import go from "highlight.js/lib/languages/go";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import python from "highlight.js/lib/languages/python";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";
import type { ComponentChildren } from "preact";

const LANGUAGES = {
  bash,
  css,
  diff,
  go,
  java,
  javascript,
  json,
  python,
  rust,
  sql,
  typescript,
  xml,
  yaml,
};
const MAX_HIGHLIGHT_CHARS = 30_000;

for (const [name, language] of Object.entries(LANGUAGES)) hljs.registerLanguage(name, language);

interface HighlightNode {
  scope?: string;
  language?: string;
  children: (HighlightNode | string)[];
}

/** The code in colours, if the language is known and the code not too long. */
export function highlightCode(code: string, language: string): ComponentChildren {
  if (code.length > MAX_HIGHLIGHT_CHARS || !hljs.getLanguage(language)) return code;
  const { _emitter } = hljs.highlight(code, { language, ignoreIllegals: true });
  const root = (_emitter as unknown as { rootNode?: HighlightNode }).rootNode;
  return root === undefined ? code : root.children.map(renderNode);
}

function renderNode(node: HighlightNode | string): ComponentChildren {
  if (typeof node === "string") return node;
  const children = node.children.map(renderNode);
  return node.scope ? <span class={`hl-${node.scope.split(".", 1)[0]}`}>{children}</span> : children;
}
