// Measures what sampling costs: node test/cost.mjs MODEL.gguf [TOKENS] [PAIRS] [--json]
//
// One page with one loaded model writes the same text again and again, with samples every 100 ms and with none, in turns. What counts
// is the processor time of the page's process for each token, by thread: it does not depend on what else the machine does, as
// tokens per second do. The ratio of neighbours has a median, and an interval that holds the median of many such pairs in 95 of 100 cases.

import { readdirSync, readFileSync } from "node:fs";
import { basename, dirname } from "node:path";
import { last, ofType, openRunner, withPages } from "./pages.mjs";

const isJson = process.argv.includes("--json");
const [gguf, tokens = "32", pairs = "40"] = process.argv.slice(2).filter((word) => !word.startsWith("--"));
const INTERVAL_MS = 100;
const job = {
  runtime: "wllama",
  model: { name: "model", url: `models/${basename(gguf)}` },
  contextLength: 512,
  threads: 1,
  maxTokens: Number(tokens),
};

const found = await withPages({ folders: { "/models/": dirname(gguf) } }, async (browser, address) => {
  const { page, run } = await openRunner(browser, address);
  // The second run finds everything compiled and loaded.
  await run(job);
  await run(job);
  const pid = await rendererOf(page);
  const measured = [];
  for (let pair = 0; pair < Number(pairs); pair++) {
    const costs = {};
    // Whoever is second may profit from the first.
    for (const intervalMs of pair % 2 === 0 ? [0, INTERVAL_MS] : [INTERVAL_MS, 0]) {
      costs[intervalMs] = await costOf(run, pid, intervalMs);
    }
    measured.push({ off: costs[0], on: costs[INTERVAL_MS] });
  }
  return { measured, ...summary(measured) };
});
console.log(isJson ? JSON.stringify(found) : inWords(found));

/** The process that used the most processor time is that of the page, which has written two texts. */
async function rendererOf(page) {
  const session = await page.context().browser()?.newBrowserCDPSession();
  const { processInfo } = await (session ?? (await page.context().newCDPSession(page))).send("SystemInfo.getProcessInfo");
  const renderers = processInfo.filter(({ type }) => type === "renderer").sort((left, right) => right.cpuTime - left.cpuTime);
  return renderers[0].id;
}

/** Nanoseconds of processor time of each thread so far. */
function threadTimes(pid) {
  const folder = `/proc/${pid}/task`;
  const times = readdirSync(folder).flatMap((thread) => {
    try {
      return [[thread, Number(readFileSync(`${folder}/${thread}/schedstat`, "utf8").split(" ")[0])]];
    } catch {
      // A thread that has just ended.
      return [];
    }
  });
  return new Map(times);
}

/** Of one run: processor time of the page's own thread and of its whole process, for each token, and tokens per second. */
async function costOf(run, pid, intervalMs) {
  const before = threadTimes(pid);
  const events = await run({ ...job, samplingIntervalMs: intervalMs });
  const after = threadTimes(pid);
  const { usage, timings } = last(events);
  if ((ofType(events, "sample").length === 0) !== (intervalMs === 0)) {
    throw new Error(`${ofType(events, "sample").length} samples at an interval of ${intervalMs} ms`);
  }
  const since = [...after].map(([thread, time]) => [thread, time - (before.get(thread) ?? 0)]);
  const of = (isCounted) => since.reduce((sum, [thread, time]) => sum + (isCounted(thread) ? time : 0), 0);
  return {
    page_ns: of((thread) => thread === String(pid)) / usage.completion_tokens,
    process_ns: of(() => true) / usage.completion_tokens,
    samples: ofType(events, "sample").length / usage.completion_tokens,
    tokens_per_s: (1000 * (usage.completion_tokens - 1)) / timings.predicted_ms,
  };
}

function summary(measured) {
  const all = (value) => measured.map(value).sort((left, right) => left - right);
  const middle = (values) => values[Math.floor(values.length / 2)];
  const ratio = (value) => {
    const ratios = all(({ on, off }) => value(on) / value(off));
    const [low, high] = intervalOfMedian(ratios);
    return { median: middle(ratios), low, high };
  };
  const token_ns = middle(all(({ off }) => off.process_ns));
  const sample_ns = middle(all(({ on, off }) => (on.page_ns - off.page_ns) / on.samples));
  return {
    pairs: measured.length,
    tokens: Number(tokens),
    process_ns_off: token_ns,
    page_ns_off: middle(all(({ off }) => off.page_ns)),
    page_ns_more: middle(all(({ on, off }) => on.page_ns - off.page_ns)),
    samples_per_token: middle(all(({ on }) => on.samples)),
    sample_ns,
    // A token takes longer on a machine that does other work, and more samples are then taken while it is computed.
    alone_ratio: 1 + (sample_ns * (1 + token_ns / (INTERVAL_MS * 1e6))) / token_ns,
    cpu_ratio: ratio(({ process_ns }) => process_ns),
    speed_ratio: ratio(({ tokens_per_s }) => tokens_per_s),
  };
}

/** The values that a median lies between in 95 of 100 cases, by the binomial distribution of how many values are below it. */
function intervalOfMedian(sorted) {
  const half = 0.98 * Math.sqrt(sorted.length);
  const low = Math.max(0, Math.floor(sorted.length / 2 - half));
  return [sorted[low], sorted[sorted.length - 1 - low]];
}

function inWords(found) {
  const { pairs: count, process_ns_off, page_ns_off, page_ns_more, samples_per_token, sample_ns } = found;
  const ratio = ({ median, low, high }) => `${median.toFixed(4)} (${low.toFixed(4)} to ${high.toFixed(4)})`;
  const ms = (ns) => `${(ns / 1e6).toFixed(3)} ms`;
  return [
    `${count} pairs of ${tokens} tokens, with samples every ${INTERVAL_MS} ms and with none`,
    `processor time of a token, with none: ${ms(process_ns_off)}, of which the page's own thread has ${ms(page_ns_off)}`,
    `more of the page's own thread, with samples: ${ms(page_ns_more)}, ${ms(sample_ns)} for each of ${samples_per_token} samples`,
    `processor time of a token, ratio: ${ratio(found.cpu_ratio)}`,
    `the same with the samples of a machine that does nothing else: ${found.alone_ratio.toFixed(4)}`,
    `tokens per second, ratio: ${ratio(found.speed_ratio)}`,
  ].join("\n");
}
