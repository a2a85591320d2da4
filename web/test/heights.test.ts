import { expect, test } from "vitest";
import { Heights } from "../src/conversation/heights";
import type { Row } from "../src/wire/protocol";

const rows: Row[] = Array.from({ length: 1000 }, (_, index) => ({
  ts: index,
  type: "say",
  say: "text",
  text: "x",
}));

function measured(): Heights {
  const heights = new Heights();
  for (const row of rows) heights.measure(row, 10 + (row.ts % 7));
  heights.arrange(rows);
  return heights;
}

test("the row at a height is the one whose top is above it and whose end is below it", () => {
  const heights = measured();
  for (let offset = 0; offset < heights.total; offset += 13) {
    const index = heights.at(offset);
    expect(heights.top(index)).toBeLessThanOrEqual(offset);
    expect(heights.top(index + 1)).toBeGreaterThan(offset);
  }
});

test("beyond the end stands the last row", () => {
  const heights = measured();
  expect(heights.at(heights.total + 1e6)).toBe(rows.length - 1);
});

test("a measurement tells how far the guess was off", () => {
  const heights = new Heights();
  const row = rows[0] as Row;
  const guess = heights.of(row);
  expect(heights.measure(row, guess + 5)).toBe(5);
  expect(heights.measure(row, guess + 5)).toBe(0);
});
