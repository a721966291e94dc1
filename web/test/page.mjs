// Uses the page as a person does who has not seen it before: node test/page.mjs OUT_DIR MODEL.gguf
//
// Screenshots go to OUT_DIR.

import assert from "node:assert/strict";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { checkAccess, checkHostileNames } from "../../viewer/test/checks.mjs";
import { NARROW, PATIENCE_MS, WIDE } from "../../viewer/test/chromium.mjs";
import { writeOnnxModel } from "./onnx_model.mjs";
import { withPages } from "./pages.mjs";

const HOSTILE = '<img src="x" onerror="alert(1)">=1+1';
const HEADER = "timestamp,label,pid,rss_mb,vms_mb,heap_used_mb,heap_total_mb,wasm_mb,ua_memory_mb,gpu_mb,tokens";

/** What Chromium says by itself of files that are asked for in vain, and of missing graphics adapters. */
const EXPECTED = /404|No available adapters/;

const [out, gguf] = process.argv.slice(2);
await mkdir(out, { recursive: true });
const place = await mkdtemp(join(tmpdir(), "dwell-web-page-"));
try {
  await writeOnnxModel(join(place, "onnx"));
  const config = {
    runtimes: {},
    models: [
      { name: HOSTILE, runtime: "wllama", url: `gguf/${gguf.split("/").at(-1)}`, bytes: 1_000_000 },
      { name: "small", runtime: "transformers_js", url: "models/onnx/" },
    ],
  };
  const folders = { "/gguf/": dirname(gguf), "/models/": place };
  await withPages({ folders, texts: { "/config.json": JSON.stringify(config) } }, async (browser, address) => {
    await check("first run", browser, address, checkFirstRun);
    await check("file of one's own", browser, address, checkOwnFile);
    await check("graphics memory", browser, address, checkWebGpu);
    await check("mistakes", browser, address, checkMistakes);
    await check("limits", browser, address, checkLimits);
    await check("module", browser, address, checkModule);
  });
  await withPages({ folders, hasRuntimes: false, hasWebGpu: false, isIsolated: false }, async (browser, address) => {
    await check("nothing installed", browser, address, checkNothing);
  });
} finally {
  await rm(place, { recursive: true, force: true });
}

async function check(what, browser, address, test) {
  const page = await browser.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  await page.setViewportSize(WIDE);
  const said = [];
  page.on("console", (message) => EXPECTED.test(message.text()) || said.push(`${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => said.push(`error: ${error.message}`));
  page.on(
    "request",
    (request) => /^(blob|data):/.test(request.url()) || request.url().startsWith(address) || said.push(request.url()),
  );
  await page.goto(`${address}index.html`);
  await page.waitForSelector("form");
  await test(page, address);
  assert.deepEqual(said, [], "the page said something, or asked another server");
  await page.close();
  console.log(`${what}: good`);
}

function picture(page, name) {
  return page.screenshot({ path: join(out, `web-${name}.png`), fullPage: true });
}

function start(page) {
  return page.click("button:text-is('Start')");
}

function ended(page) {
  return page.waitForFunction(() => /^(Done|The run failed)/.test(document.querySelector(".status").textContent));
}

/** Everything is chosen already: one press on Start is enough. */
async function checkFirstRun(page) {
  await picture(page, "start");
  await page.fill("[name=max_tokens]", "12");
  await start(page);
  await ended(page);
  assert.match(await page.textContent(".status"), /^Done: the limit of tokens is reached/);
  assert.ok((await page.textContent(".results .about")).endsWith(` with ${HOSTILE}`), "the result names the model");
  const figures = await page.$$eval(".figures > div", (all) => all.map((each) => each.textContent));
  assert.equal(figures.length, 5);
  assert.match(figures[0], /Peak memory.*MiB/);
  assert.match(figures[3], /Tokens12/);
  assert.match(figures[4], /KV cache.*\/token.*allocated in full/);
  assert.notEqual(await page.textContent(".text"), "");
  const legend = await page.$$eval(".legend li", (all) => all.map((each) => each.textContent));
  for (const name of ["Weights", "KV cache", "Compute buffers", "Other WebAssembly", "JavaScript heap"]) {
    assert.ok(
      legend.some((each) => each.startsWith(name)),
      `${name} is not in ${legend}`,
    );
  }
  await checkCsv(page);
  await checkAccess(page);
  await checkHostileNames(page, 2);
  await checkLooks(page);
}

async function checkCsv(page) {
  const [download] = await Promise.all([page.waitForEvent("download"), page.click("button:text-is('Download CSV')")]);
  assert.match(download.suggestedFilename(), /^dwell-[\w.-]+\.csv$/);
  const [header, ...rows] = (await readFile(await download.path(), "utf8")).trim().split("\r\n");
  assert.equal(header, HEADER);
  const fields = rows.map((row) => row.split(","));
  assert.ok(fields.length >= 12);
  assert.ok(fields.every((row) => row.length === 11 && row[1] === "wllama" && row.slice(2, 5).join("") === ""));
  assert.equal(fields.at(-1)[10], "12");
  assert.ok(Number(fields.at(-1)[7]) > 100, "WebAssembly memory of the last sample");
}

async function checkLooks(page) {
  for (const [scheme, size, name] of [
    ["light", WIDE, "light"],
    ["dark", WIDE, "dark"],
    ["light", NARROW, "narrow"],
    ["dark", NARROW, "narrow-dark"],
  ]) {
    await page.emulateMedia({ colorScheme: scheme });
    await page.setViewportSize(size);
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(overflow <= 0, `${name}: ${overflow} pixels too wide`);
    await picture(page, name);
  }
}

async function checkOwnFile(page) {
  await page.selectOption("[name=model]", "file");
  await start(page);
  assert.match(await page.textContent(".missing"), /Choose a GGUF file/);
  await page.setInputFiles("[name=files]", gguf);
  await page.fill("[name=max_tokens]", "3");
  await page.selectOption("[name=manner]", "text");
  await start(page);
  await ended(page);
  assert.match(await page.textContent(".status"), /^Done/);
}

async function checkWebGpu(page) {
  await page.check("[value=transformers_js]");
  await page.click("summary:text-is('More settings')");
  await page.selectOption("[name=device]", "webgpu");
  await page.fill("[name=max_tokens]", "6");
  await start(page);
  await ended(page);
  assert.match(await page.textContent(".status"), /^Done/);
  assert.match(await page.textContent(".figures"), /768.B\/token.*grows with each token, to \d.*KiB/);
  assert.match(await page.textContent(".legend"), /Other graphics memory/);
}

/** An address that does not answer is said in words, with what helps, and the next run works. */
async function checkMistakes(page) {
  await page.selectOption("[name=model]", "address");
  await start(page);
  assert.match(await page.textContent(".missing"), /Type the address/);
  await page.fill("[name=address]", "gguf/nothing.gguf");
  await start(page);
  await ended(page);
  assert.match(await page.textContent(".error"), /nothing.gguf is not there.*What helps: check the address/);
  await picture(page, "missing");
  await page.selectOption("[name=model]", "0");
  await page.fill("[name=max_tokens]", "100000");
  await page.click("summary:text-is('More settings')");
  await start(page);
  await page.waitForFunction(() => /^Writing/.test(document.querySelector(".status").textContent));
  await picture(page, "writing");
  await page.click("button:text-is('Stop')");
  await ended(page);
  assert.match(await page.textContent(".status"), /^Done: stopped/);
  assert.equal(await page.isHidden(".error"), true);
}

/** What does not fit is said with what helps, and so is what was done in another way than chosen. */
async function checkLimits(page) {
  await page.selectOption("[name=model]", "file");
  await page.setInputFiles("[name=files]", await damaged());
  await start(page);
  await ended(page);
  const damage = await page.textContent(".error");
  assert.match(damage, /could not load damaged.gguf: .*What helps: the file is cut short or damaged/);
  assert.doesNotMatch(damage, /model-00001|llama_model_load/, "names that nobody knows");
  await picture(page, "damaged");
  await page.selectOption("[name=model]", "0");
  await page.click("summary:text-is('More settings')");
  await page.fill("[name=context]", "16");
  await page.fill("[name=prompt]", "many words ".repeat(400));
  await start(page);
  await ended(page);
  assert.match(await page.textContent(".error"), /^llama.cpp stopped: request \(.*exceeds.*What helps: shorten the prompt/);
  await page.fill("[name=prompt]", "Once upon a time");
  await page.fill("[name=max_tokens]", "100000");
  await start(page);
  await ended(page);
  assert.match(await page.textContent(".status"), /^Done: (the context is full|the model ended its text)/);
  await page.fill("[name=max_tokens]", "2");
  await page.selectOption("[name=device]", "webgpu");
  await start(page);
  await ended(page);
  const isOnCard = (await page.textContent("table")).includes("graphics card");
  const notices = await page.$$eval(".results .notice", (all) => all.map((each) => each.textContent));
  assert.equal(
    notices.some((each) => each.startsWith("It runs on the processor")),
    !isOnCard,
    "the page says that the graphics card is not used",
  );
}

/** The model with a length in its metadata that no file has. */
async function damaged() {
  const bytes = await readFile(gguf);
  bytes.fill(0xff, 24, 32);
  const path = join(place, "damaged.gguf");
  await writeFile(path, bytes);
  return path;
}

/** The profilers, in a page of someone else's that imports one file. */
async function checkModule(page, address) {
  await page.goto(`${address}run.js`);
  await page.setContent("<!doctype html><title>someone's page</title>");
  const result = await page.evaluate(
    async (model) => {
      const { WllamaProfiler, Failure } = await import("/dwell-web.js");
      const heard = { samples: 0, tokens: 0 };
      const profiler = new WllamaProfiler({
        samplingInterval: 50,
        onSample: () => heard.samples++,
        onToken: () => heard.tokens++,
      });
      const refused = await profiler.initialize({ model: "none.gguf", runtimeUrl: "/runtimes/wllama/" }).catch((error) => error);
      const module = await import("/runtimes/wllama/esm/index.js");
      const loaded = await profiler.initialize({ model, module, runtimeUrl: "/runtimes/wllama/", contextLength: 128 });
      const completion = await profiler.complete("Once upon a time", { maxTokens: 4, ignoreEnd: true });
      const samples = profiler.getSamples();
      const csv = profiler.toCSV("mine");
      await profiler.unload();
      const unloaded = await profiler.complete("x").catch((error) => error);
      return {
        refused: [refused instanceof Failure, refused.stage, refused.hint],
        unloaded: unloaded.hint,
        cells: loaded.kv.cells,
        completion,
        heard,
        samples,
        csv,
      };
    },
    `/gguf/${gguf.split("/").at(-1)}`,
  );
  assert.deepEqual(result.refused, [true, "model", "check the address of the model"]);
  assert.equal(result.unloaded, "call initialize first");
  assert.equal(result.cells, 256, "llama.cpp rounds the context up to whole blocks of 256 cells");
  assert.equal(result.completion.tokens.length, 4);
  assert.equal(result.completion.usage.completion_tokens, 4);
  assert.equal(result.completion.text, result.completion.tokens.map(({ text }) => text).join(""));
  assert.equal(result.heard.tokens, 4);
  assert.ok(result.samples.length <= result.heard.samples && result.samples.at(-1).wasm_bytes > 0);
  assert.equal(result.csv.split("\r\n").length, result.samples.length + 2);
}

async function checkNothing(page) {
  assert.equal(await page.isDisabled("button:text-is('Start')"), true);
  const problems = await page.$$eval(".problem", (all) => all.map((each) => each.textContent));
  assert.equal(problems.length, 3);
  assert.match(problems[0], /put the npm package @wllama\/wllama into runtimes\/wllama\//);
  assert.match(problems[2], /Needs WebGPU/);
  assert.match(await page.textContent(".missing"), /No runtime can be used here/);
  assert.match(await page.textContent(".notice"), /not cross-origin isolated/);
  await picture(page, "nothing-installed");
}
