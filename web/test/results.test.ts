import { expect, test } from "vitest";
import { prettyPrintJson } from "../src/render/format";
import { parseSearchHits } from "../src/tools/results";

test("arguments are laid out, and nothing stands where there are none", () => {
  expect(prettyPrintJson('{"a":[1]}')).toBe('{\n  "a": [\n    1\n  ]\n}');
  expect(prettyPrintJson("not json")).toBe("not json");
  expect(prettyPrintJson("{}")).toBe("");
  expect(prettyPrintJson(undefined)).toBe("");
});

test("hits that are none are no hits", () => {
  expect(parseSearchHits('{"content": {"query": "q", "results": 3}}')).toEqual({ query: "q", hits: [] });
  expect(parseSearchHits("garbage")).toEqual({ query: "", hits: [] });
  expect(parseSearchHits('{"content": {"results": [null]}}').hits).toEqual([
    { path: "", lines: "?–?", score: 0, code: "" },
  ]);
});
