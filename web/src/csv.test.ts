import assert from "node:assert/strict";
import { test } from "node:test";
import { samplesToCsv } from "./csv.ts";
import type { Sample } from "./sampler.ts";

const SAMPLE: Sample = {
  t_ms: 1_795_032_785_931.25,
  heap_used_bytes: 3 * 1024 * 1024,
  heap_total_bytes: 1_000_001,
  wasm_bytes: 65536,
  gpu_bytes: 0,
  gpu: { weight: 0, kv_cache: 0, other: 0 },
  tokens: 7,
};

test("memory is in mebibytes with all decimals, the time in seconds with six", () => {
  const [header, row, end] = samplesToCsv([SAMPLE], "wllama").split("\r\n");
  assert.equal(header, "timestamp,label,pid,rss_mb,vms_mb,heap_used_mb,heap_total_mb,wasm_mb,ua_memory_mb,gpu_mb,tokens");
  const fields = row?.split(",") ?? [];
  assert.deepEqual(fields.slice(0, 6), ["1795032785.931250", "wllama", "", "", "", "3"]);
  assert.equal(Number(fields[6]) * 1048576, 1_000_001);
  assert.deepEqual(fields.slice(7), ["0.0625", "", "0", "7"]);
  assert.equal(end, "");
});

test("what a browser does not tell is empty, and a label is no formula", () => {
  const { heap_used_bytes: _, heap_total_bytes: __, ...bare } = SAMPLE;
  const row = samplesToCsv([bare], '=1,"2"').split("\r\n")[1] ?? "";
  assert.ok(row.startsWith(`1795032785.931250,"'=1,""2""",,,,,,0.0625,`), row);
});
