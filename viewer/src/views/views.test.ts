import assert from "node:assert/strict";
import { test } from "node:test";

import { experimentPage, REALISTIC, runPage } from "../../test/sample.ts";
import { namedRuns } from "./comparison.ts";
import { joined, xValues } from "./experiment.ts";
import { WORDS } from "./help.ts";
import { kvGrid, kvLegendTitle, KvLives } from "./kv.ts";
import { layersScene } from "./layers.ts";
import { memoryScene } from "./memory.ts";
import { unitOfLine } from "./metrics.ts";
import { regionColumns } from "./regions.ts";
import { retentionScene } from "./retention.ts";
import { hasOpenEnd, survivalScene } from "./survival.ts";
import { trustWords } from "./trust.ts";

const run = runPage();

test("layers and what lies outside of them add up to the run", () => {
  const { layers, outside } = layersScene(run.overview.places, null);
  const parts = [...layers.flatMap((bar) => bar.parts), ...outside];
  const expected = run.regions.reduce((sum, region) => sum + region.read_bytes, 0);
  assert.deepEqual(
    layers.map(({ layer }) => layer),
    [0, 1],
  );
  assert.equal(
    parts.reduce((sum, part) => sum + part.read_bytes, 0),
    expected,
  );
});

test("memory of no layer is drawn where there is no other", () => {
  const { layers, outside } = layersScene(run.overview.places, "work_buffer");
  assert.deepEqual([layers.length, layers[0].layer, outside.length], [1, null, 0]);
});

test("the grid of all layers is the sum of the layers", () => {
  const map = run.overview.kv;
  assert.ok(map);
  const all = kvGrid(map, map.layers);
  const [first, second] = map.layers.map((layer) => kvGrid(map, [layer]));
  all.resident_bytes.forEach((bytes, cell) => assert.equal(bytes, first.resident_bytes[cell] + second.resident_bytes[cell]));
});

test("reads of the KV cache are shown as what they are: spread over lives", () => {
  assert.ok(run.overview.kv);
  const lives = new KvLives(run.overview.kv, run.timeline.begin_ns);
  assert.equal(lives.read(null)[2].label, "reads, spread evenly over each life");
  assert.match(kvLegendTitle("cell_reads", "1 position × 1 s"), /^Reads, spread evenly over each life; /);
  assert.match(kvLegendTitle("resident_bytes", "1 position × 1 s"), /^Bytes held, mean per cell of 1 position/);
});

test("parts of memory follow each other, negative ones too", () => {
  const { steps, sum_bytes } = memoryScene(run.memory_parts);
  steps.slice(1).forEach((step, at) => assert.equal(step.from_bytes, steps[at].to_bytes));
  assert.equal(
    sum_bytes,
    run.memory_parts.reduce((sum, part) => sum + part.bytes, 0),
  );
});

test("survival says which share had not ended, and all panels share an axis", () => {
  const scene = survivalScene([run, runPage(REALISTIC)], "retention");
  const weight = scene.panels[0].curves.find(({ region_type }) => region_type === "weight");
  assert.equal(weight?.open_share, 1);
  const times = scene.panels.flatMap(({ curves }) => curves.flatMap(({ at_s }) => at_s));
  assert.ok(scene.domain_s[0] < Math.min(...times) && scene.domain_s[1] > Math.max(...times));
});

test("retention is drawn at the speed of the classes where steps are known", () => {
  const { columns, rows } = run.metrics;
  const column = (name: string) => ({ name, unit: "s", meaning: "" });
  const metrics = {
    columns: [...columns, column("needed_p99_s"), column("needed_p99_low_s")],
    rows: rows.map((row) => [...row, null, 10]),
  };
  const scene = retentionScene({ ...run, metrics });
  assert.equal(scene.at_tokens_per_s, 20);
  assert.equal(scene.rows[0].p99_low_s, 10);
  assert.equal(retentionScene(run).at_tokens_per_s, null);
});

test("numbers of an axis ascend, names stay in their order", () => {
  const [plot] = experimentPage().experiment?.plots ?? [];
  assert.deepEqual(
    xValues({ ...plot, lines: [{ title: "", points: [...plot.lines[0].points].reverse() }] }),
    [256, 512, 1024, 2048, 4096],
  );
});

test("trust is counted in words", () => {
  assert.equal(trustWords(run.trust), "1 problem, 1 note, 3 good");
});

test("the glossary says what classes ask for", () => {
  const meaning = WORDS.find(([word]) => word === "Managed-retention memory")?.[1] ?? "";
  assert.match(meaning, /share of the stored data stays for the retention of the class/);
  assert.doesNotMatch(meaning, /write-once/);
});

test("the table of regions says which quantile its times are and at what speed", () => {
  const titles = (speed: number | null): string[] =>
    regionColumns(speed)
      .slice(2, 4)
      .map(([title]) => title.replaceAll("\u202f", " "));
  assert.deepEqual(titles(20), ["Needed (p99, at 20 tokens/s)", "Held (median, in this run)"]);
  assert.deepEqual(titles(null), ["Needed (p99, in this run)", "Held (median, in this run)"]);
});

test("runs of the same name are shown by what tells them apart", () => {
  const names = namedRuns({ run_titles: ["small/demo", "large/demo"] }, [run, run]).map(({ run_id }) => run_id);
  assert.deepEqual(names, ["small/demo", "large/demo"]);
});

test("a lower bound of 0 is not drawn", () => {
  const [first, ...others] = run.regions;
  const unknown = { ...first, retention_p99_s: null, retention_p99_low_s: 0 };
  const types = retentionScene({ ...run, regions: [unknown, ...others] }).rows.map(({ region_type }) => region_type);
  assert.ok(!types.includes(first.region_type));
});

test("a line joins values and leads to no bound", () => {
  const point = (x: number, is_bound: boolean) => ({ x, n: 1, mean: x, low: null, high: null, values: [], is_bound });
  const points = [point(1, false), point(2, false), point(3, true), point(4, false)];
  assert.deepEqual(
    joined(points).map((part) => part.map(({ x }) => x)),
    [[1, 2]],
  );
});

test("only a curve with data left after some time has a ring", () => {
  const [curve] = run.overview.survival;
  const ended = (open_bytes: number, at_s: number, share: number) =>
    hasOpenEnd({ ...curve, open_bytes, at_s: [at_s], surviving: [share] });
  assert.equal(ended(38_016, 7.5, 0.0009), true);
  assert.equal(ended(38_016, 0, 0.0009), false, "it ends at 0 s");
  assert.equal(ended(38_016, 7.5, 0), false, "it ends at 0 %");
  assert.equal(ended(0, 7.5, 0.0009), false, "nothing was left");
});

test("the unit of a metric is said once", () => {
  assert.deepEqual(["s", "bytes", "ns", "pages"].map(unitOfLine), ["", "", "", "pages"]);
});
