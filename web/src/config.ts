/** What the server says of itself in `config.json`, beside the page; a static server need not have it. */

import type { ModelSource, Runtime } from "./engines/engine.ts";
import type { RuntimeUrls } from "./session.ts";

export interface OfferedModel {
  name: string;
  runtime: Runtime;
  url: string;
  bytes?: number;
  /** Of a model that is a folder. */
  files?: { path: string; bytes: number }[];
}

export interface Config {
  runtimes: Partial<RuntimeUrls>;
  models: OfferedModel[];
}

export const RUNTIME_FOLDERS: RuntimeUrls = {
  wllama: "runtimes/wllama/",
  transformers_js: "runtimes/transformers_js/",
  webllm: "runtimes/webllm/",
  onnxruntime_web: "runtimes/onnxruntime_web/",
};

export async function readConfig(): Promise<Config> {
  try {
    const response = await fetch("config.json");
    const { runtimes = {}, models = [] } = response.ok ? ((await response.json()) as Partial<Config>) : {};
    return { runtimes, models };
  } catch {
    return { runtimes: {}, models: [] };
  }
}

/** A model as runtimes take it: the library of one for WebLLM is the module in its folder. */
export function sourceOf({ name, url, files }: OfferedModel): ModelSource {
  const library = files?.find(({ path }) => path.endsWith(".wasm"))?.path;
  return { name, url, ...(library !== undefined && { library: new URL(library, new URL(url, location.href)).href }) };
}

/** Absolute addresses of all runtimes: those of the configuration, else the folders beside the page. */
export function runtimeUrls({ runtimes }: Config): RuntimeUrls {
  const absolute = (name: keyof RuntimeUrls): string => new URL(runtimes[name] ?? RUNTIME_FOLDERS[name], location.href).href;
  return {
    wllama: absolute("wllama"),
    transformers_js: absolute("transformers_js"),
    webllm: absolute("webllm"),
    onnxruntime_web: absolute("onnxruntime_web"),
  };
}
