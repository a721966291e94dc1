/** What WebLLM tells while it generates. */

import type { Generated, GenerateOptions } from "./engine.ts";
import type { WebLlmChunk } from "./webllm_types.ts";

/** One chunk for each token, except inside a character; the usage at the end counts those as well. */
export class ChunkStream {
  readonly #options: GenerateOptions;
  #told = 0;
  #usage: WebLlmChunk["usage"];
  #reason: string | null | undefined;

  constructor(options: GenerateOptions) {
    this.#options = options;
  }

  take({ choices, usage }: WebLlmChunk): void {
    const [choice] = choices;
    this.#reason = choice?.finish_reason ?? this.#reason;
    if (choice && !choice.finish_reason) {
      this.#tell(choice.text ?? choice.delta?.content ?? "");
    }
    if (usage) {
      this.#usage = usage;
      this.#options.onPrompt({ tokens: usage.prompt_tokens });
      const generated = this.#generated(usage.completion_tokens);
      while (this.#told < generated) {
        this.#tell("");
      }
    }
  }

  end(): Generated {
    const { prompt_tokens = 0, completion_tokens: decoded, extra = {} } = this.#usage ?? {};
    const { prefill_tokens_per_s: prefill, decode_tokens_per_s: decode } = extra;
    return {
      reason: this.#options.signal.aborted ? "aborted" : this.#reason === "length" ? "length" : "stop",
      usage: { prompt_tokens, completion_tokens: decoded === undefined ? this.#told : this.#generated(decoded) },
      timings: {
        ...(prefill && { prompt_ms: (1000 * prompt_tokens) / prefill }),
        ...(decode && decoded !== undefined && { predicted_ms: (1000 * decoded) / decode }),
      },
    };
  }

  /** WebLLM counts the tokens of its decode steps: the first one comes from the prompt and is not among them. */
  #generated(decoded: number): number {
    return this.#told > 0 || decoded > 0 ? decoded + 1 : 0;
  }

  #tell(text: string): void {
    this.#told++;
    this.#options.onToken({ text });
  }
}
