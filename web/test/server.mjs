// A static server with the headers that make a page cross-origin isolated, as `dwell web` sends them; without them on request.

import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";

const TYPES = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".mjs": "text/javascript",
  ".css": "text/css",
  ".json": "application/json",
  ".wasm": "application/wasm",
};
const ISOLATION = {
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Embedder-Policy": "require-corp",
  "Cross-Origin-Resource-Policy": "same-origin",
};

/** Serves folders by address prefix, the longest first, and texts by address, or what functions of a response do; `use` gets the root. */
export async function withServer({ folders, texts = {}, isIsolated = true }, use) {
  const prefixes = Object.keys(folders).sort((left, right) => right.length - left.length);
  const server = createServer((request, response) => {
    answer(request, response).catch(() => response.destroy());
  });
  async function answer(request, response) {
    const path = normalize(decodeURIComponent(new URL(request.url, "http://host").pathname));
    const headers = { "Content-Type": TYPES[extname(path)] ?? "application/octet-stream", ...(isIsolated && ISOLATION) };
    const text = texts[path];
    if (typeof text === "function") {
      return text(response, headers);
    }
    if (text !== undefined) {
      return response.writeHead(200, headers).end(text);
    }
    const prefix = prefixes.find((each) => path.startsWith(each));
    const file = prefix === undefined ? undefined : join(folders[prefix], path.slice(prefix.length));
    const about = file === undefined ? undefined : await stat(file).catch(() => undefined);
    if (!about?.isFile()) {
      return response.writeHead(404, headers).end("not found");
    }
    response.writeHead(200, { ...headers, "Content-Length": about.size });
    createReadStream(file).pipe(response);
  }
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    return await use(`http://127.0.0.1:${server.address().port}/`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}
