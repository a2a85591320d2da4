// Formatting of numbers, times, paths and terminal output; parsing of JSON; escaping of hidden characters.

export function formatCount(count: number | null | undefined): string {
  const value = count ?? 0;
  if (value < 1000) return String(value);
  if (value < 1_000_000) return `${formatShortNumber(value / 1000)}k`;
  return `${formatShortNumber(value / 1_000_000)}M`;
}

/** All digits, in groups. */
export function formatNumber(value: number): string {
  return value.toLocaleString("en-US");
}

function formatShortNumber(value: number): string {
  return value < 100 ? value.toFixed(1).replace(/\.0$/, "") : String(Math.round(value));
}

export function formatDollars(cost: number | null | undefined): string {
  const value = cost ?? 0;
  if (value === 0) return "$0";
  return value < 0.01 ? "< $0.01" : `$${value.toFixed(2)}`;
}

/** The time of a moment in milliseconds: today its hour, else its day. */
export function formatTime(ms: number | undefined): string {
  if (!ms) return "";
  const date = new Date(ms);
  if (date.toDateString() === new Date().toDateString()) {
    return date.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" });
  }
  return date.toLocaleDateString(undefined, { month: "short", day: "numeric" });
}

export function getBaseName(path: string): string {
  return path.split("/").filter(Boolean).at(-1) ?? path;
}

/** JSON that should be an object; anything else is an empty one. */
export function parseJsonObject(text: string | undefined): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text || "{}");
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : {};
  } catch {
    return {};
  }
}

/**
 * Invisible characters and those that change the reading order: control characters, direction marks, tags,
 * and what joins letters or emoji where there are none.
 */
const HIDDEN_CHARS_RE =
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e0fff}]|\r(?!\n)|(?<=[\u0000-\u007f])[\u200c\u200d\ufe00-\ufe0f]/gu;

/** Make hidden characters visible in text that the user decides about. */
export function escapeHiddenChars(text: string): string {
  return text.replace(HIDDEN_CHARS_RE, (char) => {
    const code = (char.codePointAt(0) ?? 0).toString(16).toUpperCase();
    return `<U+${code.padStart(4, "0")}>`;
  });
}

const ANSI_ESCAPES_RE = /\u001b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-_])/g;

/** What a terminal would have on its screen: no colours, and lines that were written over. */
export function renderTerminalText(output: string): string {
  return output
    .replace(ANSI_ESCAPES_RE, "")
    .replace(/\r+\n/g, "\n")
    .split("\n")
    .map((line) => line.slice(line.lastIndexOf("\r") + 1))
    .join("\n");
}

/** Indented JSON, or the text itself if it is not JSON. */
export function prettyPrintJson(text: unknown): string {
  if (typeof text !== "string") return text === undefined ? "" : JSON.stringify(text, null, 2);
  try {
    const value: unknown = JSON.parse(text);
    return isEmptyObject(value) ? "" : JSON.stringify(value, null, 2);
  } catch {
    return text;
  }
}

function isEmptyObject(value: unknown): boolean {
  return typeof value === "object" && value !== null && Object.keys(value).length === 0;
}
