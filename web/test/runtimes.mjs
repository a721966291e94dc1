// Runs real models in run.html, as a driver does: node test/runtimes.mjs MODEL.gguf [TEXT [BYTES.gguf]]
//
// MODEL.gguf is a small model; TEXT is what it writes after "Once upon a time" at temperature 0, if that is known. BYTES.gguf is a
// model that writes bytes which are no UTF-8.

import assert from "node:assert/strict";
import { copyFile, mkdtemp, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { writeMlcModel } from "./mlc_model.mjs";
import { KV_BYTES_PER_TOKEN, SHAPE, writeOnnxModel } from "./onnx_model.mjs";
import { last, ofType, openRunner, withPages } from "./pages.mjs";

const [gguf, text, bytesGguf] = process.argv.slice(2);
const WLLAMA = { runtime: "wllama", model: { name: basename(gguf), url: "models/good.gguf" }, contextLength: 256, threads: 2 };
const place = await mkdtemp(join(tmpdir(), "dwell-web-"));
try {
  const models = await writeModels();
  const texts = { "/models/broken.gguf": breakOff };
  await withPages({ folders: { "/models/": models }, texts }, async (browser, address) => {
    await check("wllama", browser, address, checkWllama);
    if (bytesGguf !== undefined) {
      await check("wllama with bytes that are no text", browser, address, checkBytes);
    }
    await check("transformers.js in WebAssembly", browser, address, (runner) => checkTransformers(runner, "wasm"));
    await check("transformers.js on WebGPU", browser, address, (runner) => checkTransformers(runner, "webgpu"));
    await check("WebLLM up to loading", browser, address, checkWebLlm);
    await check("models with faults", browser, address, checkFaults);
    await check("reload while a model writes", browser, address, checkReload);
    await check("full storage", browser, address, checkQuota);
  });
  await withPages({ folders: { "/models/": models }, hasWebGpu: false }, async (browser, address) => {
    await check("no WebGPU", browser, address, checkNoWebGpu);
  });
  await withPages({ folders: { "/models/": models }, hasRuntimes: false }, async (browser, address) => {
    await check("no runtimes", browser, address, checkNoRuntimes);
  });
  await withPages({ folders: { "/models/": models }, isIsolated: false }, async (browser, address) => {
    await check("no isolation", browser, address, checkNotIsolated);
  });
} finally {
  await rm(place, { recursive: true, force: true });
}

async function writeModels() {
  await copyFile(gguf, join(place, "good.gguf"));
  await copyFile(bytesGguf ?? gguf, join(place, "bytes.gguf"));
  await copyFile(gguf, join(place, "short.gguf"));
  await truncate(join(place, "short.gguf"), Math.floor((await readFile(gguf)).length / 2));
  await writeFile(join(place, "words.gguf"), "no model");
  for (const name of ["onnx", "short-onnx"]) {
    await writeOnnxModel(join(place, name));
  }
  await truncate(join(place, "short-onnx/onnx/model.onnx"), 100_000);
  await writeMlcModel(join(place, "mlc"));
  return place;
}

/** A server that stops in the middle of a file. */
function breakOff(response, headers) {
  response.writeHead(200, { ...headers, "Content-Length": 1_000_000 });
  response.write("GGUF", () => response.destroy());
}

async function check(what, browser, address, test) {
  const runner = await openRunner(browser, address);
  await test(runner);
  await runner.page.close();
  console.log(`${what}: good`);
}

async function checkWllama({ page, run }) {
  const loaded = await run({ ...WLLAMA, maxTokens: 0 });
  assert.equal(last(loaded).type, "done", JSON.stringify(last(loaded)));
  assert.equal(ofType(loaded, "token").length, 0);
  const [{ kv, buffers, model }] = ofType(loaded, "loaded");
  assert.equal(kv.preallocated, true);
  assert.equal(kv.cells, 256);
  assert.equal(kv.bytes, kv.cells * kv.bytes_per_token);
  assert.ok(buffers.some(({ kind, bytes }) => kind === "weight" && bytes > 0));
  assert.ok(model.layers > 0);

  const events = await run({ ...WLLAMA, maxTokens: 8 });
  checkRun(events, 8);
  checkTimes(events);
  const { wasm_bytes } = last(ofType(events, "sample"));
  assert.ok(wasm_bytes > buffers.reduce((sum, { bytes }) => sum + bytes, 0), "the memory holds what the runtime allocated");
  const written = ofType(events, "token")
    .map((token) => token.text)
    .join("");
  if (text !== undefined) {
    assert.equal(written, text);
  }
  const again = await run({ ...WLLAMA, maxTokens: 8 });
  assert.equal(
    ofType(again, "token")
      .map((token) => token.text)
      .join(""),
    written,
    "the same prompt gives the same text",
  );
  await checkStop(page, run, { ...WLLAMA, maxTokens: 200 });
  await page.evaluate(() => window.dwellUnload());
  assert.equal(await page.evaluate(() => window.dwellHooks.snapshot().wasmBytes), 0);
}

/**
 * wllama hands over a token after the one that follows it was computed: each token has an earlier time than that. The sample at a
 * token is taken when it is handed over.
 */
function checkTimes(events) {
  const times = ofType(events, "token").map(({ t_ms }) => t_ms);
  const samples = ofType(events, "sample");
  const handedOver = times.map((_, index) => samples.find(({ tokens }) => tokens === index + 1).t_ms);
  for (const [index, time] of times.entries()) {
    assert.ok(time < handedOver[index] && time > (times[index - 1] ?? 0), `token ${index}: ${time}, ${handedOver[index]}`);
    assert.ok(index === 0 || time <= handedOver[index - 1], `token ${index} was there when the one before it was handed over`);
  }
}

/** Such a result is lost inside wllama; the run goes on, and its tokens are counted. */
async function checkBytes({ run }) {
  const events = await run({ ...WLLAMA, model: { name: "bytes", url: "models/bytes.gguf" }, maxTokens: 48 });
  checkRun(events, 48);
  const texts = ofType(events, "token").map((token) => token.text);
  assert.ok(texts.includes("\uFFFD") && texts.some((each) => /^[ \w]+$/.test(each)), JSON.stringify(texts));
}

/** What holds for every run that ends well. */
function checkRun(events, maxTokens) {
  const done = last(events);
  assert.equal(done.type, "done", JSON.stringify(done));
  assert.equal(done.reason, "length");
  assert.equal(done.usage.completion_tokens, maxTokens);
  const tokens = ofType(events, "token");
  assert.deepEqual(
    tokens.map(({ index }) => index),
    [...Array(maxTokens).keys()],
  );
  const [prompt] = ofType(events, "prompt");
  assert.equal(prompt.tokens, done.usage.prompt_tokens);
  const times = events.map(({ t_ms }) => t_ms);
  assert.ok(
    ofType(events, "sample").every(({ t_ms }, at, all) => at === 0 || t_ms >= all[at - 1].t_ms),
    "samples are in order",
  );
  assert.ok(Math.max(...times) - Math.min(...times) < 600_000 && Math.min(...times) > 1.7e12, "times are of the wall clock");
  assert.deepEqual(
    ofType(events, "sample")
      .map(({ tokens: count }) => count)
      .at(-1),
    maxTokens,
  );
}

/** The page hears of a stop while the model writes, and a sample is taken in between. */
async function checkStop(page, run, job) {
  await page.evaluate(() => {
    const report = window.dwellReport;
    window.dwellReport = (text) => {
      report(text);
      if (JSON.parse(text).type === "token") {
        window.dwellReport = report;
        setTimeout(() => window.dwellStop());
      }
    };
  });
  const events = await run(job);
  assert.equal(last(events).reason, "aborted", JSON.stringify(last(events)));
  assert.ok(ofType(events, "token").length < job.maxTokens);
}

async function checkTransformers({ page, run }, device) {
  const job = { runtime: "transformers_js", model: { name: "onnx", url: "models/onnx/" }, device, maxTokens: 40 };
  const events = await run(job);
  checkRun(events, 40);
  const [{ kv, buffers }] = ofType(events, "loaded");
  assert.equal(kv.preallocated, false);
  assert.equal(kv.bytes_per_token, KV_BYTES_PER_TOKEN);
  const { prompt_tokens } = last(events).usage;
  assert.equal(prompt_tokens, "Once upon a time".length);
  const samples = ofType(events, "sample");
  for (const [index] of ofType(events, "token").entries()) {
    // The token that has just been written is not in the cache: the run that reads it puts it there.
    const at = samples.filter(({ tokens }) => tokens === index + 1)[0];
    assert.equal(at.kv_bytes, (prompt_tokens + index) * KV_BYTES_PER_TOKEN, `after token ${index}`);
  }
  if (device === "webgpu") {
    checkGpuOf(samples, buffers, prompt_tokens);
  }
  await checkStop(page, run, { ...job, maxTokens: 2000 });
  await page.evaluate(() => window.dwellUnload());
  assert.equal(await page.evaluate(() => window.dwellHooks.snapshot().gpuBytes), 0);
}

/** Weights are exact; buffers of the cache are at least as large as its tensors, because ONNX Runtime takes sizes from a list. */
function checkGpuOf(samples, buffers, promptTokens) {
  const { layers, heads, kvHeads, headLength, width, vocabulary } = SHAPE;
  const weights = 4 * (2 * vocabulary * width + layers * (2 * width * heads * headLength + 2 * width * kvHeads * headLength));
  assert.equal(buffers.find(({ kind }) => kind === "weight").bytes, weights);
  const caches = samples.filter(({ kv_bytes }) => kv_bytes > 0);
  for (const { gpu, kv_bytes } of caches) {
    assert.ok(gpu.kv_cache >= kv_bytes && gpu.weight === weights, JSON.stringify(gpu));
  }
  assert.ok(caches.at(-1).gpu.kv_cache > caches[0].gpu.kv_cache, "graphics memory of the cache grows");
  assert.ok(caches.length >= 40 && promptTokens > 0);
}

/** The library has no code: that it was instantiated shows that WebLLM got the configuration and the library of the folder. */
async function checkWebLlm({ run }) {
  const events = await run({ runtime: "webllm", model: { name: "mlc", url: "models/mlc/" } });
  const error = last(events);
  assert.equal(error.type, "error");
  assert.equal(error.stage, "model");
  assert.match(error.message, /WebLLM could not load mlc: .*(buffer|memory|export)/);
  assert.match(error.hint, /library/);
  const missing = last(await run({ runtime: "webllm", model: { name: "onnx", url: "models/onnx/" } }));
  assert.match(missing.message, /onnx has no mlc-chat-config.json/);
  const unknown = last(await run({ runtime: "webllm", model: { name: "Nothing", url: "", id: "Nothing" } }));
  assert.match(unknown.message, /no model Nothing in its list/);
}

async function checkFaults({ run }) {
  const cases = [
    [{ runtime: "wllama", model: { name: "none", url: "models/none.gguf" } }, "model", /answered 404/],
    [{ runtime: "wllama", model: { name: "short", url: "models/short.gguf" } }, "model", /could not load short/],
    [{ runtime: "wllama", model: { name: "broken", url: "models/broken.gguf" } }, "model", /could not reach|broke off/],
    [{ runtime: "wllama", model: { name: "words", url: "models/words.gguf" } }, "model", /is not a GGUF file/],
    [{ runtime: "transformers_js", model: { name: "none", url: "models/none/" } }, "model", /none has no config.json/],
    [{ runtime: "transformers_js", model: { name: "mlc", url: "models/mlc/" } }, "model", /has no config.json/],
    [{ runtime: "transformers_js", model: { name: "short", url: "models/short-onnx/" } }, "model", /could not load short/],
    [{ runtime: "none", model: { name: "none", url: "none" } }, "runtime", /there is no runtime none/],
  ];
  for (const [job, stage, message] of cases) {
    const error = last(await run(job));
    assert.equal(error.type, "error", JSON.stringify(job));
    assert.equal(error.stage, stage, JSON.stringify(error));
    assert.match(error.message, message);
    assert.ok(error.hint, `${error.message} has no hint`);
  }
  // A page that has failed can still run.
  assert.equal(last(await run({ ...WLLAMA, threads: 1 })).type, "done");
}

/** Nothing of the first run is left, and the page can run again. */
async function checkReload({ page, run }) {
  const events = run({ ...WLLAMA, maxTokens: 200 }).catch((error) => error);
  await page.waitForFunction(() => window.dwellHooks.snapshot().wasmBytes > 0);
  await page.reload();
  assert.match(String(await events), /context was destroyed|navigation/);
  await page.waitForFunction(() => window.dwellRun !== undefined);
  assert.equal(await page.evaluate(() => window.dwellHooks.snapshot().wasmBytes), 0);
  checkRun(await run({ ...WLLAMA, maxTokens: 3 }), 3);
}

async function checkQuota({ page, run }) {
  const session = await page.context().newCDPSession(page);
  await session.send("Storage.overrideQuotaForOrigin", { origin: new URL(page.url()).origin, quotaSize: 1 });
  const error = last(await run({ runtime: "webllm", model: { name: "mlc2", url: "models/mlc/" } }));
  assert.equal(error.stage, "quota", JSON.stringify(error));
  await session.send("Storage.overrideQuotaForOrigin", { origin: new URL(page.url()).origin });
}

async function checkNoWebGpu({ run }) {
  for (const job of [
    { runtime: "webllm", model: { name: "mlc", url: "models/mlc/" } },
    { runtime: "transformers_js", model: { name: "onnx", url: "models/onnx/" }, device: "webgpu" },
  ]) {
    const error = last(await run(job));
    assert.equal(error.stage, "webgpu", JSON.stringify(error));
    assert.match(error.message, /needs WebGPU/);
  }
  checkRun(await run({ runtime: "transformers_js", model: { name: "onnx", url: "models/onnx/" }, maxTokens: 3 }), 3);
}

async function checkNoRuntimes({ run }) {
  for (const runtime of ["wllama", "transformers_js"]) {
    const error = last(await run({ runtime, model: { name: "good", url: "models/good.gguf" } }));
    assert.equal(error.stage, "runtime", JSON.stringify(error));
    assert.match(error.message, /could not load/);
  }
}

async function checkNotIsolated({ page, run }) {
  assert.equal(await page.evaluate(() => crossOriginIsolated), false);
  const { threads: _, ...job } = WLLAMA;
  const events = await run({ ...job, maxTokens: 3 });
  checkRun(events, 3);
  assert.ok(ofType(events, "sample").every(({ ua_memory_bytes }) => ua_memory_bytes === undefined));
}
