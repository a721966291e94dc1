// Writes the sample pages of sample.ts as HTML: node test/make_samples.mjs OUT_DIR

import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { makeHtml } from "./make_html.mjs";

const out = process.argv[2];
await mkdir(out, { recursive: true });
const { outputFiles } = await build({
  entryPoints: [join(fileURLToPath(new URL(".", import.meta.url)), "sample.ts")],
  bundle: true,
  format: "esm",
  write: false,
});
const sample = await import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);

const pages = {
  "run.html": [sample.samplePage(sample.REALISTIC), {}],
  "small.html": [sample.samplePage(), { gzip: true }],
  "bare.html": [sample.barePage(), {}],
  "comparison.html": [sample.comparisonPage(sample.REALISTIC), {}],
  "experiment.html": [sample.experimentPage(), {}],
};
for (const [name, [page, options]] of Object.entries(pages)) {
  await writeFile(join(out, name), await makeHtml(JSON.stringify(page), options));
}
