/** What a lane of the timeline shows: values over time, as plain data that is drawn, read and written to CSV. */

import { bisectRight } from "d3-array";

import type { Cell, Table } from "../csv.ts";
import { inUnit } from "../format.ts";
import type { Reading } from "../time_chart.ts";

/** Values that hold from a beginning to an end. Columns of the same length, ascending. */
export interface LaneSeries {
  name: string;
  title: string;
  colour: string;
  dash: string;
  begin_s: number[];
  end_s: number[];
  value: (number | string | null)[];
}

/**
 * `spans` are named boxes, `bars` single boxes of a height, `area` a filled line, `lines` lines, `mirrored` stacks upward (series
 * called `read …`) and downward (`written …`), each with a scale of its own because far more is read than written.
 */
export type LaneKind = "spans" | "bars" | "area" | "lines" | "mirrored";

export interface Lane {
  name: string;
  title: string;
  kind: LaneKind;
  unit: string;
  height: number;
  /** The greatest value of the axis; of `mirrored` lanes that of each side. */
  most: number;
  most_down: number;
  series: LaneSeries[];
}

/** Values of samples hold until the next one. */
export function untilNext(begin_s: readonly number[], last_s: number): number[] {
  return begin_s.map((begin, place) => begin_s[place + 1] ?? Math.max(begin, last_s));
}

export function greatest(series: readonly LaneSeries[]): number {
  let most = 0;
  for (const { value } of series) {
    for (const each of value) {
      most = typeof each === "number" && each > most ? each : most;
    }
  }
  return most;
}

/** The value at a time; null where nothing holds. */
export function valueAt(series: LaneSeries, at_s: number): number | string | null {
  const place = bisectRight(series.begin_s, at_s) - 1;
  return place >= 0 && at_s <= series.end_s[place] ? series.value[place] : null;
}

export function readLane(lane: Lane, at_s: number | null): Reading[] {
  if (lane.kind === "spans") {
    return [{ group: groupOf(lane), label: "", value: namesAt(lane, at_s), colour: null }];
  }
  if (lane.kind === "mirrored") {
    return readBothSides(lane, at_s);
  }
  return lane.series.map((series) => {
    const value = at_s === null ? null : valueAt(series, at_s);
    return { group: groupOf(lane), label: series.title, value: shownValue(value, lane.unit), colour: series.colour };
  });
}

/** The title without its explanation. */
function groupOf({ title }: Lane): string {
  return title.split(":")[0];
}

/** What is read and written of a region type in one line. */
function readBothSides(lane: Lane, at_s: number | null): Reading[] {
  const readings = new Map<string, Reading>();
  for (const series of lane.series) {
    const [label, side] = splitSide(series.title);
    const rate = at_s === null ? null : valueAt(series, at_s);
    const value = rate === null ? "–" : `${shownValue(rate, lane.unit)} ${side}`;
    const before = readings.get(label);
    const joined = before && rate !== null ? `${before.value}, ${value}` : value;
    readings.set(label, { group: groupOf(lane), label, value: joined, colour: series.colour });
  }
  return [...readings.values()];
}

/** The name of what a series of a mirrored lane stands for, and its side. */
export function splitSide(title: string): [string, string] {
  const end = title.lastIndexOf(" ");
  return [title.slice(0, end), title.slice(end + 1)];
}

/** All spans at a time in one line: there may be many requests. */
function namesAt(lane: Lane, at_s: number | null): string {
  const names = lane.series.flatMap((series) => {
    const name = at_s === null ? null : valueAt(series, at_s);
    return name === null ? [] : [series.title === "" ? String(name) : `${name} (${series.title})`];
  });
  return names.join(", ") || "–";
}

function shownValue(value: number | string | null, unit: string): string {
  return typeof value === "string" ? value : inUnit(value, unit);
}

export function laneTable(lanes: readonly Lane[]): Table {
  const rows = lanes.flatMap((lane) =>
    lane.series.flatMap((series) =>
      series.value.map((value, place): Cell[] => [
        lane.name,
        series.name,
        series.begin_s[place],
        series.end_s[place],
        value,
        lane.unit,
      ]),
    ),
  );
  return { columns: ["lane", "series", "begin_s", "end_s", "value", "unit"], rows };
}
