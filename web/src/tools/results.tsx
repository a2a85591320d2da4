// Tool results in rows of their own: search hits, browser views, MCP responses, subtask results, images.

import { CodeBlock } from "../render/code";
import { Fold } from "../render/folds";
import { parseJsonObject, prettyPrintJson } from "../render/format";
import { ImageThumbnails } from "../render/images";
import { isImageDataUri, Markdown } from "../render/markdown";
import { PlainText } from "../render/plain";
import type { Row } from "../wire/protocol";

const MAX_CONSOLE_LINES = 100;
const MAX_RESPONSE_LINES = 400;

interface ResultRowProps {
  row: Row;
  rowId: string;
}

export function CodeSearchResult({ row, rowId }: ResultRowProps) {
  const { query, hits } = parseSearchHits(row.text);
  const title = (
    <>
      <span>{hits.length === 1 ? "1 place found" : `${hits.length} places found`}</span>
      {query && <span class="ellipsis muted">{query}</span>}
    </>
  );
  return (
    <Fold foldId={`${rowId}/hits`} title={title} class="report">
      {() => (
        <ul class="hits">
          {hits.map((hit, index) => (
            <li key={index}>
              <p>
                <span class="path">
                  {hit.path}:{hit.lines}
                </span>
                <span class="muted">score {hit.score.toFixed(2)}</span>
              </p>
              <CodeBlock code={hit.code} language={hit.path.split(".").at(-1)} />
            </li>
          ))}
        </ul>
      )}
    </Fold>
  );
}

/** The page as the browser shows it after a step. */
export function BrowserResult({ row, rowId }: ResultRowProps) {
  const data = parseJsonObject(row.text);
  const { screenshot, logs, currentMousePosition: mouse } = data;
  const address = String(data["currentUrl"] ?? "");
  const consoleText = typeof logs === "string" ? logs.trim() : "";
  return (
    <div class="card browser">
      <div class="card-head">
        <span class="muted">Page</span>
        <span class="path" title={address}>
          {address}
        </span>
        <span class="grow" />
        {typeof mouse === "string" && <span class="muted">mouse {mouse}</span>}
      </div>
      {typeof screenshot === "string" && isImageDataUri(screenshot) && (
        <img class="screenshot" src={screenshot} alt={`The page ${address}`} />
      )}
      {consoleText && (
        <Fold foldId={`${rowId}/console`} title={<span>Console</span>} class="report inside">
          {() => (
            <PlainText
              foldId={`${rowId}/console/lines`}
              text={consoleText}
              limit={MAX_CONSOLE_LINES}
              showTail
            />
          )}
        </Fold>
      )}
    </div>
  );
}

export function McpResponse({ row, rowId }: ResultRowProps) {
  const text = row.text ?? "";
  const images = (row.images ?? []).filter(isImageDataUri);
  const title = (
    <>
      <span>Answer of the server</span>
      <span class="ellipsis muted">{text.trim().split("\n", 1)[0]?.slice(0, 200)}</span>
    </>
  );
  return (
    <>
      <Fold foldId={`${rowId}/response`} title={title} class="report">
        {() => (
          <PlainText
            foldId={`${rowId}/response/lines`}
            text={prettyPrintJson(text)}
            limit={MAX_RESPONSE_LINES}
          />
        )}
      </Fold>
      <ImageThumbnails images={images} />
    </>
  );
}

export function SubtaskResult({ row }: { row: Row }) {
  return (
    <div class="completion subtask">
      <div class="card-head">
        <strong>✓ Result of the subtask</strong>
      </div>
      <Markdown text={row.text ?? ""} />
    </div>
  );
}

/** A generated image; the row's text is its data URI, or JSON that has it. */
export function GeneratedImage({ row }: { row: Row }) {
  const text = row.text ?? "";
  const uri = isImageDataUri(text) ? text : String(parseJsonObject(text)["imageUri"] ?? "");
  const images = [uri, ...(row.images ?? [])].filter(isImageDataUri);
  if (images.length === 0) return <p class="notice">The image cannot be shown here.</p>;
  return <img class="screenshot made" src={images[0]} alt="The generated image" />;
}

export interface SearchHit {
  path: string;
  lines: string;
  score: number;
  code: string;
}

/** What `codebase_search_result` holds. */
export function parseSearchHits(text: string | undefined): { query: string; hits: SearchHit[] } {
  const content = (parseJsonObject(text)["content"] ?? {}) as { query?: unknown; results?: unknown };
  const results: unknown[] = Array.isArray(content.results) ? content.results : [];
  return { query: String(content.query ?? ""), hits: results.map(parseSearchHit) };
}

function parseSearchHit(result: unknown): SearchHit {
  const { filePath, startLine, endLine, score, codeChunk } = (result ?? {}) as Record<string, unknown>;
  return {
    path: String(filePath ?? ""),
    lines: `${String(startLine ?? "?")}–${String(endLine ?? "?")}`,
    score: Number(score) || 0,
    code: String(codeChunk ?? ""),
  };
}
