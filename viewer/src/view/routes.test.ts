import assert from "node:assert/strict";
import { test } from "node:test";

import { HOSTILE } from "../../test/sample.ts";
import { formatRoute, LIST, parseRoute, type Route } from "./routes.ts";

const ROUTES: Route[] = [
  LIST,
  { kind: "list", find: "llama q8 & +", sort: "speed", isDescending: true },
  { kind: "run", path: ".", span: null, section: "" },
  { kind: "run", path: "model/run 1", span: { begin_s: 1.000000001, end_s: 2.5 }, section: "timeline" },
  { kind: "run", path: HOSTILE, span: null, section: "" },
  { kind: "compare", paths: ["a&path=c", "b", HOSTILE], section: "" },
  { kind: "experiment", id: HOSTILE, section: "plots" },
];

test("an address stands for what it was made of", () => {
  ROUTES.forEach((route) => assert.deepEqual(parseRoute(formatRoute(route)), route));
});

test("an empty address is the list", () => {
  ["", "#", "#/"].forEach((hash) => assert.deepEqual(parseRoute(hash), LIST));
});

test("an address that stands for nothing is known as such", () => {
  for (const hash of ["#/nothing", "#timeline", "#/run", "#/compare?path=a", "#/experiment", "#/run/path=a", "#/../run?path=a"]) {
    assert.equal(parseRoute(hash), null, hash);
  }
});

test("a time without an end, or backwards, is the whole run", () => {
  for (const times of ["from=1", "to=2", "from=2&to=1", "from=1&to=1", "from=x&to=2", "from=1&to=Infinity"]) {
    const route = parseRoute(`#/run?path=a&${times}`);
    assert.equal(route?.kind === "run" && route.span, null, times);
  }
});
