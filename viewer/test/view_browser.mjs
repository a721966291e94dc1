// Drives a running `dwell view` in Chromium as a reader would: node test/view_browser.mjs URL OUT_DIR [--live] [--finishes]
//
// URL is the address that `dwell view` prints, with its token. What is shown is compared with what the API answers. Times go to
// stdout as JSON, screenshots to OUT_DIR. With --live, the list and a run that is being recorded are all that is looked at; with
// --finishes it has to end too, and the final page has to take the place of what was recorded so far.

import assert from "node:assert/strict";
import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { tableFromIPC } from "@uwdata/flechette";
import { checkAccess, checkHostileNames } from "./checks.mjs";
import { NARROW, PATIENCE_MS, WIDE, withBrowser } from "./chromium.mjs";

/** A common width of laptops. */
const LAPTOP = { width: 1280, height: 800 };

const [address, out, ...options] = process.argv.slice(2);
if (!address || !out) {
  console.error("usage: node view_browser.mjs URL OUT_DIR [--live] [--finishes]");
  process.exit(2);
}
const origin = new URL(address).origin;
/** The document has the script of the view, and no data. */
const SCRIPTS = 1;
/** Most rows that the API sends at once. */
const MOST_ROWS = 100_000;
/** Parts of the run that are zoomed to, one after the other. */
const ZOOMS = [0.5, 0.1, 0.02, 0.004];

const report = { zooms: [] };
class View {
  constructor(page) {
    this.page = page;
    this.windowRequests = [];
    page.on("request", (request) => {
      if (request.url().includes("/api/v1/window")) {
        this.windowRequests.push(new URL(request.url()).searchParams);
      }
    });
  }

  async check() {
    await this.page.goto(address);
    const results = await this.json("results");
    if (results.single_run) {
      await this.opened();
      assert.match(this.page.url(), /#\/run\?path=\.$/, "the only run is opened at once");
      return this.checkRun(".");
    }
    if (results.runs.length === 0) {
      return this.page.waitForSelector('main code:text-is("dwell run")');
    }
    await this.checkList(results);
    const live = results.runs.find(({ state }) => state === "recording");
    assert.ok(live || !options.includes("--live"), "no run is being recorded");
    if (options.includes("--live")) {
      return this.checkLive(live);
    }
    const runs = results.runs.filter(({ state }) => state === "complete" || state === "partial");
    const largest = runs.reduce((most, run) => ((run.rows ?? 0) > (most?.rows ?? -1) ? run : most), undefined);
    if (largest) {
      await this.openFromList(largest);
      await this.checkRun(largest.path);
      await this.checkHistory(results);
    }
    if (runs.length > 1) {
      await this.checkComparison(results, runs.slice(0, 2));
    }
    if (results.experiments.length > 0) {
      await this.checkExperiment(results.experiments[0]);
    }
    await this.checkUnknown();
  }

  /* ---- what the API says ---- */

  async get(name, query = {}) {
    const answer = await this.page.request.get(`${origin}/api/v1/${name}?${new URLSearchParams(query)}`);
    assert.equal(answer.status(), 200, `${name} ${JSON.stringify(query)}: ${await answer.text()}`);
    return answer;
  }

  async statusOf(name, query) {
    const answer = await this.page.request.get(`${origin}/api/v1/${name}?${new URLSearchParams(query)}`);
    return answer.status();
  }

  async json(name, query) {
    return (await this.get(name, query)).json();
  }

  /** Rows of the trace; null if the API does not send all of them at once. */
  async rows(run, begin_ns, end_ns) {
    const answer = await this.get("rows", { run, table: "trace", begin_ns, end_ns, limit: MOST_ROWS });
    const table = tableFromIPC(new Uint8Array(await answer.body()), { useBigInt: true });
    assert.equal(Number(answer.headers()["dwell-rows"]), table.numRows);
    return answer.headers()["dwell-more"] === "true" ? null : table.toArray();
  }

  /* ---- what a reader does ---- */

  async shot(name, fullPage = false) {
    await this.page.screenshot({ path: join(out, `view-${name}.png`), fullPage });
  }

  async listed() {
    await this.page.waitForSelector(".results tbody tr");
  }

  async opened() {
    await this.page.waitForFunction(() => globalThis.dwell?.charts?.size > 0);
  }

  async backToList() {
    await this.page.click('a:has-text("All results")');
    await this.listed();
  }

  async openFromList({ path, run_id }) {
    await this.page.fill('input[type="search"]', path);
    const begin = Date.now();
    await this.page.click(`.results tr[data-key=${JSON.stringify(path)}] .cell-run a`);
    await this.opened();
    report.open_ms = Date.now() - begin;
    assert.ok((await this.page.title()).length > "· dwell".length, `the page of ${run_id} has a title`);
  }

  /* ---- the list ---- */

  async checkList(results) {
    await this.listed();
    Object.assign(report, await this.page.evaluate(paintTimes), { runs: results.runs.length });
    const { page } = this;
    assert.equal(await page.title(), `${results.root} · dwell`);
    assert.deepEqual(
      await this.allPaths(),
      results.runs.map(({ path }) => path),
      "the list has every run, newest first",
    );
    const words = await page.$$eval("#runs .cell-run a", (links) => links.map((link) => link.textContent));
    assert.deepEqual(
      words,
      results.runs.map(({ run_id }) => run_id),
      "names are shown as they are",
    );
    const under = results.runs.filter(({ state }) => state === "recording" || state === "building").length;
    assert.equal(await page.locator("#runs .state .dot").count(), under, "runs under way are marked");
    await checkAccess(page);
    await checkHostileNames(page, SCRIPTS);
    await this.checkFilter(results);
    await this.checkSorting(results);
    await this.checkColumns(results);
    await this.checkLooks("list");
  }

  /** All columns fit on a laptop, and experiments are shown by name. */
  async checkColumns({ runs, experiments }) {
    const { page } = this;
    await page.setViewportSize(LAPTOP);
    const hidden = await page.$$eval(".scroll", (boxes) => boxes.map((box) => box.scrollWidth - box.clientWidth));
    assert.ok(
      hidden.every((pixels) => pixels <= 1),
      `tables of the list lack ${hidden.join(" and ")} pixels on a laptop`,
    );
    await page.setViewportSize(WIDE);
    const names = new Map(experiments.map(({ experiment_id, name }) => [experiment_id, name ?? experiment_id]));
    const shown = await page.$$eval("#runs .cell-experiment", (cells) => cells.map(({ textContent }) => textContent));
    const expected = runs.map(({ experiment_id: id }) => (id === null ? "–" : (names.get(id) ?? id)));
    assert.deepEqual(shown.sort(), expected.sort(), "experiments have their names");
  }

  /** Paths of the rows, after all of them were asked for. */
  async allPaths() {
    const more = this.page.locator("#runs .more:visible");
    while ((await more.count()) > 0) {
      await more.scrollIntoViewIfNeeded();
      await this.page.waitForTimeout(50);
    }
    return this.page.$$eval("#runs tr[data-key]", (rows) => rows.map((row) => row.dataset.key));
  }

  async checkFilter(results) {
    const [{ run_id, model_id }] = results.runs;
    for (const find of [run_id, model_id.toUpperCase(), "no such run anywhere"]) {
      const begin = Date.now();
      await this.page.fill('input[type="search"]', find);
      const words = find.toLowerCase().split(/\s+/).filter(Boolean);
      const expected = results.runs.filter((run) => words.every((word) => filteredText(run).includes(word)));
      const paths = await this.allPaths();
      report.filter_ms = Math.max(report.filter_ms ?? 0, Date.now() - begin);
      assert.deepEqual(
        paths,
        expected.map(({ path }) => path),
        `the filter “${find}”`,
      );
    }
    await this.page.fill('input[type="search"]', "");
  }

  async checkSorting(results) {
    const heading = this.page.locator('#runs th:has(button:text-is("Run"))');
    const names = new Map(results.runs.map(({ path, run_id }) => [path, run_id]));
    const { compare } = new Intl.Collator("en", { numeric: true, sensitivity: "base" });
    for (const [order, sign] of [
      ["ascending", 1],
      ["descending", -1],
    ]) {
      await heading.locator("button").click();
      assert.equal(await heading.getAttribute("aria-sort"), order);
      const sorted = (await this.allPaths()).map((path) => names.get(path));
      assert.deepEqual(
        sorted,
        [...sorted].sort((left, right) => sign * compare(left, right)),
        `runs are sorted, ${order}`,
      );
    }
    assert.match(this.page.url(), /sort=run/);
    await this.page.goto(`${origin}/#/`);
    await this.page.waitForFunction(() => document.querySelector('#runs [aria-sort="descending"]') === null);
  }

  /* ---- a run ---- */

  async checkRun(path) {
    const { page } = this;
    const expected = await this.json("page", { run: path });
    assert.deepEqual(await page.evaluate(() => JSON.parse(JSON.stringify(dwell.page))), expected, "the page is that of the API");
    await checkAccess(page);
    await checkHostileNames(page, SCRIPTS);
    const [run] = expected.runs;
    await this.checkWholeRun(run);
    await this.checkLooks("run");
    if (run.overview.rows > 0 && run.overview.places.length > 0) {
      await this.checkZooms(path, run);
      await this.checkAccesses(path, run);
      await this.checkBookmark();
    }
  }

  async checkWholeRun({ overview }) {
    const { totals, cell_s } = await this.page.evaluate(() => dwell.scene("memory_map") ?? { totals: {}, cell_s: 0 });
    if (overview.places.length > 0) {
      assert.deepEqual(
        totals,
        sumsOf(overview.tiles.place.map((place, at) => [overview.places[place].region_type, overview.tiles, at])),
      );
      assert.ok(Math.abs(cell_s - overview.tiles.bin_ns * 1e-9) < 1e-12, "the whole run is drawn from its overview");
    }
  }

  /** The middle of the time in which anything was accessed, ever closer. */
  async checkZooms(path, { overview, timeline }) {
    const middle_s = ((overview.first_ns + overview.last_ns) / 2 - timeline.begin_ns) * 1e-9;
    for (const share of ZOOMS) {
      const half = (timeline.end_s * share) / 2;
      const before = this.windowRequests.length;
      const zoom = await this.zoomTo({ begin_s: middle_s - half, end_s: middle_s + half });
      assert.ok(this.windowRequests.length > before, "a window is asked for");
      const scene = await this.page.evaluate(() => dwell.scene("memory_map"));
      const isFiner = scene.cell_s < overview.tiles.bin_ns * 1e-9;
      const answer = await this.windowAnswer();
      const shouldBeFiner = answer.overview !== null && answer.overview.tiles.bin_ns < overview.tiles.bin_ns;
      assert.equal(isFiner, shouldBeFiner, "finer cells are drawn where the API has them");
      const rows = isFiner ? await this.checkCells(path, timeline, overview.places, scene) : null;
      report.zooms.push({ share, ...zoom, cell_s: scene.cell_s, rows });
      await this.checkTraffic(answer, overview.traffic.bin_ns);
      const [note, readout] = await this.page.evaluate(() =>
        [".detail", "#chart-memory_map .readout"].map((part) => document.querySelector(part).textContent),
      );
      const [, column] = /^Each column is ([^.]*(?:\.\d+)?[^.]*)\./.exec(note);
      assert.ok(readout.includes(`In this cell (${column})`), `“${note}”, and the values below are of “${readout}”`);
    }
    await this.page.locator("#memory_map").scrollIntoViewIfNeeded();
    await this.shot("map");
  }

  /** Zooms; gives how long painting took, and how long until finer detail was there. */
  zoomTo(span) {
    return this.page.evaluate(async (shown) => {
      const { window } = dwell.charts.get("timeline");
      const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
      const begin = performance.now();
      window.show(shown);
      await frame();
      await frame();
      const paint_ms = performance.now() - begin;
      const note = document.querySelector(".detail");
      while (note.textContent.includes("Loading")) {
        await frame();
      }
      const refined_ms = performance.now() - begin;
      await frame();
      return { paint_ms, refined_ms };
    }, span);
  }

  /** What the API answers to the question that the page asked last. */
  windowAnswer() {
    return this.json("window", Object.fromEntries(this.windowRequests.at(-1)));
  }

  /** The cells that are drawn add up to the rows of their time. */
  async checkCells(path, timeline, places, { window, cell_s, cells }) {
    const bin_ns = Math.round(cell_s * 1e9);
    const begin_ns = Math.floor((timeline.begin_ns + window.begin_s * 1e9) / bin_ns) * bin_ns;
    const end_ns = Math.ceil((timeline.begin_ns + window.end_s * 1e9) / bin_ns) * bin_ns;
    const rows = await this.rows(path, begin_ns, end_ns);
    if (rows === null) {
      return null;
    }
    const expected = {};
    for (const { region_type, op_type, size_bytes } of rows) {
      const sum = (expected[region_type] ??= { read_bytes: 0, written_bytes: 0 });
      sum[op_type === "load" ? "read_bytes" : "written_bytes"] += Number(size_bytes);
    }
    assert.deepEqual(sumsOf(cells.place.map((place, at) => [places[place].region_type, cells, at])), expected, "cells and rows");
    return rows.length;
  }

  /** Bars of traffic are whole bins of what is finer: the answer, or the overview of the run. */
  async checkTraffic(answer, overview_bin_ns) {
    if (answer.overview === null) {
      return;
    }
    const lane = await this.page.evaluate(() => dwell.scene("timeline").lanes.find(({ name }) => name === "traffic"));
    for (const { begin_s, end_s } of lane?.series ?? []) {
      const groups = (end_s[0] - begin_s[0]) / (Math.min(answer.overview.traffic.bin_ns, overview_bin_ns) * 1e-9);
      assert.ok(Math.abs(groups - Math.round(groups)) < 1e-3, "bars are whole bins");
    }
  }

  /* ---- single accesses ---- */

  async checkAccesses(path, { timeline }) {
    const { page } = this;
    const section = page.locator("#accesses");
    const csv = section.locator('button:text-is("CSV")');
    if (!(await this.listsAccesses())) {
      // The middle of the run may hold nothing, but its beginning does.
      await page.evaluate(() => dwell.charts.get("timeline").window.reset());
      await this.listsAccesses();
    }
    const shown = await page.evaluate(() => dwell.charts.get("timeline").window.shown);
    const [begin_ns, end_ns] = [shown.begin_s, shown.end_s].map((at_s) => timeline.begin_ns + at_s * 1e9);
    const rows = await this.rows(path, Math.floor(begin_ns), Math.ceil(end_ns) + 1);
    const listed = await page.evaluate(() => dwell.accesses());
    assert.ok(listed.length > 0, "accesses are listed");
    assert.deepEqual(listed, rows.map(accessOf), "the accesses are the rows");
    const cells = await section
      .locator("tbody tr")
      .evaluateAll((all) => all.map((row) => [...row.cells].map((cell) => cell.textContent)));
    assert.deepEqual(
      cells.map(([, op, , , tensor, at]) => [op, tensor, at]),
      listed.map((access) => [access.op_type, access.tensor, access.address]),
      "the table shows them",
    );
    report.accesses = listed.length;
    await section.scrollIntoViewIfNeeded();
    await this.shot("accesses");
    const [download] = await Promise.all([page.waitForEvent("download"), csv.click()]);
    assert.equal(download.suggestedFilename(), "dwell-accesses.csv");
    const lines = (await readFile(await download.path(), "utf8")).split("\r\n");
    assert.ok(lines.length - 2 >= listed.length, "the file has a line for each access");
    await section
      .locator("tbody button")
      .nth(Math.floor(listed.length / 2))
      .click();
    const closer = await page.evaluate(() => dwell.charts.get("timeline").window.shown);
    const at_s = (listed[Math.floor(listed.length / 2)].timestamp_ns - timeline.begin_ns) * 1e-9;
    assert.ok(closer.end_s - closer.begin_s <= shown.end_s - shown.begin_s, "a click zooms in");
    assert.ok(closer.begin_s <= at_s + 1e-9 && closer.end_s >= at_s - 1e-9, "to the access");
  }

  /** Zooms to the first accesses of the window if they are too many; says whether any are listed. */
  async listsAccesses() {
    const zoom = this.page.locator('#accesses button:has-text("Zoom to the first")');
    const settled = async () => {
      await this.page.waitForFunction(() => {
        const shown = document.querySelector("#chart-timeline .window").textContent;
        const said = document.querySelector('#accesses [role="status"]').textContent;
        return said.includes(shown) || said.includes("Zoom in");
      });
    };
    await settled();
    while (await zoom.isVisible()) {
      await zoom.click();
      await zoom.waitFor({ state: "hidden" });
      await settled();
    }
    return (await this.page.evaluate(() => dwell.accesses().length)) > 0;
  }

  /** An address that is opened again shows the same time. */
  async checkBookmark() {
    const { page } = this;
    await page.waitForFunction(() => /from=.*to=/.test(location.hash));
    await page.waitForTimeout(500);
    const [before, link] = [await page.evaluate(() => dwell.charts.get("timeline").window.shown), page.url()];
    await page.reload();
    await this.opened();
    const after = await page.evaluate(() => dwell.charts.get("timeline").window.shown);
    assert.equal(page.url(), link);
    assert.ok(Math.abs(before.begin_s - after.begin_s) < 2e-9 && Math.abs(before.end_s - after.end_s) < 2e-9, "the same time");
  }

  /* ---- the rest ---- */

  async checkHistory(results) {
    const { page } = this;
    const run = page.url();
    await page.goBack();
    await this.listed();
    assert.match(page.url(), /#\/\?find=/, "the way back leads to the list as it was");
    await page.goForward();
    await this.opened();
    assert.equal(page.url(), run);
    await this.backToList();
    assert.equal(await page.locator("#runs tr[data-key]").count(), Math.min(results.runs.length, 200), "the list is whole again");
  }

  async checkComparison(results, runs) {
    const { page } = this;
    await page.goto(`${origin}/#/`);
    await this.listed();
    await this.allPaths();
    for (const { path } of runs) {
      await page.check(`.results tr[data-key=${JSON.stringify(path)}] input`);
    }
    await this.shot("chosen");
    await page.click('.compare button:text-is("Compare")');
    await page.waitForFunction(() => globalThis.dwell?.page?.kind === "comparison");
    const expected = await this.page.request.get(
      `${origin}/api/v1/page?${new URLSearchParams(runs.map(({ path }) => ["run", path]))}`,
    );
    assert.deepEqual(await page.evaluate(() => JSON.parse(JSON.stringify(dwell.page))), await expected.json());
    const links = await page.$$eval(".related a", (all) => all.map((link) => link.textContent));
    assert.deepEqual(
      links,
      runs.map(({ path }) => path),
      "the page leads to its runs",
    );
    await checkAccess(page);
    await this.checkLooks("comparison");
    await this.backToList();
  }

  async checkExperiment({ experiment_id, name }) {
    const { page } = this;
    const status = await this.statusOf("page", { experiment: experiment_id });
    report.experiment_status = status;
    if (status !== 200) {
      // No run of it counts; the page says why, and the browser writes the status to its console.
      return;
    }
    await page.goto(`${origin}/#/`);
    await page.click("#experiments .cell-name a");
    await page.waitForFunction(() => globalThis.dwell?.page?.kind === "experiment");
    const expected = await this.json("page", { experiment: experiment_id });
    assert.deepEqual(await page.evaluate(() => JSON.parse(JSON.stringify(dwell.page))), expected);
    await checkAccess(page);
    await checkHostileNames(page, SCRIPTS);
    assert.equal(await page.textContent("h1"), `Experiment ${name}`, "the title is the name, also if no run counts");
    await this.shot("experiment", true);
    await page.click('a:text-is("Runs of this experiment")');
    await page.waitForFunction(() => document.querySelector(".results") !== null);
    assert.equal(await page.inputValue('input[type="search"]'), experiment_id);
  }

  async checkUnknown() {
    await this.page.goto(`${origin}/#/nothing`);
    await this.page.waitForSelector('h1:text-is("Not found")');
    await this.backToList();
  }

  /* ---- a run that is being recorded ---- */

  async checkLive(run) {
    const { page } = this;
    await page.goto(`${origin}/#/run?${new URLSearchParams({ path: run.path })}`);
    await this.opened();
    await page.waitForSelector('.badge:visible:has-text("Recording")');
    await this.shot("live");
    const ends = () => page.evaluate(() => ({ ...dwell.scene("timeline").window, whole: dwell.page.runs[0].timeline.end_s }));
    const first = await ends();
    assert.deepEqual([first.begin_s, first.end_s], [0, first.whole], "all of it is shown");
    await page.click('header button:text-is("Dark")');
    await page.locator("#chart-timeline .frame").focus();
    await page.waitForFunction((end) => dwell.page.runs[0].timeline.end_s > end, first.whole);
    const later = await ends();
    assert.equal(later.end_s, later.whole, "the window follows the end");
    const kept = await page.evaluate(() => ({
      focus: document.activeElement === dwell.charts.get("timeline").frame,
      theme: document.documentElement.style.colorScheme,
    }));
    assert.deepEqual(kept, { focus: true, theme: "dark" }, "focus and colours are kept");
    await page.evaluate((end_s) => dwell.charts.get("timeline").window.show({ begin_s: 0, end_s }), first.whole / 2);
    await page.evaluate(() => document.getElementById("memory_map")?.scrollIntoView({ behavior: "instant" }));
    await page.waitForTimeout(200);
    const top = () => page.evaluate(() => document.getElementById("memory_map")?.getBoundingClientRect().top ?? 0);
    const place = await top();
    await page.waitForFunction((end) => dwell.page.runs[0].timeline.end_s > end, later.whole);
    assert.equal((await ends()).end_s, first.whole / 2, "a window that is zoomed in stays");
    assert.ok(Math.abs((await top()) - place) < 40, "the page stays where it was scrolled to");
    await page.click('header button:text-is("Auto")');
    report.live = { first_s: first.whole, later_s: later.whole };
    if (options.includes("--finishes")) {
      await page.waitForSelector('.badge:has-text("has ended")');
      const expected = await this.json("page", { run: run.path });
      assert.deepEqual(await page.evaluate(() => JSON.parse(JSON.stringify(dwell.page))), expected, "the final page is shown");
    }
  }

  /** Light, dark and narrow. */
  async checkLooks(name) {
    const { page } = this;
    const paper = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    await page.emulateMedia({ colorScheme: "light" });
    const light = await paper();
    await this.shot(name, true);
    await page.emulateMedia({ colorScheme: "dark" });
    assert.notEqual(await paper(), light, "dark mode has another background");
    await page.waitForTimeout(100);
    await this.shot(`${name}-dark`, true);
    await page.emulateMedia({ colorScheme: "light" });
    await page.setViewportSize(NARROW);
    await page.waitForTimeout(300);
    const width = await page.evaluate(() => document.scrollingElement.scrollWidth);
    assert.ok(width <= NARROW.width, `the page is ${width} pixels wide on ${NARROW.width}`);
    await this.shot(`${name}-narrow`, true);
    await page.setViewportSize(WIDE);
    await page.waitForTimeout(100);
  }
}

/** What the filter of the list looks at. */
function filteredText({ run_id, path, model_id, engine, experiment_id, state, validity, quality }) {
  return [run_id, path, model_id, engine, experiment_id, state, validity, quality].join("\n").toLowerCase();
}

/** When the browser first painted anything, and when the list was there. */
function paintTimes() {
  const paint = performance.getEntriesByName("first-contentful-paint")[0];
  return { first_paint_ms: paint?.startTime ?? null, list_ms: performance.now() };
}

/** Bytes by region type of cells, each as its type, its columns and its position in them. */
function sumsOf(cells) {
  const sums = {};
  for (const [region_type, columns, at] of cells) {
    const sum = (sums[region_type] ??= { read_bytes: 0, written_bytes: 0 });
    sum.read_bytes += columns.read_bytes[at];
    sum.written_bytes += columns.written_bytes[at];
  }
  return sums;
}

/** A row of the trace as the view lists it. */
function accessOf(row) {
  const number = (value) => (value === null || value === undefined ? null : Number(value));
  return {
    timestamp_ns: Number(row.timestamp_ns),
    op_type: row.op_type,
    region_type: row.region_type,
    layer: number(row.layer),
    tensor: row.tensor,
    address: `0x${row.address.toString(16)}`,
    size_bytes: Number(row.size_bytes),
    step: number(row.step),
    token_index: number(row.token_index),
    symbol: row.symbol,
  };
}

await mkdir(out, { recursive: true });
await withBrowser(async (browser) => {
  const page = await browser.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  const said = [];
  page.on("console", (message) => said.push(`console ${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => said.push(`error: ${error.message}`));
  page.on("request", (request) => {
    const isOwn = [origin, "data:", "blob:"].some((begin) => request.url().startsWith(begin));
    isOwn || said.push(`request: ${request.url()}`);
  });
  const view = new View(page);
  try {
    await view.check();
    assert.deepEqual(said, [], "the page said something");
  } catch (error) {
    await view.shot("failure").catch(() => undefined);
    console.error(`${error.stack}\n${said.join("\n")}\nat ${page.url()}`);
    process.exitCode = 1;
  }
});
console.log(JSON.stringify(report));
