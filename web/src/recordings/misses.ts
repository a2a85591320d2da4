// What a cache miss is called.

import { formatCount, formatDollars } from "../render/format";
import type { RecordedMiss } from "../wire/protocol";

const REASONS: Record<string, string> = {
  changed: "The prompt changed",
  expired: "The cache had expired",
  too_small: "The prompt is too short to be cached",
  no_mark: "No cache mark was set",
  other_model: "The request went to another model",
  unknown: "The cache missed for an unknown reason",
  none: "Nothing was lost",
};

export function describeMiss(miss: RecordedMiss): string {
  const reason = REASONS[miss.reason] ?? miss.reason;
  const place =
    miss.block === null ? "" : ` in block ${miss.block}, character ${(miss.character ?? 0).toLocaleString()}`;
  const loss =
    miss.tokens > 0 ? `: ${formatCount(miss.tokens)} tokens paid again, ${formatDollars(miss.cost)}` : "";
  return `${reason}${place}${loss}.`;
}
