// The heights and offsets of all rows: measured for rows that were rendered, estimated for the others.

import type { Row } from "../wire/protocol";

const LINE = 22;
const LETTERS = 90;
const FOLDED = new Set(["reasoning", "mcp_server_response", "codebase_search_result"]);

export class Heights {
  private readonly measured = new Map<number, number>();
  private offsets = new Float64Array(1);
  private count = 0;

  /** Take over a measurement; tells by how much the row differs from what was assumed. */
  measure(row: Row, height: number): number {
    const before = this.of(row);
    this.measured.set(row.ts, height);
    return height - before;
  }

  of(row: Row): number {
    return this.measured.get(row.ts) ?? guess(row);
  }

  arrange(rows: readonly Row[]): void {
    if (this.offsets.length <= rows.length) this.offsets = new Float64Array(2 * rows.length + 1);
    let offset = 0;
    for (const [index, row] of rows.entries()) {
      this.offsets[index] = offset;
      offset += this.of(row);
    }
    this.offsets[rows.length] = offset;
    this.count = rows.length;
  }

  /** The top of a row; of the one after the last, the height of all. */
  top(index: number): number {
    return this.offsets[index] ?? 0;
  }

  get total(): number {
    return this.top(this.count);
  }

  /** The row at a height. */
  at(offset: number): number {
    let low = 0;
    let high = this.count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.top(middle + 1) <= offset) low = middle + 1;
      else high = middle;
    }
    return Math.min(low, Math.max(0, this.count - 1));
  }
}

function guess(row: Row): number {
  if (row.say === "api_req_started") return 26;
  if (FOLDED.has(row.say ?? "")) return 36;
  if (row.tool) return 90;
  const text = row.text ?? "";
  return 24 + LINE * Math.min(30, Math.ceil(text.length / LETTERS) || 1);
}
