// A page that allocates known amounts at known times: node test/known_truth.mjs
//
// JavaScript heap, WebAssembly memories of the page and of workers, and WebGPU buffers and textures must come back with their exact
// size within one sampling interval.

import assert from "node:assert/strict";
import { PATIENCE_MS } from "../../viewer/test/chromium.mjs";
import { withPages } from "./pages.mjs";

const INTERVAL_MS = 50;
const MIB = 1024 * 1024;
/** Chromium reads the size of the heap anew after 50 ms, and not before. */
const HEAP_AGE_MS = 60;
/** V8 collects and allocates meanwhile. */
const HEAP_SLACK = 2 * MIB;

/** A worker that makes what it is asked for, and says when it has. */
const WORKER = `
  const kept = [];
  onmessage = ({ data: { pages, isShared, grow } }) => {
    if (grow) kept.at(-1).grow(grow);
    else kept.push(new WebAssembly.Memory({ initial: pages, maximum: 1000, shared: isShared }));
    postMessage("done");
  };`;
const BLANK = '<!doctype html><title>truth</title><link rel="icon" href="data:,"><script src="hooks.js"></script>';

await withPages(
  { texts: { "/truth.html": BLANK, "/worker.js": `importScripts("hooks.js");${WORKER}` } },
  async (browser, address) => {
    const page = await browser.newPage();
    page.setDefaultTimeout(PATIENCE_MS);
    await page.goto(`${address}truth.html`);
    await page.evaluate(prepare, { intervalMs: INTERVAL_MS, worker: WORKER });
    await checkWasm(page);
    await checkWorkers(page);
    await checkGpu(page);
    await checkHeap(page);
    console.log("known truth: good");
  },
);

/** Runs in the page: samples all the time, and notes when each step was done. */
async function prepare({ intervalMs, worker }) {
  const { Sampler } = await import("./dwell-web.js");
  const samples = [];
  let wake = () => {};
  const sampler = new Sampler({
    intervalMs,
    tokens: () => 0,
    onSample: (sample) => {
      samples.push(sample);
      wake();
    },
  });
  sampler.start();
  const now = () => performance.timeOrigin + performance.now();
  const sampledAfter = async (time) => {
    while (!(samples.at(-1)?.t_ms > time)) {
      await new Promise((resolve) => (wake = resolve));
    }
  };
  window.kept = {};
  window.blobWorker = (type) =>
    new Worker(URL.createObjectURL(new Blob([worker], { type: "text/javascript" })), type === "module" ? { type } : undefined);
  window.ask = (target, message) =>
    new Promise((resolve) => {
      target.onmessage = ({ data }) => resolve(data);
      target.postMessage(message);
    });
  /** The sample before a step, and the first one that is later than it by an age that values may have. */
  window.step = async (act, age_ms) => {
    const before = now();
    await sampledAfter(before);
    const begin = samples.at(-1);
    await act();
    const done = now() + age_ms;
    await sampledAfter(done);
    return { begin, end: samples.find(({ t_ms }) => t_ms > done) };
  };
}

async function grown(page, what, field, act, argument, age_ms = 0) {
  const { begin, end } = await page.evaluate(
    ([code, given, age]) => window.step(() => new Function("given", `return (${code})(given)`)(given), age),
    [act.toString(), argument, age_ms],
  );
  const value = (sample) => field.split(".").reduce((part, name) => part[name], sample);
  console.log(`${what}: ${value(end) - value(begin)} bytes`);
  return value(end) - value(begin);
}

async function checkWasm(page) {
  const memory = (given) => void (window.kept.memory = new WebAssembly.Memory({ initial: given }));
  assert.equal(await grown(page, "new memory", "wasm_bytes", memory, 160), 160 * 65536);
  assert.equal(await grown(page, "growth", "wasm_bytes", () => void window.kept.memory.grow(32), null), 32 * 65536);
  // (module (memory (export "m") 7))
  const bytes = [0, 97, 115, 109, 1, 0, 0, 0, 5, 3, 1, 0, 7, 7, 5, 1, 1, 109, 2, 0];
  const instance = async (given) => void (window.kept.instance = await WebAssembly.instantiate(new Uint8Array(given)));
  assert.equal(await grown(page, "exported memory", "wasm_bytes", instance, bytes), 7 * 65536);
}

/** Workers are heard within an interval after they say that they are done. */
async function checkWorkers(page) {
  for (const kind of ["classic", "module", "by address"]) {
    const start = (given) =>
      void (window.kept.worker = given === "by address" ? new Worker("worker.js") : window.blobWorker(given));
    assert.equal(await grown(page, `${kind} worker`, "wasm_bytes", start, kind), 0);
    const ask = (given) => window.ask(window.kept.worker, given);
    const own = await grown(page, "its own memory", "wasm_bytes", ask, { pages: 48, isShared: false });
    assert.equal(own, 48 * 65536, kind);
    const shared = await grown(page, "its shared memory", "wasm_bytes", ask, { pages: 80, isShared: true });
    assert.equal(shared, 80 * 65536, kind);
    assert.equal(await grown(page, "growth of that", "wasm_bytes", ask, { grow: 16 }), 16 * 65536, kind);
    const end = await grown(page, "its end", "wasm_bytes", () => window.kept.worker.terminate(), null);
    assert.equal(end, -(48 + 80 + 16) * 65536, kind);
  }
}

async function checkGpu(page) {
  const device = async () => {
    window.kept.device = await (await navigator.gpu.requestAdapter()).requestDevice();
  };
  assert.equal(await grown(page, "device", "gpu_bytes", device, null), 0);
  const storage = (given) => {
    window.kept.buffer = window.kept.device.createBuffer({
      size: given,
      usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST,
    });
  };
  assert.equal(await grown(page, "storage buffer", "gpu.other", storage, 3 * MIB), 3 * MIB);
  const classify = () => window.dwellHooks.classify(window.kept.buffer, "kv_cache");
  assert.equal(await grown(page, "classified", "gpu.kv_cache", classify, null), 3 * MIB);
  const weights = () => {
    window.dwellHooks.setPhase("load");
    const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST;
    const written = window.kept.device.createBuffer({ size: 1_000_000, usage });
    window.kept.device.queue.writeBuffer(written, 0, new Uint8Array(1000));
    const staging = window.kept.device.createBuffer({ size: 4096, usage: GPUBufferUsage.COPY_SRC, mappedAtCreation: true });
    staging.unmap();
    const copied = window.kept.device.createBuffer({ size: 500_000, usage });
    const encoder = window.kept.device.createCommandEncoder();
    encoder.copyBufferToBuffer(staging, 0, copied, 0, 4096);
    window.kept.device.queue.submit([encoder.finish()]);
    staging.destroy();
    window.dwellHooks.setPhase("idle");
    window.kept.weights = [written, copied];
  };
  assert.equal(await grown(page, "weights", "gpu.weight", weights, null), 1_500_000);
  const labelled = () => {
    window.kept.cache = window.kept.device.createBuffer({ size: 4096, usage: GPUBufferUsage.STORAGE, label: "layer0.kv_cache" });
  };
  assert.equal(await grown(page, "labelled", "gpu.kv_cache", labelled, null), 4096);
  const texture = () => {
    window.kept.texture = window.kept.device.createTexture({
      size: [256, 128],
      format: "rgba8unorm",
      mipLevelCount: 3,
      usage: GPUTextureUsage.TEXTURE_BINDING,
    });
  };
  const texels = 256 * 128 + 128 * 64 + 64 * 32;
  assert.equal(await grown(page, "texture", "gpu.other", texture, null), 4 * texels);
  assert.equal(await grown(page, "destroyed texture", "gpu_bytes", () => window.kept.texture.destroy(), null), -4 * texels);
  assert.equal(await grown(page, "destroyed buffer", "gpu.kv_cache", () => window.kept.buffer.destroy(), null), -3 * MIB);
  assert.equal(await grown(page, "destroyed twice", "gpu_bytes", () => window.kept.buffer.destroy(), null), 0);
  const destroyed = await grown(page, "destroyed device", "gpu_bytes", () => window.kept.device.destroy(), null);
  assert.equal(destroyed, -(1_500_000 + 4096));
}

async function checkHeap(page) {
  const allocate = (given) => void (window.kept.bytes = new Uint8Array(given));
  const bytes = await grown(page, "JavaScript heap", "heap_used_bytes", allocate, 64 * MIB, HEAP_AGE_MS);
  assert.ok(Math.abs(bytes - 64 * MIB) < HEAP_SLACK, `${bytes} of ${64 * MIB} bytes`);
}
