/**
 * What `dwell view` answers under `/api/v1/`. Pages have the types of `page.ts`.
 *
 * Times in nanoseconds are CLOCK_MONOTONIC and below 2^53. A `path` names a run relative to the folder that is viewed.
 */

import type { Overview } from "../page.ts";

/** Version of these types. */
export const API_FORMAT = 1;

export type EntryState = "complete" | "partial" | "recording" | "building" | "failed" | "killed" | "damaged" | "foreign";

/** `/api/v1/results`: runs and experiments, each newest first. */
export interface ResultsList {
  format: number;
  /** For instance `dwell 0.2.0`. */
  written_by: string;
  /** Name of the folder that is viewed. */
  root: string;
  /** Whether the folder that is viewed is one run. */
  single_run: boolean;
  runs: RunEntry[];
  experiments: ExperimentEntry[];
}

export interface RunEntry {
  path: string;
  run_id: string;
  model_id: string;
  engine: string | null;
  experiment_id: string | null;
  started_at_utc: string;
  state: EntryState;
  /** Rows of its trace. */
  rows: number | null;
  prompt_tokens: number | null;
  generated_tokens: number | null;
  decode_tokens_per_s: number | null;
  validity: string | null;
  quality: string | null;
  size_bytes: number;
  /** Why it failed, or what cannot be read. */
  problem: string | null;
}

export interface ExperimentEntry {
  path: string;
  experiment_id: string;
  name: string | null;
  started_at_utc: string;
  state: EntryState;
  planned_runs: number | null;
  finished_runs: number;
  /** Of those that ended, runs that failed. */
  failed_runs: number;
}

/** `/api/v1/window`: the accesses with `begin_ns <= timestamp_ns < end_ns`. */
export interface WindowAnswer {
  format: number;
  begin_ns: number;
  end_ns: number;
  /** Upper bound of the accesses in the window. */
  rows_at_most: number;
  /** Most accesses that an overview is made of. */
  most_rows: number;
  /** null if the window may hold more than `most_rows` accesses. */
  overview: Overview | null;
}

/** `/api/v1/tables`. */
export interface TableList {
  format: number;
  tables: TableEntry[];
}

export interface TableEntry {
  name: string;
  rows: number;
  columns: ColumnEntry[];
}

export interface ColumnEntry {
  name: string;
  type: string;
}

/** The body of every answer that is an error. */
export interface Failure {
  error: string;
  hints: string[];
}
