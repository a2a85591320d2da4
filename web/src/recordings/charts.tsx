// Tokens and cost of the requests of a conversation, as bars in the order of time.

import { formatCount, formatDollars } from "../render/format";
import { compareRequests } from "../state/recordings";
import type { RecordedRequest } from "../wire/protocol";

const HEIGHT = 96;
const STEP = 14;
const BAR = 10;

interface Part {
  kind: "cached" | "written" | "fresh" | "paid" | "lost";
  value: number;
}

interface Bar {
  turn: number;
  title: string;
  parts: Part[];
}

export function UsageCharts({ session, requests }: { session: number; requests: RecordedRequest[] }) {
  const tokens = requests.map(buildTokenBar);
  const costs = requests.map(buildCostBar);
  return (
    <div class="charts">
      <Chart
        session={session}
        title="Tokens in"
        bars={tokens}
        legend={[
          ["cached", "from the cache"],
          ["written", "written to it"],
          ["fresh", "new"],
        ]}
        format={formatCount}
      />
      {requests.some((request) => request.cost !== null) && (
        <Chart
          session={session}
          title="Cost"
          bars={costs}
          legend={[
            ["paid", "paid"],
            ["lost", "of it for cache misses"],
          ]}
          format={formatDollars}
        />
      )}
    </div>
  );
}

function buildTokenBar({ turn, usage }: RecordedRequest): Bar {
  const parts: Part[] = [
    { kind: "cached", value: usage?.cacheReads ?? 0 },
    { kind: "written", value: usage?.cacheWrites ?? 0 },
    { kind: "fresh", value: usage?.input ?? 0 },
  ];
  const [cached, written, fresh] = parts.map((part) => formatCount(part.value));
  return { turn, parts, title: `Request ${turn}: ${cached} cached, ${written} written, ${fresh} new` };
}

function buildCostBar({ turn, cost, miss }: RecordedRequest): Bar {
  const lost = Math.min(miss.cost, cost ?? 0);
  const parts: Part[] = [
    { kind: "paid", value: Math.max(0, (cost ?? 0) - lost) },
    { kind: "lost", value: lost },
  ];
  const loss = lost > 0 ? `, ${formatDollars(lost)} of it for a cache miss` : "";
  return { turn, parts, title: `Request ${turn}: ${formatDollars(cost)}${loss}` };
}

function sum(parts: Part[]): number {
  return parts.reduce((total, part) => total + part.value, 0);
}

interface ChartProps {
  session: number;
  title: string;
  bars: Bar[];
  legend: [kind: Part["kind"], meaning: string][];
  format(value: number): string;
}

function Chart({ session, title, bars, legend, format }: ChartProps) {
  const highest = Math.max(...bars.map((bar) => sum(bar.parts)), Number.MIN_VALUE);
  const width = bars.length * STEP;
  return (
    <figure class="chart">
      <figcaption>
        <strong>{title}</strong> <span class="muted">up to {format(Math.max(...bars.map((b) => sum(b.parts)), 0))}</span>
        <span class="legend">
          {legend.map(([kind, meaning]) => (
            <span key={kind}>
              <svg width="10" height="10" aria-hidden="true">
                <rect class={`bar ${kind}`} width="10" height="10" rx="2" />
              </svg>{" "}
              {meaning}
            </span>
          ))}
        </span>
      </figcaption>
      <div class="chart-scroll" tabIndex={0} role="group" aria-label={title}>
        <svg width={width} height={HEIGHT} viewBox={`0 0 ${width} ${HEIGHT}`} role="img" aria-label={`${title} by request`}>
          {bars.map((bar, index) => {
            let top = HEIGHT;
            return (
              <g key={bar.turn} class="column" onClick={() => bar.turn > 1 && compareRequests(session, bar.turn)}>
                <title>{bar.title}</title>
                <rect class="back" x={index * STEP} y={0} width={STEP} height={HEIGHT} />
                {bar.parts.map((part) => {
                  const height = (part.value / highest) * HEIGHT;
                  top -= height;
                  return (
                    <rect
                      key={part.kind}
                      class={`bar ${part.kind}`}
                      x={index * STEP + (STEP - BAR) / 2}
                      y={top}
                      width={BAR}
                      height={height}
                    />
                  );
                })}
              </g>
            );
          })}
        </svg>
      </div>
    </figure>
  );
}
