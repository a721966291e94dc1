// Makes what dwell embeds, in dist or in the folder that is named: report.js and report.css for every report, view.js and view.css
// for `dwell view`. The same sources give the same bytes.

import { stat } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const outdir = process.argv[2] ?? "dist";

/** Every report carries its bundle, so it stays small; that of the view is sent once. */
const BUNDLES = [
  { name: "report", entryPoints: ["src/main.ts", "src/report.css"], mostBytes: 125_000 },
  { name: "view", entryPoints: ["src/view/main.ts", "src/view/view.css"], mostBytes: 200_000 },
];
/** Sources that only the view needs. */
const ONLY_VIEW = /^src\/view\/|flechette/;

for (const { name, entryPoints, mostBytes } of BUNDLES) {
  const { metafile } = await build({
    absWorkingDir: fileURLToPath(new URL(".", import.meta.url)),
    entryPoints,
    entryNames: name,
    outdir,
    bundle: true,
    minify: true,
    format: "iife",
    target: "es2022",
    charset: "utf8",
    legalComments: "none",
    metafile: true,
  });
  const strangers = name === "report" ? Object.keys(metafile.inputs).filter((input) => ONLY_VIEW.test(input)) : [];
  if (strangers.length > 0) {
    throw new Error(`reports would carry what only the view needs: ${strangers.join(", ")}`);
  }
  await checkSize(name, Object.keys(metafile.outputs), mostBytes);
}

async function checkSize(name, files, mostBytes) {
  let bytes = 0;
  for (const file of files) {
    const { size } = await stat(new URL(file, import.meta.url));
    console.log(`${file} ${size} bytes`);
    bytes += size;
  }
  if (bytes > mostBytes) {
    throw new Error(`the bundle of ${name} has ${bytes} bytes, and at most ${mostBytes} are allowed`);
  }
}
