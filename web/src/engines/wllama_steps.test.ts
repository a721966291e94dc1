import assert from "node:assert/strict";
import test from "node:test";
import { TokenSteps, watchSteps } from "./wllama_steps.ts";

/** Steps that begin at 100 ms and end at these times. */
function stepsEnding(...ends: number[]): TokenSteps {
  const steps = new TokenSteps();
  for (const end of ends) {
    steps.begin(100);
    steps.end(end);
  }
  return steps;
}

test("a token that waited for the next step was computed one step before", () => {
  // The first step computes the prompt, of 50 ms, and the first token, which the second step hands over.
  const steps = stepsEnding(151, 161);
  assert.equal(steps.timeOf(0), undefined);
  steps.promptTook(50);
  assert.equal(steps.timeOf(0), 151);
  steps.end(171);
  assert.deepEqual([steps.timeOf(1), steps.timeOf(2)], [161, 171]);
  assert.equal(steps.timeOf(7), 171, "what nobody can have computed is not later than now");
});

test("a prompt of several steps leaves nothing to wait", () => {
  // Two steps of 30 ms for the prompt; the second one hands over the token that it computed.
  const steps = stepsEnding(130, 161);
  steps.promptTook(60);
  assert.equal(steps.timeOf(0), 161);
});

test("tokens that were held back were computed in the steps before", () => {
  // Nothing waits once part of a character was held back: the third token is handed over by its own step.
  const steps = stepsEnding(151, 161, 171);
  steps.promptTook(50);
  assert.deepEqual([steps.timeOf(0), steps.timeOf(1), steps.timeOf(2)], [151, 161, 171]);
});

function proxyThat(answer: (name: string) => Promise<unknown>) {
  const proxy = { wllamaAction: answer };
  return { proxy, runtime: { proxy } as never };
}

test("calls of the worker are watched until the end, and no others", async () => {
  const calls: string[] = [];
  const { proxy, runtime } = proxyThat((name) => Promise.resolve(calls.push(name)));
  const original = proxy.wllamaAction;
  const steps = new TokenSteps();
  let time = 100;
  const stop = watchSteps(runtime, steps, { now: () => (time += 10), isLost: () => false });
  await proxy.wllamaAction("completion");
  await proxy.wllamaAction("get_result");
  steps.promptTook(5);
  assert.deepEqual([calls, steps.timeOf(0)], [["completion", "get_result"], 120]);
  stop();
  assert.equal(proxy.wllamaAction, original);
  assert.equal(typeof watchSteps({} as never, steps, { now: () => 0, isLost: () => false }), "function");
});

test("a lost result is a step without one, and every other error is thrown", async () => {
  const steps = new TokenSteps();
  const { proxy, runtime } = proxyThat(() => Promise.reject(new Error("lost")));
  let isLost = true;
  watchSteps(runtime, steps, { now: () => 100, isLost: (error) => isLost && String(error).includes("lost") });
  assert.deepEqual(await proxy.wllamaAction("get_result"), { success: true, has_more: true, data_json: "", is_error: false });
  steps.promptTook(0);
  assert.equal(steps.timeOf(0), 100);
  isLost = false;
  await assert.rejects(proxy.wllamaAction("get_result"), /lost/);
  isLost = true;
  await assert.rejects(proxy.wllamaAction("completion"), /lost/);
});
