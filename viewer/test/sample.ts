/** Pages with known numbers: a model that reads all weights and the KV cache so far in every step. */

import type {
  Comparison,
  Experiment,
  KvMap,
  MetricColumn,
  Overview,
  Page,
  Place,
  RegionRow,
  RunPage,
  SurvivalCurve,
  TimeAxis,
  Timeline,
} from "../src/page.ts";
import { PAGE_FORMAT } from "../src/page.ts";

export interface SampleSize {
  layers: number;
  promptTokens: number;
  decodedTokens: number;
}

export const SMALL: SampleSize = { layers: 2, promptTokens: 3, decodedTokens: 5 };
export const REALISTIC: SampleSize = { layers: 30, promptTokens: 22, decodedTokens: 250 };

/** What a hostile model file could call a tensor; a page must show it as it is. */
export const HOSTILE = "</script><img src=x onerror=alert(1)>&amp;\u0000\"'";

const BEGIN_NS = 40_376_000_000_000;
const LOAD_S = 0.4;
const PROMPT_S = 0.12;
const TEARDOWN_S = 0.08;
const KV_BYTES = 384;
const MAP_BINS = 256;
const TRAFFIC_BINS = 2048;
const KV_BINS = 128;

const WEIGHTS: readonly (readonly [string, number])[] = [
  ["attn_k.weight", 69_120],
  ["attn_norm.weight", 2_304],
  ["attn_output.weight", 207_360],
  ["attn_q.weight", 207_360],
  ["attn_v.weight", 69_120],
  ["ffn_down.weight", 552_960],
  ["ffn_gate.weight", 552_960],
  ["ffn_norm.weight", 2_304],
  ["ffn_up.weight", 552_960],
];
const ACTIVATIONS: readonly (readonly [string, number])[] = [
  ["Qcur", 2_304],
  ["ffn_out", 2_304],
  ["kqv_out", 2_304],
];

interface Access {
  place: number;
  time_s: number;
  read_bytes: number;
  written_bytes: number;
}

interface Step {
  begin_s: number;
  end_s: number;
  tokens: number;
  context: number;
}

export function runPage(size: SampleSize = SMALL, run_id = "20261116T135349Z-5705cb"): RunPage {
  const steps = stepsOf(size);
  const end_s = (steps.at(-1)?.end_s ?? 0) + TEARDOWN_S;
  const places = placesOf(size);
  const accesses = accessesOf(places, steps);
  countIn(places, accesses);
  const regions = regionsOf(places, steps, size);
  return {
    run_id,
    model: "SmolLM2-135M-Instruct, 135 M parameters, Q4_1",
    engine: "llama_cpp, embedded",
    machine: "AMD EPYC 7B13, 2 cores, 15.6 GiB",
    recorded_utc: "2026-11-16T13:53:49Z",
    time_unit: null,
    state: "complete",
    headline: `SmolLM2-135M-Instruct (Q4_1) answered a prompt of ${size.promptTokens} tokens with ${size.decodedTokens} tokens on 2 cores of an AMD EPYC.`,
    answer:
      "Weights (92.1 MiB) and the KV cache suit managed-retention memory: both are written once and needed for at least as long as the run lasted, 12.5 s at 20 tokens/s. " +
      "Activations and work buffers do not: 99 % of their bytes are needed for less than one step. How long weights and KV cache are needed beyond the run, this run cannot tell.",
    trust: [
      {
        topic: "basis",
        level: "good",
        text: "Every load and store was seen, to the byte.",
        reasons: ["tensor_ops recorded 522,311 accesses with period 1."],
      },
      { topic: "loss", level: "good", text: "Nothing was lost.", reasons: [] },
      { topic: "labels", level: "good", text: "Every access belongs to a named tensor.", reasons: [] },
      {
        topic: "overhead",
        level: "note",
        text: "The observer used 9.8 % of the memory of the worker.",
        reasons: ["Above 5 %, memory pressure may differ from a run without dwell.", "CPU time of the observer was 0.62 %."],
      },
      {
        topic: "validity",
        level: "bad",
        text: "Validity is unknown: throttling could not be read.",
        reasons: ["/sys/devices/system/cpu/cpu0/thermal_throttle is missing."],
      },
    ],
    regions,
    timeline: timelineOf(steps, end_s),
    overview: overviewOf(places, accesses, steps, size, end_s),
    memory_parts: [
      { name: "weights_mapped", title: "Weights, mapped", bytes: 96_576_768, source: "region_map" },
      { name: "kv_cache", title: "KV cache", bytes: 47_185_920, source: "runtime's own report" },
      { name: "compute", title: "Compute buffers", bytes: 110_100_480, source: "runtime's own report" },
      { name: "not_resident", title: "Not resident", bytes: -86_088_089, source: "allocated and never touched" },
      { name: "unaccounted", title: "Unaccounted", bytes: 20_971_520, source: "remainder of RSS" },
    ],
    kv_per_token: { measured_bytes: 2 * KV_BYTES * size.layers, theoretical_bytes: 2 * KV_BYTES * size.layers },
    thresholds: {
      high_retention_s: 10,
      medium_retention_s: 1,
      high_write_once: 0.8,
      medium_write_once: 0.5,
      at_tokens_per_s: 20,
    },
    metrics: metricsOf(regions),
  };
}

/** The accesses that a sample run was made of, in order of time, each with the place that it went to. */
export function sampleAccesses(size: SampleSize = SMALL): (Access & { timestamp_ns: number; in: Place })[] {
  const places = placesOf(size);
  return accessesOf(places, stepsOf(size))
    .map((access) => ({ ...access, timestamp_ns: timeOf(access), in: places[access.place] }))
    .sort((left, right) => left.timestamp_ns - right.timestamp_ns);
}

/** An overview of the accesses from `begin_ns` to `end_ns` alone, with places of its own, as `dwell view` makes it. */
export function sampleWindow(size: SampleSize, begin_ns: number, end_ns: number): Overview {
  const run = runPage(size).overview;
  const inside = sampleAccesses(size).filter(({ timestamp_ns: time }) => time >= begin_ns && time < end_ns);
  const numbers = [...new Set(inside.map(({ place }) => place))].sort((left, right) => left - right);
  const places = numbers.map((number) => ({ ...run.places[number], read_bytes: 0, written_bytes: 0, rows: 0 }));
  const accesses = inside.map((access) => ({ ...access, place: numbers.indexOf(access.place) }));
  countIn(places, accesses);
  return {
    ...run,
    first_ns: inside.at(0)?.timestamp_ns ?? begin_ns,
    last_ns: inside.at(-1)?.timestamp_ns ?? begin_ns,
    rows: inside.length,
    places,
    tiles: tilesOf(accesses, axisBetween(begin_ns, end_ns, MAP_BINS)),
    traffic: trafficOf(places, accesses, axisBetween(begin_ns, end_ns, TRAFFIC_BINS)),
    operations: [],
    working_set: { steps_per_point: 1, series: [] },
    survival: [],
    kv: null,
  };
}

function timeOf({ time_s }: Access): number {
  return BEGIN_NS + Math.floor(time_s * 1e9);
}

function countIn(places: Place[], accesses: readonly Access[]): void {
  for (const access of accesses) {
    places[access.place].read_bytes += access.read_bytes;
    places[access.place].written_bytes += access.written_bytes;
    places[access.place].rows += 1;
  }
}

/** Token times vary a little, always in the same way. */
function stepsOf({ promptTokens, decodedTokens }: SampleSize): Step[] {
  const steps: Step[] = [{ begin_s: LOAD_S, end_s: LOAD_S + PROMPT_S, tokens: promptTokens, context: promptTokens }];
  for (let token = 1; token <= decodedTokens; token += 1) {
    const begin_s = steps[token - 1].end_s;
    const length_s = 0.014 + 0.004 * Math.abs(Math.sin(token * 12.9898)) + (token % 97 === 0 ? 0.03 : 0);
    steps.push({ begin_s, end_s: begin_s + length_s, tokens: 1, context: promptTokens + token });
  }
  return steps;
}

/** By region type, layer and name, as dwell orders them. */
function placesOf({ layers }: SampleSize): Place[] {
  const place = (region_type: string, layer: number | null, tensor: string | null, size_bytes: number): Place => ({
    region_type,
    layer,
    tensor,
    regions: 1,
    size_bytes,
    read_bytes: 0,
    written_bytes: 0,
    rows: 0,
  });
  const perLayer = (act: (layer: number) => Place[]): Place[] => Array.from({ length: layers }, (_, layer) => act(layer)).flat();
  return [
    place("activation", null, HOSTILE, 2_304),
    ...perLayer((layer) => ACTIVATIONS.map(([name, size]) => place("activation", layer, `${name}-${layer}`, size))),
    ...perLayer((layer) => ["k", "v"].map((kind) => place("kv_cache", layer, `cache_${kind}_l${layer}`, 786_432))),
    place("weight", null, "output_norm.weight", 2_304),
    place("weight", null, "token_embd.weight", 17_694_720),
    ...perLayer((layer) => WEIGHTS.map(([name, size]) => place("weight", layer, `blk.${layer}.${name}`, size))),
    place("work_buffer", null, "work_buffer", 38_016),
  ];
}

/** Weights are stored while they load; a step goes through its layers one after the other. */
function accessesOf(places: Place[], steps: Step[]): Access[] {
  const layers = Math.max(...places.map(({ layer }) => layer ?? 0)) + 1;
  const loads = places.flatMap((place, index) =>
    place.region_type === "weight"
      ? [{ place: index, time_s: 0.05 + 0.3 * (index / places.length), read_bytes: 0, written_bytes: place.size_bytes }]
      : [],
  );
  const inSteps = steps.flatMap((step) =>
    places.map((place, index) => {
      const share = ((place.layer ?? (place.region_type === "weight" ? layers - 1 : 0)) + 0.5) / layers;
      return { place: index, time_s: step.begin_s + (step.end_s - step.begin_s) * share, ...bytesOf(place, step) };
    }),
  );
  return [...loads, ...inSteps];
}

function bytesOf(place: Place, step: Step): { read_bytes: number; written_bytes: number } {
  switch (place.region_type) {
    case "weight":
      return { read_bytes: place.size_bytes, written_bytes: 0 };
    case "kv_cache":
      return { read_bytes: KV_BYTES * step.context, written_bytes: KV_BYTES * step.tokens };
    case "activation":
      return { read_bytes: 2 * place.size_bytes * step.tokens, written_bytes: place.size_bytes * step.tokens };
    default:
      return { read_bytes: 176_000 * step.tokens, written_bytes: 176_000 * step.tokens };
  }
}

function axisOf(end_s: number, mostBins: number): TimeAxis {
  return axisBetween(BEGIN_NS, BEGIN_NS + end_s * 1e9, mostBins);
}

function axisBetween(begin_ns: number, end_ns: number, mostBins: number): TimeAxis {
  let bin_ns = 1024;
  const bins = (): number => Math.ceil(end_ns / bin_ns) - Math.floor(begin_ns / bin_ns);
  while (bins() > mostBins) {
    bin_ns *= 2;
  }
  return { first_bin_ns: Math.floor(begin_ns / bin_ns) * bin_ns, bin_ns, bins: bins() };
}

function binOf(axis: TimeAxis, time_s: number): number {
  return Math.floor((BEGIN_NS + Math.floor(time_s * 1e9) - axis.first_bin_ns) / axis.bin_ns);
}

function overviewOf(places: Place[], accesses: Access[], steps: Step[], size: SampleSize, end_s: number): Overview {
  return {
    format: 1,
    first_ns: BEGIN_NS,
    last_ns: BEGIN_NS + end_s * 1e9,
    rows: accesses.length,
    places,
    tiles: tilesOf(accesses, axisOf(end_s, MAP_BINS)),
    traffic: trafficOf(places, accesses, axisOf(end_s, TRAFFIC_BINS)),
    operations: [
      { symbol: "MUL_MAT", rows: 60_000, read_bytes: 19_457_160_624, written_bytes: 92_000_000 },
      { symbol: "FLASH_ATTN_EXT", rows: 9_000, read_bytes: 578_542_080, written_bytes: 14_000_000 },
      { symbol: "GLU", rows: 6_000, read_bytes: 81_211_392, written_bytes: 40_605_696 },
      { symbol: HOSTILE, rows: 6_000, read_bytes: 60_908_544, written_bytes: 30_454_272 },
      { symbol: "", rows: 100, read_bytes: 2_000, written_bytes: 1_000 },
    ],
    working_set: workingSetOf(places, steps),
    survival: survivalOf(end_s, size),
    kv: kvOf(steps, size, end_s),
  };
}

function tilesOf(accesses: readonly Access[], axis: TimeAxis): Overview["tiles"] {
  const cells = new Map<number, Access>();
  for (const access of accesses) {
    const key = access.place * axis.bins + binOf(axis, access.time_s);
    const cell = cells.get(key) ?? { ...access, read_bytes: 0, written_bytes: 0 };
    cells.set(key, {
      ...cell,
      read_bytes: cell.read_bytes + access.read_bytes,
      written_bytes: cell.written_bytes + access.written_bytes,
    });
  }
  const keys = [...cells.keys()].sort((left, right) => left - right);
  const column = (key: "read_bytes" | "written_bytes"): number[] => keys.map((cell) => cells.get(cell)?.[key] ?? 0);
  return {
    ...axis,
    place: keys.map((key) => Math.floor(key / axis.bins)),
    bin: keys.map((key) => key % axis.bins),
    read_bytes: column("read_bytes"),
    written_bytes: column("written_bytes"),
  };
}

function trafficOf(places: Place[], accesses: readonly Access[], axis: TimeAxis): Overview["traffic"] {
  const series = regionTypes(places).map((region_type) => {
    const read_bytes = Array.from({ length: axis.bins }, () => 0);
    const written_bytes = [...read_bytes];
    for (const access of accesses) {
      if (places[access.place].region_type === region_type) {
        read_bytes[binOf(axis, access.time_s)] += access.read_bytes;
        written_bytes[binOf(axis, access.time_s)] += access.written_bytes;
      }
    }
    return { region_type, read_bytes, written_bytes };
  });
  return { ...axis, series };
}

function regionTypes(places: Place[]): string[] {
  return [...new Set(places.map(({ region_type }) => region_type))];
}

function workingSetOf(places: Place[], steps: Step[]): Overview["working_set"] {
  const touched = (region_type: string, step: Step): number => {
    const own = places.filter((place) => place.region_type === region_type);
    return region_type === "kv_cache"
      ? own.length * KV_BYTES * step.context
      : own.reduce((sum, place) => sum + place.size_bytes, 0);
  };
  const series = regionTypes(places).map((region_type) => ({
    region_type,
    bytes: steps.map((step) => touched(region_type, step)),
  }));
  return { steps_per_point: 1, series };
}

/** Weights and KV cache never end; activations fall off around a step, and a few go on. */
function survivalOf(end_s: number, { layers }: SampleSize): SurvivalCurve[] {
  const open = (region_type: string, life_bytes: number, at_s: number[]): SurvivalCurve[] =>
    (["retention", "residency"] as const).map((endpoint) => ({
      region_type,
      endpoint,
      life_bytes,
      open_bytes: life_bytes,
      at_s,
      surviving: at_s.map(() => 1),
      surviving_low: at_s.map((_, at) => (at === at_s.length - 1 ? 0 : 1 - 0.1 * (at / at_s.length))),
      surviving_high: at_s.map(() => 1),
    }));
  const falling = (region_type: string, life_bytes: number, middle_s: number, left: number): SurvivalCurve[] =>
    (["retention", "residency"] as const).map((endpoint, shift) => {
      const at_s = Array.from({ length: 60 }, (_, at) => middle_s * (shift === 0 ? 1 : 4) * 10 ** ((at - 30) / 12));
      const surviving = at_s.map((_, at) => left + (1 - left) / (1 + Math.exp((at - 30) / 4)));
      const band = (sign: number): number[] =>
        surviving.map((share) => Math.min(1, Math.max(0, share + sign * 0.04 * share * (1.2 - share))));
      return {
        region_type,
        endpoint,
        life_bytes,
        open_bytes: Math.round(life_bytes * left),
        at_s,
        surviving,
        surviving_low: band(-1),
        surviving_high: band(1),
      };
    });
  return [
    ...falling("activation", 315_662_808, 292e-6, 0.002),
    ...open(
      "kv_cache",
      KV_BYTES * 2 * layers * 270,
      Array.from({ length: 40 }, (_, at) => (end_s - LOAD_S) * ((at + 1) / 40)),
    ),
    ...open("weight", 96_576_768, [end_s - 0.1]),
    ...falling("work_buffer", 37_292_976, 31e-6, 0),
  ];
}

/** A position is held from its step to the end of the run, in every layer alike; one layer evicts. */
function kvOf(steps: Step[], { layers }: SampleSize, end_s: number): KvMap {
  const axis = axisOf(end_s, KV_BINS);
  const positions = steps.reduce((sum, step) => sum + step.tokens, 0);
  const positions_per_row = Math.max(1, Math.ceil(positions / 64));
  const rows = Math.ceil(positions / positions_per_row);
  const written = steps.flatMap((step) => Array.from({ length: step.tokens }, () => step.begin_s));
  const layer = (index: number): KvMap["layers"][number] => {
    const map = {
      layer: index,
      lives: 2 * positions,
      evicted: index === 1 ? positions : 0,
      reads: positions * 100,
      cell: [] as number[],
      resident_bytes: [] as number[],
      cell_reads: [] as number[],
    };
    for (let row = 0; row < rows; row += 1) {
      const own = written.slice(row * positions_per_row, (row + 1) * positions_per_row);
      for (let bin = binOf(axis, own[0]); bin < axis.bins; bin += 1) {
        const held = own.filter((time_s) => binOf(axis, time_s) <= bin).length;
        map.cell.push(row * axis.bins + bin);
        map.resident_bytes.push(held * 2 * KV_BYTES);
        map.cell_reads.push(held * (1 + (row % 7)));
      }
    }
    return map;
  };
  return { ...axis, positions_per_row, rows, layers: Array.from({ length: layers }, (_, index) => layer(index)) };
}

function timelineOf(steps: Step[], end_s: number): Timeline {
  const last = steps.at(-1)?.end_s ?? LOAD_S;
  const time_s = Array.from({ length: 120 }, (_, at) => (end_s * at) / 120);
  const grown =
    (most: number) =>
    (at: number): number =>
      most * Math.min(1, at / LOAD_S);
  return {
    begin_ns: BEGIN_NS,
    end_s,
    phases: [
      { name: "weight_load", begin_s: 0, end_s: LOAD_S },
      { name: "generation", begin_s: LOAD_S, end_s: last },
      { name: "teardown", begin_s: last, end_s },
    ],
    tokens: {
      stride: 1,
      index: steps.map((_, at) => at),
      begin_s: steps.map(({ begin_s }) => begin_s),
      end_s: steps.map((step) => step.end_s),
      context_tokens: steps.map(({ context }) => context),
      kv_bytes: steps.map(({ context }) => context * KV_BYTES * 60),
    },
    requests: [
      { id: "r1", begin_s: LOAD_S, first_token_s: LOAD_S + PROMPT_S, end_s: (LOAD_S + last) / 2 },
      { id: HOSTILE, begin_s: (LOAD_S + last) / 3, first_token_s: null, end_s: last },
    ],
    memory: {
      unit: "bytes",
      time_s,
      series: [
        { name: "anon", title: "anonymous", values: time_s.map(grown(70_254_592)) },
        { name: "file", title: "file-backed", values: time_s.map(grown(118_974_464)) },
        { name: "shmem", title: "shared", values: time_s.map((_, at) => (at % 40 === 0 ? null : 1_048_576)) },
      ],
    },
    pressure: {
      unit: "percent",
      time_s,
      series: [
        { name: "cpu_some", title: "CPU", values: time_s.map((at) => 12 * Math.abs(Math.sin(at * 2))) },
        { name: "memory_some", title: "memory", values: time_s.map(() => 0) },
        { name: "io_some", title: "I/O", values: time_s.map((at) => (at < LOAD_S ? 8 : 0.2)) },
      ],
    },
    observed: [
      {
        name: "observed_io",
        title: "Kernel: latency of block requests",
        samples: {
          unit: "ms",
          time_s: time_s.filter((_, at) => at % 10 === 0),
          series: [
            {
              name: "io_p95",
              title: "95th percentile",
              values: time_s.filter((_, at) => at % 10 === 0).map((at) => 0.2 + at / 10),
            },
          ],
        },
      },
    ],
  };
}

interface RegionWords {
  title: string;
  residency: string;
  required_retention: string;
  p50: [number | null, number | null];
  p99: [number | null, number | null];
  write_once_ratio: number;
  suitability: string;
  suitability_title: string;
  sentence: string;
}

const REGION_WORDS: Record<string, RegionWords> = {
  weight: {
    title: "Weights",
    residency: "> 4.12 s",
    required_retention: "> 4.12 s, > 256 steps",
    p50: [null, 4.12],
    p99: [null, 4.12],
    write_once_ratio: 1,
    suitability: "high_mrm",
    suitability_title: "suits well",
    sentence: "Written once while loading, read completely for every token, needed for as long as the model is loaded.",
  },
  kv_cache: {
    title: "KV cache",
    residency: "> 4.05 s",
    required_retention: "> 4.03 s, > 255 steps",
    p50: [null, 4.03],
    p99: [null, 4.03],
    write_once_ratio: 1,
    suitability: "high_mrm",
    suitability_title: "suits well",
    sentence: "Each key and value is written once and read for every later token; needed until the sequence ends.",
  },
  activation: {
    title: "Activations",
    residency: "292 µs",
    required_retention: "1.34 ms, < 1 step",
    p50: [0.000049, 0.000048],
    p99: [0.00134, 0.0012],
    write_once_ratio: 0.013,
    suitability: "low_mrm",
    suitability_title: "suits badly",
    sentence: "Rewritten in every step and needed for a fraction of one: refresh and retention do not matter, endurance does.",
  },
  work_buffer: {
    title: "Work buffers",
    residency: "66.8 µs",
    required_retention: "< 31.1 µs",
    p50: [0, 0],
    p99: [0.0000311, 0],
    write_once_ratio: 0,
    suitability: "not_rated",
    suitability_title: "not rated",
    sentence: "Scratch memory of single operations, below the time resolution of this trace.",
  },
};

function regionsOf(places: Place[], steps: Step[], { decodedTokens, promptTokens }: SampleSize): RegionRow[] {
  const tokens = decodedTokens + promptTokens;
  const order = ["weight", "kv_cache", "activation", "work_buffer"];
  return order.map((region_type) => {
    const own = places.filter((place) => place.region_type === region_type);
    const sum = (key: "size_bytes" | "read_bytes" | "written_bytes"): number => own.reduce((all, place) => all + place[key], 0);
    const { p50, p99, ...words } = REGION_WORDS[region_type];
    return {
      region_type,
      ...words,
      size_bytes: region_type === "kv_cache" ? own.length * KV_BYTES * (steps.at(-1)?.context ?? 0) : sum("size_bytes"),
      read_bytes: sum("read_bytes"),
      written_bytes: sum("written_bytes"),
      read_bytes_per_token: sum("read_bytes") / tokens,
      written_bytes_per_token: sum("written_bytes") / tokens,
      retention_p50_s: p50[0],
      retention_p50_low_s: p50[1],
      retention_p99_s: p99[0],
      retention_p99_low_s: p99[1],
      reads_per_write: sum("written_bytes") === 0 ? null : sum("read_bytes") / sum("written_bytes"),
    };
  });
}

function metricsOf(regions: RegionRow[]): RunPage["metrics"] {
  const columns: MetricColumn[] = [
    { name: "region_type", unit: "", meaning: "kind of memory" },
    { name: "bytes_read", unit: "bytes", meaning: "bytes loaded, over all accesses; an access counts each of its bytes once" },
    { name: "bytes_written", unit: "bytes", meaning: "bytes stored, over all accesses; an access counts each of its bytes once" },
    {
      name: "retention_p50_s",
      unit: "s",
      meaning: "median over bytes of how long data was needed, from its store to its last load; empty if the trace ended before",
    },
    { name: "retention_p99_s", unit: "s", meaning: "the same, 99th percentile" },
    { name: "write_once_ratio_mean", unit: "", meaning: "share of the stored bytes that were stored exactly once" },
    { name: "suitability", unit: "", meaning: "whether managed-retention memory could hold it" },
    { name: "is_window_limited", unit: "", meaning: "whether a longer run would give a class" },
  ];
  const rows = regions.map((region) => [
    region.region_type,
    region.read_bytes,
    region.written_bytes,
    region.retention_p50_s,
    region.retention_p99_s,
    region.write_once_ratio,
    region.suitability,
    region.retention_p99_s === null,
  ]);
  return { columns, rows };
}

function page(part: Partial<Page> & Pick<Page, "kind" | "title">): Page {
  return { format: PAGE_FORMAT, written_by: "dwell 0.1.0", runs: [], comparison: null, experiment: null, ...part };
}

export function samplePage(size: SampleSize = SMALL): Page {
  return page({ kind: "run", title: "SmolLM2-135M-Instruct.Q4_1 on llama_cpp", runs: [runPage(size)] });
}

/** A run of which hardly anything is known, as from an import. */
export function barePage(): Page {
  const run = runPage(SMALL);
  const overview: Overview = {
    ...run.overview,
    survival: [],
    kv: null,
    operations: [],
    working_set: { steps_per_point: 1, series: [] },
    places: [],
    tiles: { ...run.overview.tiles, place: [], bin: [], read_bytes: [], written_bytes: [] },
  };
  const tokens = { stride: 1, index: [], begin_s: [], end_s: [], context_tokens: [], kv_bytes: [] };
  const timeline: Timeline = { ...run.timeline, tokens, requests: [], memory: null, pressure: null, observed: [] };
  return page({
    kind: "run",
    title: HOSTILE,
    runs: [
      {
        ...run,
        run_id: HOSTILE,
        model: HOSTILE,
        headline: HOSTILE,
        overview,
        timeline,
        memory_parts: [],
        kv_per_token: null,
        recorded_utc: null,
        time_unit: null,
        regions: [],
        trust: [],
        metrics: { columns: [], rows: [] },
      },
    ],
  });
}

export function comparisonPage(size: SampleSize = SMALL): Page {
  const runs = [runPage(size, "f16"), runPage({ ...size, decodedTokens: Math.ceil(size.decodedTokens / 2) }, "q8_0")];
  const row = (
    label: string,
    unit: string,
    values: number[],
    texts: string[],
  ): Comparison["sections"][number]["rows"][number] => ({ label, unit, values, texts });
  const comparison: Comparison = {
    columns: runs.map(({ run_id }) => run_id),
    run_titles: runs.map(({ run_id }) => run_id),
    sections: [
      { title: "Speed", rows: [row("generated", "tokens/s", [64.6, 62.1], ["64.6 tokens/s", "62.1 tokens/s"])] },
      {
        title: "KV cache",
        rows: [
          row("bytes per token", "bytes", [46_080, 24_480], ["45.0 KiB", "23.9 KiB"]),
          row("share of RSS", "", [0.25, 0.15], ["25 %", "15 %"]),
        ],
      },
    ],
    notes: ["The runs generated different numbers of tokens: 250 and 125."],
  };
  return page({ kind: "comparison", title: "f16 and q8_0 KV cache", runs, comparison });
}

export function experimentPage(): Page {
  const lengths = [256, 512, 1024, 2048, 4096];
  const points = (per: number) =>
    lengths.map((x, at) => {
      const values = [0.97, 1, 1.03].map((factor) => x * per * factor);
      return {
        x,
        n: 3,
        mean: x * per,
        low: at === 4 ? null : x * per * 0.93,
        high: at === 4 ? null : x * per * 1.07,
        values,
        is_bound: false,
      };
    });
  const experiment: Experiment = {
    name: "kv_study",
    description: "KV cache by cache type and context length.",
    headline: "SmolLM2-135M-Instruct, 5 context lengths × 2 KV cache types × 3 repetitions.",
    answer: ["KV cache: suited in part (medium_mrm) in 30 of 30 runs."],
    axes: ["context_length: 256, 512, 1024, 2048, 4096", "kv_type: f16, q8_0"],
    trust: [
      {
        topic: "repetitions",
        level: "note",
        text: "Three repetitions: intervals are wide.",
        reasons: ["Student's t with 2 degrees of freedom."],
      },
    ],
    plots: [
      {
        metric: "kv_bytes",
        title: "KV cache at the end",
        unit: "bytes",
        x_title: "context length",
        x_is_number: true,
        lines: [
          { title: "f16", points: points(46_080) },
          { title: "q8_0", points: points(24_480) },
        ],
      },
      {
        metric: "tokens_per_s",
        title: "Speed of generation",
        unit: "tokens/s",
        x_title: "context length",
        x_is_number: true,
        lines: [
          { title: "f16", points: points(0.01) },
          { title: "q8_0", points: points(0.011) },
        ],
      },
      {
        metric: "ttft",
        title: "Time to first token",
        unit: "s",
        x_title: "KV cache type",
        x_is_number: false,
        lines: [
          {
            title: HOSTILE,
            points: [
              { x: "f16", n: 2, mean: 0.2, low: null, high: null, values: [0.19, 0.21], is_bound: false },
              { x: HOSTILE, n: 1, mean: 0.24, low: null, high: null, values: [0.24], is_bound: true },
            ],
          },
        ],
      },
    ],
    unchanged: ["Weights: bytes touched: 92.1 MiB"],
    runs_included: 29,
    excluded: [{ run_id: "20261116T135349Z-5705cb", reason: "contaminated: the machine was throttled" }],
  };
  return page({ kind: "experiment", title: "kv_study", experiment });
}
