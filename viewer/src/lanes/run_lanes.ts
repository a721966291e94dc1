/** The lanes of a run, from top to bottom. */

import { seriesStyle } from "../colours.ts";
import type { Request, RunPage, Samples, Traffic } from "../page.ts";
import type { Span } from "../time_window.ts";
import { greatest, untilNext, type Lane, type LaneKind, type LaneSeries } from "./lane.ts";
import { trafficLane } from "./traffic.ts";

/** More rows of requests than this are too thin to see. */
const MOST_REQUEST_ROWS = 12;

/** Lanes that have anything to show. `mostBars` is how many bars of traffic can be told apart. */
export function runLanes(run: RunPage, window: Span, mostBars: number, traffic: Traffic = run.overview.traffic): Lane[] {
  const { timeline } = run;
  const lanes = [
    phaseLane(run),
    requestLane(timeline.requests),
    tokenLane(run),
    trafficLane(run, window, mostBars, traffic),
    timeline.memory && sampleLane("memory", "Resident memory", timeline.memory, timeline.end_s),
    kvLane(run),
    timeline.pressure && sampleLane("pressure", "Pressure: time spent waiting", timeline.pressure, timeline.end_s),
    ...timeline.observed.map(({ name, title, samples }) => sampleLane(name, title, samples, timeline.end_s)),
  ];
  return lanes.filter((lane) => lane !== null).filter(({ series }) => series.length > 0);
}

function phaseLane(run: RunPage): Lane {
  const { phases } = run.timeline;
  const spans = series(
    "phase",
    "",
    "var(--phase)",
    phases.map((phase) => phase.begin_s),
    phases.map((phase) => phase.end_s),
    phases.map((phase) => phase.name),
  );
  return lane("phases", "Phase", "spans", "", 20, phases.length === 0 ? [] : [spans]);
}

/** Requests in as few rows as hold them side by side; each is pale until its first token. */
function requestLane(requests: readonly Request[]): Lane {
  const rows = packed(requests);
  const all = rows.flatMap((row, place) => [
    series(
      `waiting ${place + 1}`,
      "until first token",
      "var(--waiting)",
      row.map((request) => request.begin_s),
      row.map(firstToken),
      row.map(({ id }) => id),
    ),
    series(
      `answering ${place + 1}`,
      "generating",
      "var(--phase)",
      row.map(firstToken),
      row.map((request) => request.end_s),
      row.map(({ id }) => id),
    ),
  ]);
  return lane("requests", "Requests", "spans", "", Math.min(rows.length, MOST_REQUEST_ROWS) * 12 + 8, all);
}

function firstToken(request: Request): number {
  return request.first_token_s ?? request.end_s;
}

export function packed(requests: readonly Request[]): Request[][] {
  const rows: Request[][] = [];
  for (const request of [...requests].sort((left, right) => left.begin_s - right.begin_s)) {
    const row = rows.find((taken) => (taken.at(-1)?.end_s ?? 0) <= request.begin_s);
    row ? row.push(request) : rows.push([request]);
  }
  return rows;
}

function tokenLane(run: RunPage): Lane {
  const { tokens, end_s } = run.timeline;
  const steps = lastOfSteps(tokens.begin_s);
  const begins = steps.map((at) => tokens.begin_s[at]);
  // An entry that stands for several tokens lasts until the next entry.
  const ends = tokens.stride > 1 ? untilNext(begins, end_s) : steps.map((at) => tokens.end_s[at]);
  const column = (name: string, title: string, value: (number | null)[]): LaneSeries =>
    series(
      name,
      title,
      "var(--token)",
      begins,
      ends,
      steps.map((at) => value[at]),
    );
  const hasContext = tokens.context_tokens.some((context) => context !== null);
  const columns = [column("context", "context", tokens.context_tokens), column("token", "token", tokens.index)];
  const shown = hasContext ? columns : columns.slice(1);
  return lane("tokens", hasContext ? "Tokens: context length" : "Tokens", "bars", "", 46, tokens.index.length === 0 ? [] : shown);
}

/** The tokens of a prompt are computed in one step and share its times: the last of them stands for all. */
export function lastOfSteps(begin_s: readonly number[]): number[] {
  return begin_s.map((_, at) => at).filter((at) => begin_s[at] !== begin_s[at + 1]);
}

function kvLane(run: RunPage): Lane {
  const { tokens, end_s } = run.timeline;
  const steps = lastOfSteps(tokens.begin_s);
  const begins = steps.map((at) => tokens.begin_s[at]);
  const held = series(
    "kv_cache",
    "",
    "var(--kv_cache)",
    begins,
    untilNext(begins, end_s),
    steps.map((at) => tokens.kv_bytes[at]),
  );
  return lane("kv_bytes", "KV cache in use", "area", "bytes", 56, tokens.kv_bytes.some((bytes) => bytes !== null) ? [held] : []);
}

function sampleLane(name: string, title: string, samples: Samples, last_s: number): Lane {
  const end_s = untilNext(samples.time_s, last_s);
  const lines = samples.series.map((each, place) => {
    const style = seriesStyle(place);
    return {
      ...series(each.name, each.title, style.stroke, samples.time_s, end_s, each.values),
      dash: style["stroke-dasharray"],
    };
  });
  return lane(name, title, "lines", samples.unit, 76, lines);
}

function series(
  name: string,
  title: string,
  colour: string,
  begin_s: number[],
  end_s: number[],
  value: (number | string | null)[],
): LaneSeries {
  return { name, title, colour, dash: "none", begin_s, end_s, value };
}

/** The axis of bars and lines ends at the greatest value of the series that is drawn first. */
function lane(name: string, title: string, kind: LaneKind, unit: string, height: number, all: LaneSeries[]): Lane {
  return { name, title, kind, unit, height, most: greatest(kind === "bars" ? all.slice(0, 1) : all), most_down: 0, series: all };
}
