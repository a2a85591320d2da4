// A code block with syntax highlighting and a copy button.

import { useState } from "preact/hooks";
import { highlightCode } from "./highlight";
import { memo } from "./memo";

const LANGUAGE_ALIASES: Record<string, string> = {
  js: "javascript",
  jsx: "javascript",
  mjs: "javascript",
  cjs: "javascript",
  ts: "typescript",
  tsx: "typescript",
  py: "python",
  rs: "rust",
  sh: "bash",
  shell: "bash",
  zsh: "bash",
  console: "bash",
  yml: "yaml",
  html: "xml",
  svg: "xml",
  vue: "xml",
  patch: "diff",
  jsonc: "json",
};

/** The highlighter's name for a language or a file's ending. */
export function resolveLanguage(name: string | undefined): string {
  const extension = (name ?? "").toLowerCase().split(".").at(-1) ?? "";
  return LANGUAGE_ALIASES[extension] ?? extension;
}

export const CodeBlock = memo(function CodeBlock(props: { code: string; language?: string }) {
  const { code, language } = props;
  return (
    <div class="code">
      <div class="code-head">
        <span>{language || "text"}</span>
        <CopyButton text={code} />
      </div>
      <pre tabIndex={0}>
        <code>{highlightCode(code, resolveLanguage(language))}</code>
      </pre>
    </div>
  );
});

export function CopyButton({ text, label = "Copy" }: { text: string; label?: string }) {
  const [isCopied, setIsCopied] = useState(false);
  if (!navigator.clipboard) return null;
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setIsCopied(true);
    setTimeout(() => setIsCopied(false), 1500);
  };
  return (
    <button class="quiet small" onClick={() => void copy()}>
      {isCopied ? "Copied" : label}
    </button>
  );
}
