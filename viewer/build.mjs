// Makes report.js and report.css, which dwell embeds into every report, in dist or in the folder that is named. The same
// sources give the same bytes.

import { stat } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const MOST_BYTES = 300_000;
const outdir = process.argv[2] ?? "dist";

const { metafile } = await build({
  absWorkingDir: fileURLToPath(new URL(".", import.meta.url)),
  entryPoints: ["src/main.ts", "src/report.css"],
  entryNames: "report",
  outdir,
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  metafile: true,
});

let bytes = 0;
for (const file of Object.keys(metafile.outputs)) {
  const { size } = await stat(new URL(file, import.meta.url));
  console.log(`${file} ${size} bytes`);
  bytes += size;
}
if (bytes > MOST_BYTES) {
  throw new Error(`dist has ${bytes} bytes; every report carries them, so at most ${MOST_BYTES} are allowed`);
}
