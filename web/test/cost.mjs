// Measures what sampling costs: node test/cost.mjs MODEL.gguf [TOKENS] [PAIRS]
//
// Tokens per second of wllama with samples every 100 ms and with none, in turns, and the median of the ratio of neighbours. A
// measurement, not a check: on a busy machine it says little.

import { basename, dirname } from "node:path";
import { last, ofType, openRunner, withPages } from "./pages.mjs";

const [gguf, tokens = "64", pairs = "7"] = process.argv.slice(2);
const INTERVAL_MS = 100;
const job = {
  runtime: "wllama",
  model: { name: "model", url: `models/${basename(gguf)}` },
  contextLength: 512,
  threads: 1,
  maxTokens: Number(tokens),
};
/** Of llama.cpp's own clock. */
const rateOf = (events) => (1000 * last(events).usage.completion_tokens) / last(events).timings.predicted_ms;

await withPages({ folders: { "/models/": dirname(gguf) } }, async (browser, address) => {
  const { run } = await openRunner(browser, address);
  await run(job);
  const ratios = [];
  for (let pair = 0; pair < Number(pairs); pair++) {
    const rates = {};
    // Whoever is second may profit from the first.
    for (const intervalMs of pair % 2 === 0 ? [0, INTERVAL_MS] : [INTERVAL_MS, 0]) {
      const events = await run({ ...job, samplingIntervalMs: intervalMs });
      rates[intervalMs] = rateOf(events);
      if ((ofType(events, "sample").length === 0) !== (intervalMs === 0)) {
        throw new Error(`${ofType(events, "sample").length} samples at an interval of ${intervalMs} ms`);
      }
    }
    ratios.push(rates[INTERVAL_MS] / rates[0]);
    console.log(`off ${rates[0].toFixed(2)} tokens/s, on ${rates[INTERVAL_MS].toFixed(2)} tokens/s`);
  }
  ratios.sort((left, right) => left - right);
  console.log(`median ratio ${ratios[Math.floor(ratios.length / 2)].toFixed(4)}, of ${ratios.length} pairs`);
});
