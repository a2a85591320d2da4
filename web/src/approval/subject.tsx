// What a question is about: warnings, programs, and the text of a command, which is always shown whole
// on request.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { escapeHiddenChars, formatNumber } from "../render/format";
import { scrollToLatest } from "../state/store";
import type { AskView } from "../wire/protocol";

const MAX_SHORT_CHARS = 160;
const MAX_PROGRAM_CHIPS = 24;

/** Above everything else, and never scrolled away. */
export function AskWarnings({ warnings = [] }: AskView) {
  if (warnings.length === 0) return null;
  return (
    <ul class="ask-warnings">
      {warnings.map((warning) => (
        <li key={warning}>
          <span aria-hidden="true">⚠ </span>
          {escapeHiddenChars(warning)}
        </li>
      ))}
    </ul>
  );
}

export function ProgramChips({ programs = [] }: AskView) {
  if (programs.length === 0) return null;
  const hiddenCount = programs.length - MAX_PROGRAM_CHIPS;
  return (
    <ul class="chips" aria-label="Programs that would run">
      {programs.slice(0, MAX_PROGRAM_CHIPS).map((program, index) => (
        <li key={index}>
          <code>{escapeHiddenChars(program)}</code>
        </li>
      ))}
      {hiddenCount > 0 && <li class="muted">and {hiddenCount} more</li>}
    </ul>
  );
}

/** The text in short, which leads to its row; a long one can be shown whole in place. */
export function AskSubject({ text }: { text: string }) {
  const [isWhole, setIsWhole] = useState(false);
  const whole = escapeHiddenChars(text);
  const short = whole.replace(/\s*\n\s*/g, " ⏎ ");
  const [isClipped, setIsClipped] = useState(false);
  const shortElement = useRef<HTMLElement>(null);
  useLayoutEffect(() => {
    const element = shortElement.current;
    if (element === null) return;
    const check = () => setIsClipped(element.scrollHeight > element.clientHeight);
    check();
    const observer = new ResizeObserver(check);
    observer.observe(element);
    return () => observer.disconnect();
  }, [isWhole, short]);
  const isLong = isWhole || isClipped || short.length > MAX_SHORT_CHARS || whole.includes("\n");
  return (
    <>
      {isWhole ? (
        <pre class="about whole" tabIndex={0} aria-label="The whole text">
          {whole}
        </pre>
      ) : (
        <button class="about" title={short} onClick={scrollToLatest}>
          <code ref={shortElement}>{short}</code>
        </button>
      )}
      {isLong && (
        <button class="quiet small" aria-expanded={isWhole} onClick={() => setIsWhole(!isWhole)}>
          {isWhole ? "Show less" : `Show all ${formatNumber(whole.length)} characters`}
        </button>
      )}
    </>
  );
}
