import assert from "node:assert/strict";
import { test } from "node:test";

import { HOSTILE, runPage, SMALL } from "../../test/sample.ts";
import { linear } from "../axes.ts";
import { toCsv } from "../csv.ts";
import { countTimesIn } from "../format.ts";
import { drawLane, ticksOf } from "./draw_lane.ts";
import { laneTable, readLane, splitSide, valueAt } from "./lane.ts";
import { lastOfSteps, packed, runLanes } from "./run_lanes.ts";

const run = runPage(SMALL);
const whole = { begin_s: 0, end_s: run.timeline.end_s };

test("a run has its lanes in order", () => {
  assert.deepEqual(
    runLanes(run, whole, 100).map(({ name }) => name),
    ["phases", "requests", "tokens", "traffic", "memory", "kv_bytes", "pressure", "observed_io"],
  );
});

test("lanes of a run without tokens and samples are left out", () => {
  const tokens = { stride: 1, index: [], begin_s: [], end_s: [], context_tokens: [], kv_bytes: [] };
  const bare = { ...run, timeline: { ...run.timeline, tokens, requests: [], memory: null, pressure: null, observed: [] } };
  assert.deepEqual(
    runLanes(bare, whole, 100).map(({ name }) => name),
    ["phases", "traffic"],
  );
});

test("bandwidth times time is the bytes of the metrics, however many bars there are", () => {
  for (const bars of [7, 100, 5000]) {
    const traffic = runLanes(run, whole, bars).find(({ name }) => name === "traffic");
    const weights = traffic?.series.find(({ name }) => name === "read weight");
    assert.ok(weights);
    const bytes = weights.value.reduce<number>(
      (sum, rate, at) => sum + Number(rate) * (weights.end_s[at] - weights.begin_s[at]),
      0,
    );
    const expected = run.regions.find(({ region_type }) => region_type === "weight")?.read_bytes ?? 0;
    assert.ok(Math.abs(bytes / expected - 1) < 1e-9);
  }
});

test("traffic of a recording without a clock is per million of what its timestamps count", () => {
  const labels = (unit: string | null): [string, string] => {
    countTimesIn(unit);
    try {
      const traffic = runLanes(run, whole, 100).find(({ name }) => name === "traffic");
      assert.ok(traffic);
      const x = linear([0, run.timeline.end_s], [0, 500]);
      return [traffic.title, JSON.stringify(drawLane(traffic, 0, 0, 500, x))];
    } finally {
      countTimesIn(null);
    }
  };
  const [title, drawn] = labels("instructions");
  assert.match(title, /per million instructions/);
  assert.doesNotMatch(drawn, /B\/s/);
  const [timed, drawnTimed] = labels(null);
  assert.doesNotMatch(timed, /per/);
  assert.match(drawnTimed, /B\/s/);
});

test("values hold from their beginning to their end", () => {
  const phases = runLanes(run, whole, 100)[0].series[0];
  assert.equal(valueAt(phases, 0.1), "weight_load");
  assert.equal(valueAt(phases, 0.41), "generation");
  assert.equal(valueAt(phases, 99), null);
});

test("reads and writes of a region type are read in one line", () => {
  const lanes = runLanes(run, whole, 100);
  const readings = lanes.flatMap((lane) => readLane(lane, 0.46));
  assert.match(readings.find(({ label }) => label === "KV cache")?.value ?? "", /read, .*written$/);
  assert.deepEqual(splitSide("KV cache read"), ["KV cache", "read"]);
  const names = lanes.flatMap((lane) => readLane(lane, null));
  assert.deepEqual(
    names.map(({ label }) => label),
    readings.map(({ label }) => label),
  );
});

test("requests at the same time get rows of their own", () => {
  const request = (id: string, begin_s: number, end_s: number) => ({ id, begin_s, first_token_s: null, end_s });
  const rows = packed([request("c", 5, 6), request("a", 0, 4), request("b", 2, 5)]);
  assert.deepEqual(
    rows.map((row) => row.map(({ id }) => id)),
    [["a", "c"], ["b"]],
  );
});

test("the tokens of a prompt are one step", () => {
  assert.deepEqual(lastOfSteps([1, 1, 1, 2, 3]), [2, 3, 4]);
});

test("hostile names stay text in CSV", () => {
  const csv = toCsv(laneTable(runLanes(run, whole, 100)));
  assert.ok(csv.includes(`"${HOSTILE.replaceAll('"', '""')}"`));
});

test("a window without accesses keeps the lane of the traffic and its names", () => {
  const { traffic } = run.overview;
  const none = { ...traffic, series: [] };
  const names = (given: typeof traffic) =>
    runLanes(run, whole, 100, given).flatMap((lane) => (lane.name === "traffic" ? lane.series.map(({ name }) => name) : []));
  assert.ok(names(traffic).length > 0);
  assert.deepEqual(names(none), names(traffic));
  const empty = runLanes(run, whole, 100, none).find(({ name }) => name === "traffic");
  assert.ok(empty?.series.every(({ value }) => value.every((rate) => rate === 0)));
});

test("a low lane has a tick above 0", () => {
  const lane = runLanes(run, whole, 100).find(({ name }) => name === "tokens");
  assert.ok(lane);
  for (const most of [3, 7, 64, 259, 4096]) {
    const ticks = ticksOf({ ...lane, most }, { left: 0, top: 0, width: 100, height: lane.height });
    assert.ok(ticks.length > 1, `only ${ticks.map(({ label }) => label).join()} up to ${most}`);
  }
});
