import assert from "node:assert/strict";
import { test } from "node:test";

import type { RunEntry } from "./api.ts";
import { found, ordered, runText } from "./list_entries.ts";

function run(given: Partial<RunEntry>): RunEntry {
  return {
    path: "p",
    run_id: "r",
    model_id: "m",
    engine: null,
    experiment_id: null,
    started_at_utc: "2026-11-16T13:53:49Z",
    state: "complete",
    rows: null,
    prompt_tokens: null,
    generated_tokens: null,
    decode_tokens_per_s: null,
    validity: null,
    quality: null,
    size_bytes: 0,
    problem: null,
    ...given,
  };
}

const nameOf = (id: string): string => (id === "kv_study" ? "My study" : id);

const RUNS = [
  run({
    path: "a",
    run_id: "run 10",
    model_id: "SmolLM2",
    engine: "llama_cpp",
    rows: 5,
    validity: "contaminated",
    quality: "PASS",
  }),
  run({ path: "b", run_id: "run 9", model_id: "Qwen", engine: "ollama", state: "recording" }),
  run({ path: "c", run_id: "run 11", model_id: "SmolLM2", engine: "ollama", experiment_id: "kv_study", rows: 50 }),
];

function pathsOf(runs: RunEntry[]): string {
  return runs.map(({ path }) => path).join("");
}

test("the filter finds model, engine, run, state and experiment, in any case", () => {
  const cases = {
    smollm2: "ac",
    "my study": "c",
    disturbed: "a",
    OLLAMA: "bc",
    "run 9": "b",
    Recording: "b",
    kv_study: "c",
    "": "abc",
    "smol olla": "c",
    none: "",
  };
  for (const [find, paths] of Object.entries(cases)) {
    assert.equal(pathsOf(found(RUNS, find, (each) => runText(each, nameOf))), paths, find);
  }
});

test("numbers are ordered as numbers, names as people count, and what is not known comes last", () => {
  assert.equal(pathsOf(ordered(RUNS, ({ rows }) => rows, false)), "acb");
  assert.equal(pathsOf(ordered(RUNS, ({ rows }) => rows, true)), "cab");
  assert.equal(pathsOf(ordered(RUNS, ({ run_id }) => run_id, false)), "bac");
});

test("entries of the same value stay in their order", () => {
  assert.equal(pathsOf(ordered(RUNS, ({ model_id }) => model_id, false)), "bac");
  assert.equal(pathsOf(ordered(RUNS, ({ model_id }) => model_id, true)), "acb");
});

test("ten thousand runs are found and ordered well within a frame or two", () => {
  const many = Array.from({ length: 10_000 }, (_, at) =>
    run({ path: String(at), run_id: `run ${(at * 7919) % 10_000}`, rows: at }),
  );
  const begin = performance.now();
  assert.equal(
    ordered(
      found(many, "run m", (each) => runText(each, nameOf)),
      ({ run_id }) => run_id,
      true,
    )[0].run_id,
    "run 9999",
  );
  assert.ok(performance.now() - begin < 2000, "a machine that compiles at the same time is slow, but not that slow");
});
