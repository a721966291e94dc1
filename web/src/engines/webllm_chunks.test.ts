import assert from "node:assert/strict";
import { test } from "node:test";
import type { GenerateOptions } from "./engine.ts";
import { ChunkStream } from "./webllm_chunks.ts";
import type { WebLlmChunk } from "./webllm_types.ts";

function told(chunks: WebLlmChunk[]) {
  const texts: string[] = [];
  const options = { onPrompt: () => {}, onToken: ({ text }: { text: string }) => texts.push(text), signal: { aborted: false } };
  const stream = new ChunkStream(options as unknown as GenerateOptions);
  chunks.forEach((chunk) => stream.take(chunk));
  return { texts, end: stream.end() };
}

const token = (text: string): WebLlmChunk => ({ choices: [{ text, finish_reason: null }] });
const end: WebLlmChunk = { choices: [{ text: "", finish_reason: "length" }] };
const usage = (completion_tokens: number): WebLlmChunk => ({
  choices: [],
  usage: { prompt_tokens: 4, completion_tokens, extra: { prefill_tokens_per_s: 8, decode_tokens_per_s: 5 } },
});

test("the first token comes from the prompt, and WebLLM does not count it", () => {
  // What WebLLM 0.2.79 tells of three tokens with a library of Qwen2.
  const { texts, end: generated } = told([token(" a"), token(" b"), token(" c"), end, usage(2)]);
  assert.deepEqual(texts, [" a", " b", " c"]);
  assert.deepEqual(generated, {
    reason: "length",
    usage: { prompt_tokens: 4, completion_tokens: 3 },
    timings: { prompt_ms: 500, predicted_ms: 400 },
  });
});

test("tokens inside a character come with the usage, and a request that was ended at once has none", () => {
  assert.deepEqual(told([token("é"), end, usage(2)]).texts, ["é", "", ""]);
  assert.equal(told([end, usage(0)]).end.usage.completion_tokens, 0);
});
