/** Bandwidth by region type: bytes of each bin by its length. */

import { binBegin, binGroups, binsOf, sumOf, type BinRange, type Bins } from "../bins.ts";
import { byRegionType, regionColour } from "../colours.ts";
import { rateUnit } from "../format.ts";
import { SIDES } from "../mirrored.ts";
import type { RunPage, Traffic, TrafficSeries } from "../page.ts";
import { regionTitle } from "../region_titles.ts";
import type { Span } from "../time_window.ts";
import type { Lane, LaneSeries } from "./lane.ts";

export const READ = "read";
const WRITTEN = "written";
type Direction = typeof READ | typeof WRITTEN;

export function trafficLane(run: RunPage, window: Span, mostBars: number, traffic: Traffic = run.overview.traffic): Lane {
  const bins = binsOf(traffic, run.timeline.begin_ns);
  const groups = binGroups(bins, window, mostBars);
  const ordered = [...run.overview.traffic.series].sort(byRegionType);
  // What the whole run has is shown in every window, also where nothing is accessed: else the lanes below would move.
  const side = (direction: Direction): LaneSeries[] =>
    ordered
      .filter((series) => bytesOf(series, direction).some((bytes) => bytes !== 0))
      .map(
        ({ region_type }) =>
          traffic.series.find((series) => series.region_type === region_type) ?? nothing(region_type, traffic.bins),
      )
      .map((series) => bandwidth(run, series, direction, bins, groups));
  const read = side(READ);
  const written = side(WRITTEN);
  const most = greatestSum(read);
  return {
    name: "traffic",
    title: `${["Memory traffic", rateUnit().words].filter((words) => words !== "").join(" ")}: ${SIDES}`,
    kind: "mirrored",
    unit: "bytes/s",
    height: 190,
    most,
    most_down: greatestSum(written),
    series: [...read, ...written],
  };
}

function bytesOf(series: TrafficSeries, direction: Direction): number[] {
  return direction === READ ? series.read_bytes : series.written_bytes;
}

/** A region type that a window does not access. */
function nothing(region_type: string, bins: number): TrafficSeries {
  const zeros = new Array<number>(bins).fill(0);
  return { region_type, read_bytes: zeros, written_bytes: zeros };
}

function bandwidth(run: RunPage, series: TrafficSeries, direction: Direction, bins: Bins, groups: BinRange[]): LaneSeries {
  const bytes = bytesOf(series, direction);
  return {
    name: `${direction} ${series.region_type}`,
    title: `${regionTitle(run, series.region_type)} ${direction}`,
    colour: regionColour(series.region_type),
    dash: "none",
    begin_s: groups.map(({ from }) => binBegin(bins, from)),
    end_s: groups.map(({ to }) => binBegin(bins, to)),
    value: groups.map((group) => sumOf(bytes, group) / ((group.to - group.from) * bins.length_s)),
  };
}

/** Height of the highest stack. */
function greatestSum(stack: LaneSeries[]): number {
  const sums = (stack[0]?.value ?? []).map((_, place) => stack.reduce((sum, { value }) => sum + Number(value[place]), 0));
  return sums.reduce((most, sum) => Math.max(most, sum), 0);
}
