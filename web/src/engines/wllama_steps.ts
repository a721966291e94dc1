/**
 * When wllama's tokens were computed.
 *
 * Each time wllama asks its worker for a result, llama.cpp computes one step, and the worker hands over the oldest result that
 * waits. The first step gives two results, the beginning of the answer and the first token. From then on every token is handed over
 * while the one after it is computed, until llama.cpp holds back part of a character. The ends of the steps say when each token was
 * really there.
 */

import type { GlueAction, Wllama } from "./wllama_types.ts";

const STEP_ACTION = "get_result";

export class TokenSteps {
  #begin: number | undefined;
  readonly #ends: number[] = [];
  #firstStep: number | undefined;

  /** A step was asked for. */
  begin(t_ms: number): void {
    this.#begin ??= t_ms;
  }

  /** The answer to it has come. */
  end(t_ms: number): void {
    this.#ends.push(t_ms);
  }

  /** The prompt took so long, as llama.cpp says with the first token that is handed over. */
  promptTook(promptMs: number): void {
    const begin = this.#begin ?? Infinity;
    // No step that ended before the prompt can have been computed gave a token.
    this.#firstStep ??= this.#ends.findIndex((end) => end >= begin + promptMs);
  }

  /** When token `index` was computed; undefined if no steps were seen. */
  timeOf(index: number): number | undefined {
    const first = this.#firstStep ?? -1;
    return first < 0 ? undefined : (this.#ends[first + index] ?? this.#ends.at(-1));
  }
}

/** What the worker says of a step whose result cannot be passed on, and the next step can be asked for. */
const NOTHING_YET = { success: true, has_more: true, data_json: "", is_error: false };

export interface StepWatcher {
  now: () => number;
  /** Whether the result of a step was lost and nothing else is wrong. */
  isLost: (error: unknown) => boolean;
}

/** Notes the steps of a request until the function that is returned is called. Nothing is noted of a wllama that has no such worker. */
export function watchSteps(runtime: Wllama, steps: TokenSteps, { now, isLost }: StepWatcher): () => void {
  const { proxy } = runtime;
  const action = proxy?.wllamaAction;
  if (!proxy || typeof action !== "function") {
    return () => {};
  }
  const watched: GlueAction = async (name, body) => {
    if (name !== STEP_ACTION) {
      return action.call(proxy, name, body);
    }
    steps.begin(now());
    const answer = action.call(proxy, name, body).finally(() => steps.end(now()));
    return answer.catch((error: unknown) => {
      if (isLost(error)) {
        return NOTHING_YET;
      }
      throw error;
    });
  };
  proxy.wllamaAction = watched;
  return () => {
    proxy.wllamaAction = action;
  };
}
