/**
 * What a page shows, as dwell writes it into report.html and as `dwell view` serves it.
 *
 * Every number and every sentence comes from dwell; the page only draws. Times are seconds since `begin_ns` on CLOCK_MONOTONIC
 * unless their name, or the `time_unit` of the run, says otherwise. Lists of the same object have the same length.
 */

/** Version of these types. */
export const PAGE_FORMAT = 1;

export type PageKind = "run" | "comparison" | "experiment";

export interface Page {
  format: number;
  kind: PageKind;
  title: string;
  /** For instance `dwell 0.1.0`. */
  written_by: string;
  /** One entry for a run, several for a comparison; none for an experiment. */
  runs: RunPage[];
  comparison: Comparison | null;
  experiment: Experiment | null;
}

export type Level = "good" | "note" | "bad";

/** One thing that decides how far a run can be trusted. */
export interface Statement {
  /** For instance `basis`, `labels`, `loss`, `overhead`, `validity`, `quality`. */
  topic: string;
  level: Level;
  /** A sentence. */
  text: string;
  /** Why, one sentence each. */
  reasons: string[];
}

/** What one kind of memory does. */
export interface RegionRow {
  /** `weight`, `kv_cache`, `recurrent_state`, `activation`, `work_buffer`, `runtime`, `unknown`. */
  region_type: string;
  title: string;
  size_bytes: number | null;
  read_bytes: number;
  written_bytes: number;
  read_bytes_per_token: number | null;
  written_bytes_per_token: number | null;
  /** How long data was there, in words such as `> 4.03 s`. */
  residency: string;
  /** How long a memory has to keep the data, in words. */
  required_retention: string;
  /** Median and 99th percentile of the required retention in seconds; null where it was not reached. */
  retention_p50_s: number | null;
  retention_p99_s: number | null;
  /** Lower bounds of the two. */
  retention_p50_low_s: number | null;
  retention_p99_low_s: number | null;
  write_once_ratio: number | null;
  reads_per_write: number | null;
  /** `high_mrm`, `medium_mrm`, `low_mrm`, `not_suitable`, `not_rated`. */
  suitability: string;
  /** The class in words. */
  suitability_title: string;
  /** One sentence that a memory architect understands. */
  sentence: string;
}

export interface Phase {
  name: string;
  begin_s: number;
  end_s: number;
}

export interface Request {
  id: string;
  begin_s: number;
  first_token_s: number | null;
  end_s: number;
}

/** Tokens in the order in which they were computed; every n-th of a long run. */
export interface Tokens {
  /** Tokens that one entry stands for. */
  stride: number;
  index: number[];
  begin_s: number[];
  end_s: number[];
  context_tokens: (number | null)[];
  kv_bytes: (number | null)[];
}

export interface Series {
  name: string;
  title: string;
  values: (number | null)[];
}

/** Samples at the same times. */
export interface Samples {
  /** `bytes`, `percent`, `ms`, `/s`; empty for numbers. */
  unit: string;
  time_s: number[];
  series: Series[];
}

/** Samples of the kernel that share an axis, from files of `dwell observe`. */
export interface ObservedSamples {
  name: string;
  title: string;
  samples: Samples;
}

export interface Timeline {
  /** CLOCK_MONOTONIC nanoseconds that 0 seconds stand for. */
  begin_ns: number;
  end_s: number;
  phases: Phase[];
  tokens: Tokens;
  requests: Request[];
  /** Resident memory by kind. */
  memory: Samples | null;
  pressure: Samples | null;
  observed: ObservedSamples[];
}

/** Where resident memory went. */
export interface MemoryPart {
  name: string;
  title: string;
  bytes: number;
  /** How it is known. */
  source: string;
}

/** Bytes that a token takes, as recorded and by arithmetic. */
export interface KvPerToken {
  measured_bytes: number | null;
  theoretical_bytes: number | null;
}

export interface Thresholds {
  high_retention_s: number;
  medium_retention_s: number;
  high_write_once: number;
  medium_write_once: number;
  /** Tokens per second at which classes hold; null if seconds are those of the recording. */
  at_tokens_per_s: number | null;
}

export interface MetricColumn {
  name: string;
  unit: string;
  meaning: string;
}

/** metrics.csv. */
export interface MetricsTable {
  columns: MetricColumn[];
  rows: (string | number | boolean | null)[][];
}

export interface RunPage {
  run_id: string;
  model: string;
  engine: string;
  machine: string;
  recorded_utc: string | null;
  /** What timestamps count if the recording had no clock, such as `instructions`: a second then stands for a billion of them. */
  time_unit: string | null;
  state: string;
  /** What ran on what, one sentence. */
  headline: string;
  /** What should hold the memory and how sure that is: one short paragraph. */
  answer: string;
  trust: Statement[];
  regions: RegionRow[];
  timeline: Timeline;
  overview: Overview;
  memory_parts: MemoryPart[];
  kv_per_token: KvPerToken | null;
  thresholds: Thresholds;
  metrics: MetricsTable;
}

/* ---- overview.json ---- */

export interface TimeAxis {
  /** CLOCK_MONOTONIC nanoseconds at which bin 0 begins. */
  first_bin_ns: number;
  bin_ns: number;
  bins: number;
}

/** One row of the memory map. Places are in the order in which they are drawn. */
export interface Place {
  region_type: string;
  layer: number | null;
  /** null where the place stands for all tensors of a layer or type. */
  tensor: string | null;
  regions: number;
  size_bytes: number;
  read_bytes: number;
  written_bytes: number;
  rows: number;
}

/** Cells in which anything was accessed; columns of the same length, ascending by place, then bin. */
export interface Tiles extends TimeAxis {
  place: number[];
  bin: number[];
  read_bytes: number[];
  written_bytes: number[];
}

export interface TrafficSeries {
  region_type: string;
  /** One number per bin. */
  read_bytes: number[];
  written_bytes: number[];
}

export interface Traffic extends TimeAxis {
  series: TrafficSeries[];
}

export interface Operation {
  /** Empty for all operations that are not listed. */
  symbol: string;
  rows: number;
  read_bytes: number;
  written_bytes: number;
}

export interface WorkingSetSteps {
  /** Steps that one number stands for: the largest of them. */
  steps_per_point: number;
  series: { region_type: string; bytes: number[] }[];
}

export interface SurvivalCurve {
  region_type: string;
  /** `retention`: store to last load. `residency`: store to the next store or the end. */
  endpoint: "retention" | "residency";
  life_bytes: number;
  /** Bytes of lives that had not ended when the trace did. */
  open_bytes: number;
  at_s: number[];
  surviving: number[];
  surviving_low: number[];
  surviving_high: number[];
}

/** A cell is `row * bins + bin`; cells without anything are left out. */
export interface KvLayerMap {
  layer: number | null;
  lives: number;
  evicted: number;
  reads: number;
  cell: number[];
  resident_bytes: number[];
  cell_reads: number[];
}

export interface KvMap extends TimeAxis {
  positions_per_row: number;
  rows: number;
  layers: KvLayerMap[];
}

export interface Overview {
  format: number;
  first_ns: number;
  last_ns: number;
  rows: number;
  places: Place[];
  tiles: Tiles;
  traffic: Traffic;
  operations: Operation[];
  working_set: WorkingSetSteps;
  survival: SurvivalCurve[];
  kv: KvMap | null;
}

/* ---- comparisons and experiments ---- */

/** One line of a comparison: the same number of every run. */
export interface ComparisonRow {
  label: string;
  unit: string;
  values: (number | null)[];
  /** The values as text, with their units. */
  texts: string[];
}

export interface Comparison {
  /** Names of the columns: runs or groups of runs. */
  columns: string[];
  sections: { title: string; rows: ComparisonRow[] }[];
  /** What makes the comparison unequal, one sentence each. */
  notes: string[];
  /** Names of the runs of the page that tell them apart. */
  run_titles: string[];
}

/** A point with its interval; `low` and `high` are null where there are too few runs. */
export interface ExperimentPoint {
  x: number | string;
  n: number;
  mean: number;
  low: number | null;
  high: number | null;
  /** The single runs. */
  values: number[];
  /** Whether some runs ended before the value was reached, so that `mean` is a lower bound. */
  is_bound: boolean;
}

/** One small plot: a metric over the axis that varies most, one line per value of the second. */
export interface ExperimentPlot {
  metric: string;
  title: string;
  unit: string;
  x_title: string;
  x_is_number: boolean;
  lines: { title: string; points: ExperimentPoint[] }[];
}

export interface ExcludedRun {
  run_id: string;
  reason: string;
}

export interface Experiment {
  name: string;
  description: string;
  /** What ran, one sentence; that no run counts and why, if none does. */
  headline: string;
  /** The class of each kind of memory and in how many runs, one sentence each; empty if no run counts. */
  answer: string[];
  /** What varies, for instance `context_length: 256, 512`. */
  axes: string[];
  trust: Statement[];
  /** Metrics that differ between configurations; all if there is one configuration. */
  plots: ExperimentPlot[];
  /** The others, each with the value that all configurations have. */
  unchanged: string[];
  runs_included: number;
  excluded: ExcludedRun[];
}
