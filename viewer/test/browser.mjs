// Opens reports in Chromium and checks what a reader would: node test/browser.mjs OUT_DIR FILE.html…
//
// Nothing may be said on the console, charts must show the numbers of the metrics, and every way to zoom must work. Screenshots
// go to OUT_DIR.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdir, readFile } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { checkAccess, checkHostileNames } from "./checks.mjs";
import { NARROW, PATIENCE_MS, WIDE, withBrowser } from "./chromium.mjs";

const A4 = { width: 794, height: 1123 };

/** Operation that sets memory to one value: drawn as a write, but no metric counts it. */
const CLEAR = "ggml_backend_buffer_clear";

const [out, ...files] = process.argv.slice(2);
if (!out || files.length === 0) {
  console.error("usage: node browser.mjs OUT_DIR FILE.html…");
  process.exit(2);
}
await mkdir(out, { recursive: true });
const failures = await withBrowser(async (browser) => {
  let failed = 0;
  for (const file of files) {
    failed += await checkFile(browser, file);
  }
  return failed;
});
process.exit(failures === 0 ? 0 : 1);

async function checkFile(browser, file) {
  const page = await browser.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  const said = [];
  page.on("console", (message) => said.push(`console ${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => said.push(`error: ${error.message}`));
  page.on(
    "request",
    (request) =>
      request.url().startsWith("file:") ||
      request.url().startsWith("data:") ||
      request.url().startsWith("blob:") ||
      said.push(`request: ${request.url()}`),
  );
  try {
    await page.goto(pathToFileURL(resolve(file)).href);
    await page.waitForFunction(() => globalThis.dwell !== undefined);
    const { kind } = await page.evaluate(() => dwell.page);
    await checkCharts(page);
    await checkAccess(page);
    await checkHostileNames(page, 2);
    if (kind === "run") {
      await checkNumbers(page);
      await checkGestures(page);
      await checkMap(page);
      await checkSwitches(page);
    }
    await checkPaper(page, basename(file, ".html"));
    await checkLooks(page, basename(file, ".html"));
    assert.deepEqual(said, [], "the page said something");
    console.log(`${file}: good`);
    return 0;
  } catch (error) {
    console.error(`${file}: ${error.stack}\n${said.join("\n")}`);
    return 1;
  } finally {
    await page.close();
  }
}

/** Every chart has a scene that is plain data, a CSV file and an SVG file that parse, and buttons that save them. */
async function checkCharts(page) {
  const charts = await page.evaluate(() =>
    [...dwell.charts].map(([name, chart]) => {
      const parsed = new DOMParser().parseFromString(chart.svg(), "image/svg+xml");
      return {
        name,
        scene: JSON.parse(JSON.stringify(dwell.scene(name))),
        lines: chart.csv().split("\r\n").length - 2,
        isSvg: parsed.documentElement.tagName === "svg" && parsed.querySelector("parsererror") === null,
        leftover: chart.svg().includes("var(--"),
        notNumbers: [...chart.frame.querySelectorAll("svg *")].filter((mark) =>
          [...mark.attributes].some(({ value }) => /NaN|Infinity|undefined/.test(value)),
        ).length,
      };
    }),
  );
  const { runs, experiment } = await page.evaluate(() => ({
    runs: dwell.page.runs.length,
    experiment: dwell.page.experiment?.plots.length ?? 0,
  }));
  assert.ok(charts.length >= Math.max(1, experiment), `${charts.length} charts for ${runs} runs and ${experiment} plots`);
  for (const { name, scene, isSvg, leftover, notNumbers } of charts) {
    assert.ok(Object.keys(scene).length > 0, `${name} has no scene`);
    assert.ok(isSvg, `${name}: the SVG file does not parse`);
    assert.equal(leftover, false, `${name}: the SVG file has a variable without a value`);
    assert.equal(notNumbers, 0, `${name}: a mark has no place`);
  }
  assert.ok(
    charts.some(({ lines }) => lines > 0),
    "no chart has rows in its CSV file",
  );
  const [{ name }] = charts;
  for (const kind of ["CSV", "SVG"]) {
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.click(`[id="chart-${name}"] .files button:text-is("${kind}")`),
    ]);
    assert.equal(download.suggestedFilename(), `dwell-${name.replace(":", "_")}.${kind.toLowerCase()}`);
    const saved = await readFile(await download.path(), "utf8");
    assert.equal(saved, await page.evaluate(([chart, method]) => dwell.charts.get(chart)[method](), [name, kind.toLowerCase()]));
  }
}

/** The scenes add up to the metrics. */
async function checkNumbers(page) {
  const { run, scenes } = await page.evaluate(() => ({
    run: dwell.page.runs[0],
    scenes: Object.fromEntries([...dwell.charts.keys()].map((name) => [name, dwell.scene(name)])),
  }));
  const { columns, rows } = run.metrics;
  const metric = (row, name) => row[columns.findIndex((column) => column.name === name)];
  const near = (actual, expected, what) =>
    assert.ok(Math.abs(actual - expected) <= 1e-9 * Math.abs(expected), `${what}: drawn ${actual}, metric ${expected}`);
  const cleared = run.overview.operations
    .filter(({ symbol }) => symbol === CLEAR)
    .reduce((sum, { written_bytes }) => sum + written_bytes, 0);
  const traffic = scenes.timeline.lanes.find(({ name }) => name === "traffic");
  const bytesOf = (name) =>
    traffic.series
      .filter((series) => series.name === name)
      .reduce(
        (sum, { value, begin_s, end_s }) => sum + value.reduce((all, rate, at) => all + rate * (end_s[at] - begin_s[at]), 0),
        0,
      );
  let beyond = 0;
  for (const row of rows) {
    const type = row[0];
    near(bytesOf(`read ${type}`), metric(row, "bytes_read"), `traffic of ${type}`);
    if (scenes.memory_map) {
      const total = scenes.memory_map.totals[type];
      assert.equal(total.read_bytes, metric(row, "bytes_read"), `map of ${type}`);
      near(bytesOf(`written ${type}`), total.written_bytes, `written traffic of ${type}`);
      beyond += total.written_bytes - metric(row, "bytes_written");
    }
    const steps = scenes.working_set?.series.find(({ region_type }) => region_type === type);
    const most = metric(row, "step_working_set_max_bytes");
    if (steps && most !== undefined) {
      assert.equal(Math.max(...steps.bytes), most, `working set of ${type}`);
    }
    checkSurvival(scenes.survival, type, metric(row, "retention_p50_s"));
  }
  if (scenes.memory_map) {
    assert.equal(beyond, cleared, "written bytes that no metric counts are those of clearing");
  }
}

/** The curve passes through its median: buckets and thinning leave a few percent. */
function checkSurvival(scene, type, median) {
  const curve = scene?.panels[0].curves.find(({ region_type }) => region_type === type);
  if (curve && median > 0) {
    const crossing = curve.at_s[curve.surviving.findIndex((share) => share <= 0.5)];
    assert.ok(
      crossing / median > 0.5 && crossing / median < 10,
      `survival of ${type}: half at ${crossing} s, median ${median} s`,
    );
  }
}

function windowOf(page, name = "timeline") {
  return page.evaluate((chart) => dwell.scene(chart).window, name);
}

function lengthOf({ begin_s, end_s }) {
  return end_s - begin_s;
}

async function checkGestures(page) {
  const frame = page.locator("#chart-timeline .frame");
  await frame.scrollIntoViewIfNeeded();
  const whole = await windowOf(page);
  const drag = async (from, to, shift = false) => {
    const box = await frame.boundingBox();
    const plot = await page.evaluate(() => dwell.charts.get("timeline").drawing.plot);
    const at = (share) => box.x + plot.left + plot.width * share;
    const y = Math.max(box.y, 0) + 60;
    if (shift) await page.keyboard.down("Shift");
    await page.mouse.move(at(from), y);
    await page.mouse.down();
    await page.mouse.move(at((from + to) / 2), y);
    await page.mouse.move(at(to), y);
    await page.mouse.up();
    if (shift) await page.keyboard.up("Shift");
  };

  await drag(0.25, 0.75);
  const brushed = await windowOf(page);
  assert.ok(Math.abs(lengthOf(brushed) / lengthOf(whole) - 0.5) < 0.02, "a drag zooms to what it covers");
  for (const name of ["memory_map", "kv"]) {
    if (await page.evaluate((chart) => dwell.charts.has(chart), name)) {
      assert.deepEqual(await windowOf(page, name), brushed, `${name} shows the same time`);
    }
  }
  const drawn = await page.evaluate(() => dwell.scene("timeline").lanes.find(({ name }) => name === "traffic").series);
  // A short run may have rested in this window, and then there is none.
  const isInside = ({ begin_s, end_s }, bar) => begin_s[bar] <= brushed.end_s && end_s[bar] > brushed.begin_s;
  assert.ok(
    drawn.every((series) => [...series.begin_s.keys()].every((bar) => isInside(series, bar))),
    "bars outside of the window are not drawn",
  );

  await drag(0.5, 0.3, true);
  const moved = await windowOf(page);
  assert.ok(moved.begin_s > brushed.begin_s && Math.abs(lengthOf(moved) - lengthOf(brushed)) < 1e-9, "shift-drag moves");

  await frame.focus();
  await page.mouse.wheel(0, -400);
  await page.waitForTimeout(100);
  const wheeled = await windowOf(page);
  assert.ok(lengthOf(wheeled) < lengthOf(moved), "the wheel zooms in");

  await frame.press("+");
  const closer = await windowOf(page);
  assert.ok(lengthOf(closer) < lengthOf(wheeled), "+ zooms in");
  await frame.press("ArrowLeft");
  assert.ok((await windowOf(page)).begin_s < closer.begin_s, "the left arrow moves to the left");
  await frame.press("ArrowRight");
  await frame.press("-");
  assert.ok(lengthOf(await windowOf(page)) > lengthOf(closer), "− zooms out");
  await frame.press("0");
  assert.deepEqual(await windowOf(page), whole, "0 shows the whole run");

  await drag(0.4, 0.6);
  const box = await frame.boundingBox();
  await page.mouse.dblclick(box.x + box.width / 2, Math.max(box.y, 0) + 60);
  assert.deepEqual(await windowOf(page), whole, "a double click shows the whole run");

  await page.mouse.move(box.x + box.width * 0.7, Math.max(box.y, 0) + 80);
  const { cursor_s, readings } = await page.evaluate(() => dwell.scene("timeline"));
  assert.ok(cursor_s > whole.begin_s && cursor_s < whole.end_s, "the pointer chooses a moment");
  assert.ok(
    readings.some(({ value }) => value !== "–"),
    "the readout has values",
  );
  assert.ok(await page.locator("#chart-timeline .crosshair").isVisible(), "the reading line is shown");
  await frame.press("Shift+ArrowRight");
  assert.ok(
    (await page.evaluate(() => dwell.scene("timeline").cursor_s)) > cursor_s,
    "shift with an arrow moves the reading line",
  );
}

async function checkMap(page) {
  if (!(await page.evaluate(() => dwell.charts.has("memory_map")))) {
    return;
  }
  const frame = page.locator("#chart-memory_map .frame");
  const pathOf = () => page.evaluate(() => dwell.scene("memory_map").path);
  const pointAt = (group) =>
    page.evaluate((at) => {
      const chart = dwell.charts.get("memory_map");
      const { groups } = chart.scene;
      const box = chart.frame.getBoundingClientRect();
      const { plot } = chart.drawing;
      const chosen = groups[Math.min(at, groups.length - 1)];
      return { x: box.left + plot.left + plot.width / 2, y: box.top + plot.top + chosen.y + chosen.height / 2, key: chosen.key };
    }, group);
  const clickAt = async (group) => {
    const { x, y, key } = await pointAt(group);
    await page.mouse.click(x, y);
    return key;
  };
  await frame.scrollIntoViewIfNeeded();
  const types = await page.evaluate(() => dwell.scene("memory_map").groups.map(({ key }) => key));
  const weights = Math.max(0, types.indexOf("weight"));
  const { x, y } = await pointAt(weights);
  await page.mouse.move(x, y);
  const place = await page.evaluate(() => dwell.scene("memory_map").readings[0].value);
  assert.ok(place.includes(" · "), "the readout names the place under the pointer");

  assert.equal(await clickAt(weights), types[weights]);
  assert.equal((await pathOf())[0], types[weights], "a click opens a region type");
  await clickAt(1);
  assert.equal((await pathOf()).length, 2, "a click opens a layer");
  const { cells, groups } = await page.evaluate(() => dwell.scene("memory_map"));
  const shown = new Set(groups.flatMap(({ rows }) => rows.map((row) => row.place)));
  assert.ok(
    cells.place.every((each) => shown.has(each)),
    "only cells of the layer are drawn",
  );
  await clickAt(0);
  assert.equal((await pathOf()).length, 3, "a click opens a tensor");
  await page.click("#chart-memory_map .crumbs button >> nth=0");
  assert.deepEqual(await pathOf(), [], "the first crumb shows all memory");

  await frame.focus();
  await frame.press("ArrowDown");
  await frame.press("Enter");
  assert.ok((await pathOf()).length > 0, "Enter opens what the arrows chose");
  await frame.press("Escape");
  await frame.press("Escape");
  await frame.press("Escape");
  assert.deepEqual(await pathOf(), [], "Escape goes back");
  await page.click('#chart-memory_map button:text-is("Writes")');
  assert.equal(await page.evaluate(() => dwell.scene("memory_map").mode), "written");
  await page.click('#chart-memory_map button:text-is("Reads and writes")');
  const hostile = await page.evaluate(() =>
    dwell.page.runs[0].overview.places.findIndex(({ tensor }) => tensor?.includes("<img")),
  );
  if (hostile >= 0) {
    assert.ok(
      await page.evaluate(() => dwell.charts.get("memory_map").csv().includes("<img src=x")),
      "a hostile name is in the file as it is",
    );
  }
}

async function checkSwitches(page) {
  const has = (name) => page.evaluate((chart) => dwell.charts.has(chart), name);
  if (await has("kv")) {
    const all = await page.evaluate(() => dwell.scene("kv"));
    const map = await page.evaluate(() => dwell.page.runs[0].overview.kv);
    assert.equal(
      all.lives,
      map.layers.reduce((sum, layer) => sum + layer.lives, 0),
    );
    await page.selectOption("#chart-kv select", { index: 1 });
    assert.equal((await page.evaluate(() => dwell.scene("kv"))).lives, map.layers[0].lives, "one layer has its own lives");
    await page.selectOption("#chart-kv select", { index: 0 });
    await page.click('#chart-kv button:text-is("Reads")');
    assert.equal(await page.evaluate(() => dwell.scene("kv").value), "cell_reads");
    await page.click('#chart-kv button:text-is("Bytes held")');
  }
  if (await has("survival")) {
    await page.click("#chart-survival .choice button >> nth=1");
    assert.equal(await page.evaluate(() => dwell.scene("survival").endpoint), "residency");
    await page.click("#chart-survival .choice button >> nth=0");
  }
}

/** A printed page is whole: it ends where the page ends, with everything that is closed on the screen. */
async function checkPaper(page, name) {
  const path = join(out, `${name}-paper.pdf`);
  const margin = { top: "15mm", bottom: "15mm", left: "15mm", right: "15mm" };
  await page.pdf({ path, format: "A4", margin });
  const { stdout, error } = spawnSync("pdftotext", [path, "-"], { encoding: "utf8" });
  if (error) {
    console.log(`${name}: what is printed was not read, because pdftotext cannot be run: ${error.message}`);
    return;
  }
  // Words are broken at hyphens, which pdftotext joins.
  const letters = (text) => text.replace(/[^\p{L}\p{N}]/gu, "");
  const printed = letters(stdout);
  const expected = await page.evaluate(() => {
    const texts = (selector) => [...document.querySelectorAll(selector)].map(({ textContent }) => textContent);
    return [...texts("h2"), ...texts(".metrics tbody th > code"), ...texts(".statement li"), ...texts("footer")];
  });
  assert.deepEqual(
    expected.filter((text) => !printed.includes(letters(text))),
    [],
    "paper lacks a part of the page",
  );
}

/** Light, dark, narrow and on paper. */
async function checkLooks(page, name) {
  const shot = (look) => page.screenshot({ path: join(out, `${name}-${look}.png`), fullPage: true });
  const paper = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  await page.mouse.move(0, 0);
  await page.emulateMedia({ colorScheme: "light" });
  const light = await paper();
  await shot("light");
  await page.emulateMedia({ colorScheme: "dark" });
  assert.notEqual(await paper(), light, "dark mode has another background");
  await page.waitForTimeout(100);
  await shot("dark");
  await page.click('header button:text-is("Light")');
  assert.equal(await paper(), light, "the reader chooses light");
  await page.click('header button:text-is("Dark")');

  await page.setViewportSize(A4);
  await page.emulateMedia({ colorScheme: "dark", media: "print" });
  await page.waitForTimeout(200);
  assert.equal(await paper(), light, "paper is light");
  assert.equal(await page.locator(".files:visible, .readout:visible, .contents:visible").count(), 0, "paper has no controls");
  await shot("print");
  await page.emulateMedia({ colorScheme: "light", media: "screen" });
  await page.click('header button:text-is("Auto")');

  await page.setViewportSize(NARROW);
  await page.waitForTimeout(300);
  const width = await page.evaluate(() => document.scrollingElement.scrollWidth);
  assert.ok(width <= NARROW.width, `the page is ${width} pixels wide on ${NARROW.width}`);
  const unsaid = await page.evaluate(
    () =>
      [...document.querySelectorAll(".scroll")].filter(
        (box) => box.checkVisibility() && box.scrollWidth > box.clientWidth + 1 && box.previousElementSibling.hidden,
      ).length,
  );
  assert.equal(unsaid, 0, "a table that goes on beyond its edge says so");
  await shot("narrow");
  await page.setViewportSize(WIDE);
}
