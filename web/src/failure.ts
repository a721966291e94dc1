/** Why a run could not go on: where it failed, what was found, and what a person can do. */

export const STAGES = ["runtime", "webgpu", "model", "load", "generate", "quota"] as const;
export type Stage = (typeof STAGES)[number];

export const STORAGE_HINT = "free disk space, or remove this site's data in the browser's settings";

/** Why something could not be done, and what helps. */
export class Failure extends Error {
  readonly stage: Stage;
  readonly hint: string | undefined;

  constructor(stage: Stage, message: string, hint?: string) {
    super(message);
    this.name = "Failure";
    this.stage = stage;
    this.hint = hint;
  }
}

/** What was thrown at a stage, as a failure of that stage. Storage that is full can show at any of them. */
export function failureFrom(thrown: unknown, stage: Stage): Failure {
  if (thrown instanceof Failure) {
    return thrown;
  }
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  const name = thrown instanceof Error || thrown instanceof DOMException ? thrown.name : "";
  if (name === "QuotaExceededError" || /quota/i.test(message)) {
    return new Failure("quota", `the browser's storage is full: ${message}`, STORAGE_HINT);
  }
  if (thrown instanceof RangeError || /out of memory|could not allocate|cannot allocate/i.test(message)) {
    return new Failure(stage, `memory ran out: ${message}`, "choose a smaller model or a shorter context");
  }
  return new Failure(stage, message);
}
