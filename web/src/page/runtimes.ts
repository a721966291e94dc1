/** What the page says of each runtime, and whether it can be used here. */

import { RUNTIME_FOLDERS } from "../config.ts";
import type { Runtime } from "../engines/engine.ts";
import type { RuntimeUrls } from "../session.ts";

export interface RuntimeCard {
  title: string;
  /** One line for a person who chooses. */
  about: string;
  /** What a model of it is. */
  model: string;
  /** npm package, and the file that shows that it is there. */
  package: string;
  probe: string;
  isFolder: boolean;
  needsWebGpu: boolean;
  /** Devices that the person may choose between. */
  devices: readonly ("wasm" | "webgpu")[];
  /** Whether the length of the context is set when the model loads. */
  hasContext: boolean;
  hasThreads: boolean;
}

export const CARDS: Record<Runtime, RuntimeCard> = {
  wllama: {
    title: "wllama",
    about: "llama.cpp in WebAssembly. Runs any GGUF file on the processor.",
    model: "a GGUF file",
    package: "@wllama/wllama",
    probe: "esm/index.js",
    isFolder: false,
    needsWebGpu: false,
    devices: ["wasm", "webgpu"],
    hasContext: true,
    hasThreads: true,
  },
  transformers_js: {
    title: "transformers.js",
    about: "ONNX models on the processor or the graphics card. Its KV cache grows with each token.",
    model: "a folder with config.json, tokenizer.json and onnx/",
    package: "@huggingface/transformers and onnxruntime-web",
    probe: "dist/transformers.min.js",
    isFolder: true,
    needsWebGpu: false,
    devices: ["wasm", "webgpu"],
    hasContext: false,
    hasThreads: true,
  },
  webllm: {
    title: "WebLLM",
    about: "Models compiled by MLC, on the graphics card only. A folder of your own needs the model's library, a .wasm file.",
    model: "a folder with mlc-chat-config.json, weights and model.wasm, the model's library",
    package: "@mlc-ai/web-llm",
    probe: "lib/index.js",
    isFolder: true,
    needsWebGpu: true,
    devices: ["webgpu"],
    hasContext: true,
    hasThreads: false,
  },
};

export interface Availability {
  isInstalled: boolean;
  hasWebGpu: boolean;
}

/** Looks for each runtime's files, and for a graphics adapter. */
export async function availability(urls: RuntimeUrls): Promise<Record<Runtime, Availability>> {
  const adapter = navigator.gpu?.requestAdapter().catch(() => null) ?? null;
  const hasWebGpu = (await adapter) !== null;
  const names = Object.keys(CARDS) as Runtime[];
  const found = await Promise.all(names.map((name) => isThere(new URL(CARDS[name].probe, urls[name]).href)));
  return Object.fromEntries(names.map((name, at) => [name, { isInstalled: found[at] === true, hasWebGpu }])) as Record<
    Runtime,
    Availability
  >;
}

async function isThere(address: string): Promise<boolean> {
  try {
    const { ok } = await fetch(address, { method: "HEAD" });
    return ok;
  } catch {
    return false;
  }
}

/** What keeps a runtime from being used here, or null. */
export function obstacle(runtime: Runtime, { isInstalled, hasWebGpu }: Availability): string | null {
  const { needsWebGpu, package: packages } = CARDS[runtime];
  if (needsWebGpu && !hasWebGpu) {
    return "Needs WebGPU, which this browser does not offer";
  }
  return isInstalled
    ? null
    : `Not here. Give dwell web a model for it, or put the npm package ${packages} into ${RUNTIME_FOLDERS[runtime]}`;
}
