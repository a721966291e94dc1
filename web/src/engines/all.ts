/** The runtimes, by name. */

import type { EngineKind, Runtime } from "./engine.ts";
import { transformersJs } from "./transformers_js.ts";
import { webllm } from "./webllm.ts";
import { wllama } from "./wllama.ts";

export const ENGINES: Record<Runtime, EngineKind> = { wllama, transformers_js: transformersJs, webllm };
