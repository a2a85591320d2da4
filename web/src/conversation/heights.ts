// The heights and offsets of all rows: measured for rows that were rendered, estimated for the others.

import type { Row } from "../wire/protocol";

const LINE_HEIGHT_PX = 22;
const CHARS_PER_LINE = 90;
const FOLDED_ROW_KINDS = new Set(["reasoning", "mcp_server_response", "codebase_search_result"]);

export class RowHeights {
  private readonly measuredHeights = new Map<number, number>();
  private offsets = new Float64Array(1);
  private rowCount = 0;

  /** Store a measured height; returns its difference from the height assumed before. */
  recordHeight(row: Row, height: number): number {
    const before = this.getHeight(row);
    this.measuredHeights.set(row.ts, height);
    return height - before;
  }

  getHeight(row: Row): number {
    return this.measuredHeights.get(row.ts) ?? estimateHeight(row);
  }

  updateOffsets(rows: readonly Row[]): void {
    if (this.offsets.length <= rows.length) this.offsets = new Float64Array(2 * rows.length + 1);
    let offset = 0;
    for (const [index, row] of rows.entries()) {
      this.offsets[index] = offset;
      offset += this.getHeight(row);
    }
    this.offsets[rows.length] = offset;
    this.rowCount = rows.length;
  }

  /** The top of a row; of the one after the last, the height of all. */
  getTop(index: number): number {
    return this.offsets[index] ?? 0;
  }

  get totalHeight(): number {
    return this.getTop(this.rowCount);
  }

  /** The index of the row at an offset. */
  findIndexAt(offset: number): number {
    let low = 0;
    let high = this.rowCount;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.getTop(middle + 1) <= offset) low = middle + 1;
      else high = middle;
    }
    return Math.min(low, Math.max(0, this.rowCount - 1));
  }
}

function estimateHeight(row: Row): number {
  if (row.say === "api_req_started") return 26;
  if (FOLDED_ROW_KINDS.has(row.say ?? "")) return 36;
  if (row.tool) return 90;
  const text = row.text ?? "";
  return 24 + LINE_HEIGHT_PX * Math.min(30, Math.ceil(text.length / CHARS_PER_LINE) || 1);
}
