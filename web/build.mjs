// Makes the pages and the module of dwell's browser runtimes, in dist or in the folder that is named. The same sources give the same
// bytes.

import { copyFile, mkdir, readdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { writeDeclarations } from "./declarations.mjs";

const root = fileURLToPath(new URL(".", import.meta.url));
const outdir = process.argv[2] ?? join(root, "dist");

const COMMON = { absWorkingDir: root, bundle: true, minify: true, target: "es2022", charset: "utf8", legalComments: "none" };
/** Modules and styles by the name of what they give; the runtimes themselves are fetched and are part of none. */
const MODULES = { run: "src/run.ts", page: "src/page/main.ts" };
const STYLES = { page: "src/page/page.css" };
const MOST_BYTES = 200_000;

await mkdir(outdir, { recursive: true });
const script = await hooks();
await writeFile(join(outdir, "hooks.js"), script);
await build({ ...COMMON, entryPoints: MODULES, outdir, format: "esm" });
await build({ ...COMMON, entryPoints: STYLES, outdir });
// Pages of other people import one file, so it brings the hooks, which then run before what is imported after it.
await build({ ...COMMON, entryPoints: { "dwell-web": "src/index.ts" }, outdir, format: "esm", banner: { js: script } });
for (const name of await readdir(join(root, "static"))) {
  await copyFile(join(root, "static", name), join(outdir, name));
}
await writeDeclarations(join(outdir, "dwell-web.d.ts"));
await checkSize();

/** A script that holds its own source, because workers need it too: `toString` of the function around it. */
async function hooks() {
  const { outputFiles } = await build({ ...COMMON, entryPoints: ["src/hooks/main.ts"], format: "iife", write: false });
  return `(function dwellHooksScript(){const dwellHooksSource="("+dwellHooksScript+")();";${outputFiles[0].text.trim()}})();\n`;
}

async function checkSize() {
  let bytes = 0;
  for (const name of await readdir(outdir)) {
    bytes += (await stat(join(outdir, name))).size;
  }
  if (bytes > MOST_BYTES) {
    throw new Error(`the pages have ${bytes} bytes, and at most ${MOST_BYTES} are allowed`);
  }
}
