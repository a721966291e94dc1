/** What the part of the address behind `#` stands for. */

import type { Span } from "../time_window.ts";

export interface ListRoute {
  kind: "list";
  /** Words that entries must have. */
  find: string;
  /** Column of the runs; empty for the order of the server, newest first. */
  sort: string;
  isDescending: boolean;
}

export interface RunRoute {
  kind: "run";
  path: string;
  /** The time that is shown; null for the whole run. */
  span: Span | null;
  /** Section to begin at; empty for the top. */
  section: string;
}

export interface ComparisonRoute {
  kind: "compare";
  paths: string[];
  section: string;
}

export interface ExperimentRoute {
  kind: "experiment";
  id: string;
  section: string;
}

export type Route = ListRoute | RunRoute | ComparisonRoute | ExperimentRoute;

export const LIST: ListRoute = { kind: "list", find: "", sort: "", isDescending: false };

/** Path of a run that is all that is viewed. */
export const ONLY_RUN = ".";

/** Decimals of seconds that tell nanoseconds apart. */
const NANOSECONDS = 9;

/** null if nothing is at this address. */
export function parseRoute(hash: string): Route | null {
  const [isAddress, name, query] = /^#?(?:\/(\w*))?(?:\?(.*))?$/.exec(hash) ?? [];
  if (isAddress === undefined) {
    return null;
  }
  const values = new URLSearchParams(query ?? "");
  const section = values.get("section") ?? "";
  switch (name ?? "") {
    case "":
      return listRoute(values);
    case "run":
      return runRoute(values, section);
    case "compare":
      return values.getAll("path").length < 2 ? null : { kind: "compare", paths: values.getAll("path"), section };
    case "experiment":
      return values.has("id") ? { kind: "experiment", id: values.get("id") ?? "", section } : null;
    default:
      return null;
  }
}

function listRoute(values: URLSearchParams): ListRoute {
  return {
    kind: "list",
    find: values.get("find") ?? "",
    sort: values.get("sort") ?? "",
    isDescending: values.get("order") === "descending",
  };
}

function runRoute(values: URLSearchParams, section: string): RunRoute | null {
  const path = values.get("path");
  return path === null ? null : { kind: "run", path, span: spanOf(values.get("from"), values.get("to")), section };
}

/** null unless both ends are there and in order. */
function spanOf(from: string | null, to: string | null): Span | null {
  const [begin_s, end_s] = [Number(from), Number(to)];
  const isSpan = from !== null && to !== null && Number.isFinite(begin_s) && Number.isFinite(end_s) && begin_s < end_s;
  return isSpan ? { begin_s, end_s } : null;
}

export function formatRoute(route: Route): string {
  switch (route.kind) {
    case "list":
      return address("", [
        ["find", route.find],
        ["sort", route.sort],
        ["order", route.sort !== "" && route.isDescending ? "descending" : ""],
      ]);
    case "run":
      return address("run", [
        ["path", route.path],
        ["from", route.span === null ? "" : seconds(route.span.begin_s)],
        ["to", route.span === null ? "" : seconds(route.span.end_s)],
        ["section", route.section],
      ]);
    case "compare":
      return address("compare", [...route.paths.map((path): [string, string] => ["path", path]), ["section", route.section]]);
    case "experiment":
      return address("experiment", [
        ["id", route.id],
        ["section", route.section],
      ]);
  }
}

function address(name: string, values: [string, string][]): string {
  const query = new URLSearchParams(values.filter(([, value]) => value !== "")).toString();
  return `#/${name}${query === "" ? "" : `?${query}`}`;
}

function seconds(value: number): string {
  return String(Number(value.toFixed(NANOSECONDS)));
}

export function runLink(path: string): string {
  return formatRoute({ kind: "run", path, span: null, section: "" });
}
