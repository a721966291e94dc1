import assert from "node:assert/strict";
import { mock, test } from "node:test";

import { Poller, retryDelay } from "./poller.ts";

/** Lets promises that are settled be heard. */
async function settled(): Promise<void> {
  for (let turn = 0; turn < 10; turn += 1) {
    await Promise.resolve();
  }
}

test("attempts become ever more seldom, up to half a minute", () => {
  assert.deepEqual([1, 2, 3, 4, 5, 6, 7].map(retryDelay), [1, 2, 4, 8, 16, 30, 30]);
});

test("it asks again after the time that an answer names, and after failures", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const answers: (number | Error | null)[] = [2, new Error("gone"), new Error("gone"), 5, null];
  const heard: string[] = [];
  const poller = new Poller({
    ask: () => {
      const answer = answers.shift() ?? null;
      heard.push("asked");
      return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
    },
    isRetried: () => true,
    failed: (_, retry_s) => heard.push(`retry in ${retry_s}`),
  });
  await poller.now();
  for (const seconds of [2, 1, 2, 5, 100]) {
    mock.timers.tick(seconds * 1000);
    await settled();
  }
  assert.deepEqual(heard, ["asked", "asked", "retry in 1", "asked", "retry in 2", "asked", "asked"]);
  mock.timers.reset();
});

test("an answer that comes too late is not heard, nor is its failure", async () => {
  let fail: (error: Error) => void = () => undefined;
  const failures: unknown[] = [];
  const poller = new Poller({
    ask: () => new Promise((_, reject) => (fail = reject)),
    isRetried: () => true,
    failed: (error) => failures.push(error),
  });
  const first = poller.now();
  poller.stop();
  fail(new Error("aborted"));
  await first;
  assert.deepEqual(failures, []);
});

test("what cannot be helped is not tried again", async () => {
  let retry: number | null = 1;
  const poller = new Poller({
    ask: () => Promise.reject(new Error("no such run")),
    isRetried: () => false,
    failed: (_, retry_s) => (retry = retry_s),
  });
  await poller.now();
  assert.equal(retry, null);
});
