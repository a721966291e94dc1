/** Reads the page that dwell put into the document. */

import { PAGE_FORMAT, type Page } from "./page.ts";

const GZIP_TYPE = "application/gzip;base64";

export async function readPage(): Promise<Page> {
  const script = document.getElementById("page");
  if (!(script instanceof HTMLScriptElement)) {
    throw new Error("this document has no data: the element with the id “page” is missing");
  }
  const text = script.textContent ?? "";
  return checkedPage(JSON.parse(script.type === GZIP_TYPE ? await gunzip(text.trim()) : text) as Page);
}

async function gunzip(base64: string): Promise<string> {
  const packed = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

export function checkedPage(page: Page): Page {
  if (page.format !== PAGE_FORMAT) {
    throw new Error(`the data has format ${page.format}, and this page shows format ${PAGE_FORMAT}`);
  }
  return page;
}
