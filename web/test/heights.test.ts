import { expect, test } from "vitest";
import { RowHeights } from "../src/conversation/heights";
import type { Row } from "../src/wire/protocol";

const rows: Row[] = Array.from({ length: 1000 }, (_, index) => ({
  ts: index,
  type: "say",
  say: "text",
  text: "x",
}));

function makeMeasuredHeights(): RowHeights {
  const heights = new RowHeights();
  for (const row of rows) heights.recordHeight(row, 10 + (row.ts % 7));
  heights.updateOffsets(rows);
  return heights;
}

test("the row at a height is the one whose top is above it and whose end is below it", () => {
  const heights = makeMeasuredHeights();
  for (let offset = 0; offset < heights.totalHeight; offset += 13) {
    const index = heights.findIndexAt(offset);
    expect(heights.getTop(index)).toBeLessThanOrEqual(offset);
    expect(heights.getTop(index + 1)).toBeGreaterThan(offset);
  }
});

test("beyond the end stands the last row", () => {
  const heights = makeMeasuredHeights();
  expect(heights.findIndexAt(heights.totalHeight + 1e6)).toBe(rows.length - 1);
});

test("a measurement tells how far the guess was off", () => {
  const heights = new RowHeights();
  const row = rows[0] as Row;
  const estimate = heights.getHeight(row);
  expect(heights.recordHeight(row, estimate + 5)).toBe(5);
  expect(heights.recordHeight(row, estimate + 5)).toBe(0);
});
