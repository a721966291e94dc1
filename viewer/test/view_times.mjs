// Times what a reader waits for: node test/view_times.mjs URL REPORT
//
// URL is the address that `dwell view` prints for one run, REPORT the path of its report.html. Milliseconds go to stdout as JSON:
// until each page has painted and its charts are drawn, and for each zoom step until the picture has moved and until the finer
// detail is in it.

import { pathToFileURL } from "node:url";
import { PATIENCE_MS, withBrowser } from "./chromium.mjs";

const [address, report] = process.argv.slice(2);
if (!address || !report) {
  console.error("usage: node view_times.mjs URL REPORT");
  process.exit(2);
}
/** Each to half of the time before: from the whole run to single accesses. */
const ZOOM_STEPS = 24;

await withBrowser(async (browser) => {
  const page = await browser.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  const opened_report = await open(page, pathToFileURL(report).href);
  const opened_view = await open(page, address);
  const zooms = [];
  let shown = await page.evaluate(() => dwell.charts.get("timeline").window.shown);
  for (let step = 0; step < ZOOM_STEPS; step += 1) {
    const quarter_s = (shown.end_s - shown.begin_s) / 4;
    shown = { begin_s: shown.begin_s + quarter_s, end_s: shown.end_s - quarter_s };
    zooms.push(await page.evaluate(zoomTo, shown));
  }
  console.log(JSON.stringify({ report: opened_report, view: opened_view, zooms }));
});

async function open(page, url) {
  const begin = performance.now();
  await page.goto(url);
  await page.waitForFunction(() => globalThis.dwell?.charts?.size > 0);
  const drawn_ms = performance.now() - begin;
  const first_paint_ms = await page.evaluate(
    () => performance.getEntriesByType("paint").find(({ name }) => name === "first-contentful-paint").startTime,
  );
  return { first_paint_ms, drawn_ms };
}

/** Runs in the page: zooms, and says when the picture had moved and when nothing finer was on its way any more. */
async function zoomTo(span) {
  const { window } = dwell.charts.get("timeline");
  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
  const note = document.querySelector(".detail");
  const begin = performance.now();
  window.show(span);
  await frame();
  await frame();
  const moved_ms = performance.now() - begin;
  while (note.textContent.includes("Loading")) {
    await frame();
  }
  return { moved_ms, refined_ms: performance.now() - begin };
}
