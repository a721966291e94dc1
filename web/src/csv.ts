/** Samples as CSV, with the columns first that every trace of process memory begins with. */

import { toCsv, type Cell } from "../../viewer/src/csv.ts";
import type { Sample } from "./sampler.ts";

const MIB = 1024 * 1024;
const COLUMNS: [string, (sample: Sample) => number | undefined][] = [
  ["heap_used_mb", ({ heap_used_bytes }) => heap_used_bytes],
  ["heap_total_mb", ({ heap_total_bytes }) => heap_total_bytes],
  ["wasm_mb", ({ wasm_bytes }) => wasm_bytes],
  ["ua_memory_mb", ({ ua_memory_bytes }) => ua_memory_bytes],
  ["gpu_mb", ({ gpu_bytes }) => gpu_bytes],
];
/** A page cannot know these; they are there so that the columns are those of every trace. */
const UNKNOWN = ["pid", "rss_mb", "vms_mb"];

/** All decimals: multiplied by 1048576 it is the number of bytes again. */
const inMb = (bytes: number | undefined): Cell => (bytes === undefined ? null : bytes / MIB);

/** `timestamp` is in seconds since 1970, memory in mebibytes; what is unknown is empty. */
export function samplesToCsv(samples: readonly Sample[], label: string): string {
  return toCsv({
    columns: ["timestamp", "label", ...UNKNOWN, ...COLUMNS.map(([name]) => name), "tokens"],
    rows: samples.map((sample) => [
      (sample.t_ms / 1000).toFixed(6),
      label,
      ...UNKNOWN.map(() => null),
      ...COLUMNS.map(([, bytes]) => inMb(bytes(sample))),
      sample.tokens,
    ]),
  });
}

/** Has the browser save a text as a file. */
export function saveText(name: string, text: string): void {
  const address = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 0);
}
