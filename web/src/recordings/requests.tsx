// One recorded conversation: charts of its cache and cost, and its requests.

import { UsageCharts } from "./charts";
import { describeMiss } from "./misses";
import { escapeHiddenChars, formatCount, formatDollars, formatTime } from "../render/format";
import { compareRequests, loadMoreRequests } from "../state/recordings";
import type { RecordedConversation, RecordedRequest } from "../wire/protocol";

export function RecordedRequests({ recording }: { recording: RecordedConversation }) {
  const { session, requests, total } = recording;
  return (
    <>
      <p class="muted facts">
        {session.client} · {session.model} · {formatTime(session.first)} · {formatCount(session.tokensIn)} tokens in,{" "}
        {formatCount(session.cacheReads)} of them cached · {formatCount(session.tokensOut)} out
        {session.cost !== null && ` · ${formatDollars(session.cost)}`}
      </p>
      <UsageCharts session={session.id} requests={requests} />
      <ol class="requests">
        {requests.map((request) => (
          <RequestEntry key={request.turn} session={session.id} request={request} />
        ))}
      </ol>
      {requests.length < total && (
        <button class="small more" onClick={loadMoreRequests}>
          Show more of {total}
        </button>
      )}
    </>
  );
}

function RequestEntry({ session, request }: { session: number; request: RecordedRequest }) {
  const { usage, miss } = request;
  const hasFailed = request.state !== "done" || request.status >= 400 || request.error !== "";
  return (
    <li class="request">
      <div class="request-head">
        <strong>
          {session}.{request.turn}
        </strong>
        <span class="muted">{request.kind}</span>
        {hasFailed && (
          <span class="status failed">
            ✕ {request.state === "done" ? request.status : request.state}
          </span>
        )}
        <span class="grow" />
        {request.turn > 1 && (
          <button class="small" onClick={() => compareRequests(session, request.turn)}>
            Compare
          </button>
        )}
      </div>
      <p class="muted facts">
        {formatTime(request.at)} · {request.seconds.toFixed(1)} s
        {request.firstByteMs !== null && ` · first byte after ${Math.round(request.firstByteMs)} ms`}
        {usage !== null &&
          ` · ${formatCount(usage.input)} new, ${formatCount(usage.cacheReads)} cached, ${formatCount(usage.cacheWrites)} written, ${formatCount(usage.output)} out`}
        {request.cost !== null && ` · ${formatDollars(request.cost)}`}
      </p>
      {miss.reason !== "none" && <p class="miss">{describeMiss(miss)}</p>}
      {request.error !== "" && <p class="request-error">{escapeHiddenChars(request.error)}</p>}
      {request.message !== "" && <Message label={request.role || "message"} text={request.message} />}
      {request.reply !== "" && <Message label="reply" text={request.reply} />}
    </li>
  );
}

function Message({ label, text }: { label: string; text: string }) {
  return (
    <div class="recorded">
      <span class="muted">{label}</span>
      <pre tabIndex={0} dir="auto">
        {escapeHiddenChars(text)}
      </pre>
    </div>
  );
}
