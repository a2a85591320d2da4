// Recordings of requests to models: all sessions, and the frame of the view.

import type { ComponentChildren } from "preact";
import { Comparison } from "./comparison";
import { RecordedRequests } from "./requests";
import { escapeHiddenChars, formatCount, formatDollars, formatTime } from "../render/format";
import {
  comparison,
  leaveComparison,
  loadMoreSessions,
  openRecording,
  openRecordings,
  recording,
  sessions,
} from "../state/recordings";
import type { RecordedSession } from "../wire/protocol";

export function RecordingsView({ menuButton }: { menuButton: ComponentChildren }) {
  const session = recording.value?.session;
  const pair = comparison.value;
  return (
    <>
      <header class="header">
        <div class="header-line">
          {menuButton}
          <nav class="crumbs ellipsis" aria-label="Recordings">
            {session === undefined ? (
              <h1>Recordings</h1>
            ) : (
              <button class="quiet small" onClick={openRecordings}>
                Recordings
              </button>
            )}
            {session !== undefined && (
              <>
                <span aria-hidden="true">›</span>
                {pair === null ? (
                  <h1 class="ellipsis">{escapeHiddenChars(session.title || `Session ${session.id}`)}</h1>
                ) : (
                  <button class="quiet small" onClick={leaveComparison}>
                    Session {session.id}
                  </button>
                )}
              </>
            )}
            {pair !== null && (
              <>
                <span aria-hidden="true">›</span>
                <h1>
                  Request {pair.session}.{pair.turn}
                </h1>
              </>
            )}
          </nav>
        </div>
      </header>
      {/* Each has its own place to be scrolled to; that of the session stays while two requests are compared. */}
      {pair !== null && (
        <div key="comparison" class="recordings" tabIndex={-1}>
          <Comparison comparison={pair} count={recording.value?.total ?? pair.turn} />
        </div>
      )}
      <div key={session?.id ?? "sessions"} class="recordings" tabIndex={-1} hidden={pair !== null}>
        {recording.value !== null ? <RecordedRequests recording={recording.value} /> : <SessionTable />}
      </div>
    </>
  );
}

function SessionTable() {
  const listed = sessions.value;
  if (listed === null) return <p class="muted none">Loading…</p>;
  if (listed.total === 0) {
    return (
      <div class="none">
        <p>Nothing is recorded yet.</p>
        <p class="muted">
          Record tasks of joey with <code>joey --record</code> or the setting <code>recordRequests</code>, other
          programs with <code>joey proxy run -- COMMAND</code>.
        </p>
      </div>
    );
  }
  return (
    <>
      <ul class="sessions">
        {listed.sessions.map((session) => (
          <SessionEntry key={session.id} session={session} />
        ))}
      </ul>
      {listed.sessions.length < listed.total && (
        <button class="small more" onClick={loadMoreSessions}>
          Show more of {listed.total}
        </button>
      )}
    </>
  );
}

function SessionEntry({ session }: { session: RecordedSession }) {
  const share = session.tokensIn > 0 ? Math.round((100 * session.cacheReads) / session.tokensIn) : 0;
  return (
    <li>
      <button class="session" onClick={() => openRecording(session.id)}>
        <span class="session-title">{escapeHiddenChars(session.title || `Session ${session.id}`)}</span>
        <span class="session-facts muted">
          <span class="client">{session.client}</span>
          {!session.real && <span>test traffic</span>}
          <span>{session.model}</span>
          <span>{formatTime(session.last)}</span>
          <span>{session.requests === 1 ? "1 request" : `${session.requests} requests`}</span>
          <span>{formatCount(session.tokensIn)} in</span>
          <span>{formatCount(session.tokensOut)} out</span>
          <span>{share}% cached</span>
          {session.cost !== null && <span>{formatDollars(session.cost)}</span>}
        </span>
      </button>
    </li>
  );
}
