// Makes report.html from the JSON of a page, as dwell does: node test/make_html.mjs PAGE.json OUT.html [--gzip]

import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";

const dist = new URL("../dist/", import.meta.url);

/** The document with its content security policy. */
export async function makeHtml(json, { gzip = false } = {}) {
  const [script, style] = await Promise.all(["report.js", "report.css"].map((name) => readFile(new URL(name, dist), "utf8")));
  const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
  const policy = `default-src 'none'; script-src ${hash(script)}; style-src ${hash(style)}; img-src data: blob:`;
  const title = JSON.parse(json).title.replace(/[&<>"]/g, (character) => `&#${character.codePointAt(0)};`);
  const data = gzip
    ? `<script type="application/gzip;base64" id="page">${gzipSync(json).toString("base64")}</script>`
    : `<script type="application/json" id="page">${json.replaceAll("<", "\\u003c")}</script>`;
  return (
    `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">` +
    `<meta http-equiv="Content-Security-Policy" content="${policy}"><title>${title}</title><style>${style}</style></head>` +
    `<body><main id="dwell"></main>${data}<script>${script}</script></body></html>\n`
  );
}

if (process.argv[1] === import.meta.filename) {
  const [from, to] = process.argv.slice(2);
  await writeFile(to, await makeHtml(await readFile(from, "utf8"), { gzip: process.argv.includes("--gzip") }));
}
