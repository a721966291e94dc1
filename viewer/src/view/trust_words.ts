/** How far a run of the list can be trusted, in words. */

import type { RunEntry } from "./api.ts";

/** What the classes of validity and quality mean to somebody who asks whether a run can be used. */
const VALIDITY_WORDS: Record<string, string> = {
  clean: "undisturbed",
  marginal: "disturbed a little",
  contaminated: "disturbed",
  unknown: "unknown whether disturbed",
};
const QUALITY_WORDS: Record<string, string> = { pass: "trace whole", warn: "trace has small gaps", fail: "trace incomplete" };

export function trustWords({ validity, quality }: Pick<RunEntry, "validity" | "quality">): string | null {
  const words = [
    validity === null ? null : (VALIDITY_WORDS[validity.toLowerCase()] ?? validity),
    quality === null ? null : (QUALITY_WORDS[quality.toLowerCase()] ?? quality),
  ].filter((word) => word !== null);
  return words.length === 0 ? null : words.join(", ");
}
