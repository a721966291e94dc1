// Bundles every *.test.ts (node 20 does not run TypeScript) and runs them with node's own test runner: node test/unit.mjs [FOLDER]
//
// FOLDER has the sources in src; without it, that of the viewer.

import { spawnSync } from "node:child_process";
import { readdirSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = resolve(process.argv[2] ?? fileURLToPath(new URL("..", import.meta.url)));
const out = join(root, ".test");

function testsIn(folder) {
  return readdirSync(folder, { recursive: true })
    .filter((name) => name.endsWith(".test.ts"))
    .map((name) => join(folder, name));
}

rmSync(out, { recursive: true, force: true });
await build({
  entryPoints: testsIn(join(root, "src")),
  outdir: out,
  outExtension: { ".js": ".mjs" },
  bundle: true,
  platform: "node",
  format: "esm",
  logLevel: "warning",
});
const { status } = spawnSync(process.execPath, ["--test", out], { stdio: "inherit" });
process.exit(status ?? 1);
