// Serves the built pages with the runtimes and with models, in a browser that has WebGPU: what the checks of this folder share.

import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { withBrowser } from "../../viewer/test/chromium.mjs";
import { withServer } from "./server.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const packages = join(root, "node_modules");

/** A software adapter, where there is no graphics card. */
const WEBGPU = ["--enable-unsafe-webgpu", "--enable-unsafe-swiftshader"];
const RUNTIMES = {
  "/runtimes/wllama/": join(packages, "@wllama/wllama"),
  "/runtimes/transformers_js/": join(packages, "@huggingface/transformers"),
  "/runtimes/onnxruntime_web/": join(packages, "onnxruntime-web"),
  "/runtimes/webllm/": join(packages, "@mlc-ai/web-llm"),
};

/** Lets `use` work with a browser and the address of the pages. */
export function withPages({ folders = {}, texts = {}, isIsolated = true, hasWebGpu = true, hasRuntimes = true } = {}, use) {
  const served = { "/": join(root, "dist"), ...(hasRuntimes && RUNTIMES), ...folders };
  return withServer({ folders: served, texts, isIsolated }, (address) =>
    withBrowser((browser) => use(browser, address), hasWebGpu ? WEBGPU : ["--disable-features=WebGPU", "--disable-gpu"]),
  );
}

/** Opens `run.html`; `run` runs a job there and gives its events. */
export async function openRunner(browser, address) {
  const page = await browser.newPage();
  const events = [];
  let heard = () => {};
  // A bare binding, as `dwell run` uses: `exposeFunction` calls back into the page, which costs more than a sample does.
  const session = await page.context().newCDPSession(page);
  await session.send("Runtime.enable");
  await session.send("Runtime.addBinding", { name: "dwellReport" });
  session.on("Runtime.bindingCalled", ({ payload }) => {
    events.push(JSON.parse(payload));
    heard();
  });
  await page.goto(`${address}run.html`);
  await page.waitForFunction(() => window.dwellRun !== undefined);
  const run = async (job) => {
    events.length = 0;
    await page.evaluate((asked) => window.dwellRun(asked), { ...JOB, ...job });
    // Its events come by another way than that of its end.
    while (!ENDS.includes(events.at(-1)?.type)) {
      await new Promise((resolve) => (heard = resolve));
    }
    return [...events];
  };
  return { page, run };
}

const ENDS = ["done", "error"];

const JOB = { prompt: "Once upon a time", maxTokens: 8, temperature: 0, seed: 1, samplingIntervalMs: 100, ignoreEnd: true };

export const ofType = (events, type) => events.filter((event) => event.type === type);
export const last = (events) => events.at(-1);
