import assert from "node:assert/strict";
import { beforeEach, afterEach, mock, test } from "node:test";

import { REALISTIC, runPage, sampleWindow } from "../../test/sample.ts";
import { TimeWindow } from "../time_window.ts";
import type { WindowAnswer } from "./api.ts";
import type { NsSpan } from "./client.ts";
import { finest, Refinement } from "./refinement.ts";

const SIZE = { ...REALISTIC, layers: 2 };
const run = runPage(SIZE);
const PAUSE_MS = 1000;

class Server {
  readonly asked: NsSpan[] = [];
  readonly aborted: NsSpan[] = [];
  most_rows = Infinity;
  fails = false;

  ask = (span: NsSpan, signal: AbortSignal): Promise<WindowAnswer> => {
    this.asked.push(span);
    signal.addEventListener("abort", () => this.aborted.push(span));
    const overview = sampleWindow(SIZE, span.begin_ns, span.end_ns);
    const answer: WindowAnswer = {
      format: 1,
      ...span,
      rows_at_most: overview.rows,
      most_rows: this.most_rows,
      overview: overview.rows > this.most_rows ? null : overview,
    };
    return this.fails ? Promise.reject(new Error("too busy")) : Promise.resolve(answer);
  };
}

function setUp(): { server: Server; window: TimeWindow; refinement: Refinement } {
  const server = new Server();
  const window = new TimeWindow({ begin_s: 0, end_s: run.timeline.end_s });
  return { server, window, refinement: new Refinement(run, window, server.ask) };
}

/** Lets the window rest, and the answer come. */
async function rest(): Promise<void> {
  mock.timers.tick(PAUSE_MS);
  for (let turn = 0; turn < 10; turn += 1) {
    await Promise.resolve();
  }
}

beforeEach(() => mock.timers.enable({ apis: ["setTimeout"] }));
afterEach(() => mock.timers.reset());

test("the whole run is drawn from its overview, and nothing is asked", async () => {
  const { server, window, refinement } = setUp();
  await rest();
  assert.equal(refinement.tilesFor(window.shown), run.overview.tiles);
  assert.equal(refinement.rowsAtMost, run.overview.rows);
  assert.deepEqual(server.asked, []);
});

test("a window that rests is drawn finer; until then it is drawn from the overview", async () => {
  const { window, refinement } = setUp();
  let told = 0;
  refinement.onDetail(() => (told += 1));
  window.show({ begin_s: 1, end_s: 1.1 });
  assert.equal(refinement.state.kind, "asking");
  assert.equal(refinement.trafficFor(window.shown), run.overview.traffic);
  const before = told;
  await rest();
  assert.ok(told > before, "charts are told");
  assert.equal(refinement.state.kind, "refined");
  assert.ok(refinement.tilesFor(window.shown).bin_ns < run.overview.tiles.bin_ns);
  assert.ok(refinement.trafficFor(window.shown).bin_ns < run.overview.traffic.bin_ns);
});

test("finer detail is used only for time that it covers", async () => {
  const { server, window, refinement } = setUp();
  window.show({ begin_s: 1, end_s: 1.1 });
  await rest();
  const closer = { begin_s: 1.02, end_s: 1.03 };
  assert.notEqual(refinement.tilesFor(closer), run.overview.tiles, "closer is covered");
  assert.equal(refinement.tilesFor({ begin_s: 1.05, end_s: 1.5 }), run.overview.tiles, "time beyond is not");
  window.show({ begin_s: 2, end_s: 2.1 });
  await rest();
  window.show({ begin_s: 1, end_s: 1.1 });
  await rest();
  assert.equal(server.asked.length, 2, "the way back needs no question");
});

test("a question that is outdated is given up", async () => {
  const { server, window } = setUp();
  window.show({ begin_s: 1, end_s: 1.1 });
  mock.timers.tick(PAUSE_MS);
  window.show({ begin_s: 3, end_s: 3.1 });
  assert.equal(server.aborted.length, 1);
  await rest();
  assert.equal(server.asked.length, 2);
});

test("a moving window asks once it rests", async () => {
  const { server, window } = setUp();
  for (let step = 0; step < 20; step += 1) {
    window.show({ begin_s: 1 + step / 10, end_s: 1.1 + step / 10 });
    mock.timers.tick(20);
  }
  await rest();
  assert.equal(server.asked.length, 1);
});

test("too many accesses and failures leave the overview, and say so", async () => {
  const { server, window, refinement } = setUp();
  server.most_rows = 10;
  window.show({ begin_s: 1, end_s: 2 });
  await rest();
  assert.equal(refinement.state.kind, "too_many");
  assert.ok((refinement.rowsAtMost ?? 0) > 10);
  assert.equal(refinement.tilesFor(window.shown), run.overview.tiles);
  server.fails = true;
  window.show({ begin_s: 3, end_s: 4 });
  await rest();
  assert.deepEqual(refinement.state, { kind: "failed", message: "too busy" });
});

test("a run that grows keeps what is over", async () => {
  const { server, window, refinement } = setUp();
  window.show({ begin_s: 1, end_s: 1.1 });
  await rest();
  window.show({ begin_s: run.timeline.end_s - 0.1, end_s: run.timeline.end_s });
  await rest();
  assert.equal(refinement.final().length, 1);
  const longer = new TimeWindow({ begin_s: 0, end_s: run.timeline.end_s + 1 });
  longer.show({ begin_s: 1, end_s: 1.1 });
  const next = new Refinement(run, longer, server.ask, refinement);
  assert.equal(next.state.kind, "refined");
});

test("the finest is that of the shortest bins", () => {
  const [a, b, c] = [{ bin_ns: 8 }, { bin_ns: 2 }, { bin_ns: 8 }];
  assert.equal(finest(a, [c, b]), b);
  assert.equal(finest(a, [c]), a);
});
