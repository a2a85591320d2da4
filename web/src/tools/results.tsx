// Tool results in rows of their own: search hits, browser views, MCP responses, subtask results, images.

import { CodeBlock } from "../render/code";
import { Fold } from "../render/folds";
import { parsed } from "../render/format";
import { hitsOf, pretty } from "./calls";
import { Pictures } from "../render/images";
import { isImage, Markdown } from "../render/markdown";
import { Plain } from "../render/plain";
import type { Row } from "../wire/protocol";

const CONSOLE_LINES = 100;
const ANSWER_LINES = 400;

interface ReportProps {
  row: Row;
  name: string;
}

export function CodeHits({ row, name }: ReportProps) {
  const { query, hits } = hitsOf(row.text);
  const title = (
    <>
      <span>{hits.length === 1 ? "1 place found" : `${hits.length} places found`}</span>
      {query && <span class="ellipsis muted">{query}</span>}
    </>
  );
  return (
    <Fold name={`${name}/hits`} title={title} class="report">
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
export function BrowserView({ row, name }: ReportProps) {
  const facts = parsed(row.text);
  const { screenshot, logs, currentMousePosition: mouse } = facts;
  const address = String(facts["currentUrl"] ?? "");
  const said = typeof logs === "string" ? logs.trim() : "";
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
      {typeof screenshot === "string" && isImage(screenshot) && (
        <img class="screenshot" src={screenshot} alt={`The page ${address}`} />
      )}
      {said && (
        <Fold name={`${name}/console`} title={<span>Console</span>} class="report inside">
          {() => <Plain name={`${name}/console/lines`} text={said} limit={CONSOLE_LINES} tail />}
        </Fold>
      )}
    </div>
  );
}

export function ServerResponse({ row, name }: ReportProps) {
  const text = row.text ?? "";
  const images = (row.images ?? []).filter(isImage);
  const title = (
    <>
      <span>Answer of the server</span>
      <span class="ellipsis muted">{text.trim().split("\n", 1)[0]?.slice(0, 200)}</span>
    </>
  );
  return (
    <>
      <Fold name={`${name}/response`} title={title} class="report">
        {() => <Plain name={`${name}/response/lines`} text={pretty(text)} limit={ANSWER_LINES} />}
      </Fold>
      <Pictures images={images} />
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

/** A picture that was made; the text is the picture, or JSON that has it. */
export function MadePicture({ row }: { row: Row }) {
  const text = row.text ?? "";
  const uri = isImage(text) ? text : String(parsed(text)["imageUri"] ?? "");
  const images = [uri, ...(row.images ?? [])].filter(isImage);
  if (images.length === 0) return <p class="notice">The picture cannot be shown here.</p>;
  return <img class="screenshot made" src={images[0]} alt="The picture that was made" />;
}
