/** The runtimes, by name. */

import type { EngineKind, Runtime } from "./engine.ts";
import { transformersJs } from "./transformers_js.ts";
import { wllama } from "./wllama.ts";

export const ENGINES: Partial<Record<Runtime, EngineKind>> = { wllama, transformers_js: transformersJs };
