/** The runtimes, by name. */

import type { EngineKind, Runtime } from "./engine.ts";
import { wllama } from "./wllama.ts";

export const ENGINES: Partial<Record<Runtime, EngineKind>> = { wllama };
