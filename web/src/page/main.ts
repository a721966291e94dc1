/** The page for people. */

import { element } from "../../../viewer/src/dom.ts";
import { readConfig, runtimeUrls } from "../config.ts";
import { ENGINES } from "../engines/all.ts";
import { Session } from "../session.ts";
import { Form } from "./form.ts";
import { Results } from "./results.ts";
import { availability } from "./runtimes.ts";

const main = document.querySelector("main") as HTMLElement;
const config = await readConfig();
const urls = runtimeUrls(config);
const results = new Results();
const session = new Session(ENGINES, urls, (event) => results.take(event));
const form = new Form(config, await availability(urls), () => void start());
const missing = element("p", { class: "missing", role: "alert", hidden: true });
form.stop.addEventListener("click", () => session.stop());
form.node.append(missing);
if (form.start.disabled) {
  missing.hidden = false;
  missing.textContent = "No runtime can be used here. What each of them needs stands beside it.";
}
main.replaceChildren(...notices(), form.node, results.node, explanation());

async function start(): Promise<void> {
  const job = form.job();
  missing.hidden = typeof job !== "string";
  if (typeof job === "string") {
    missing.textContent = job;
    return;
  }
  form.setRunning(true);
  results.begin(job);
  results.node.scrollIntoView({ block: "start" });
  // A model without a chat template gets the prompt as plain text, whatever was chosen.
  await session.run({ ...job, plainIfNoTemplate: true });
  form.setRunning(false);
}

/** What this browser or server keeps the page from measuring. */
function notices(): HTMLElement[] {
  const texts = [];
  if (!crossOriginIsolated) {
    texts.push(
      "This page is not cross-origin isolated: the JavaScript heap is rounded, there is no measurement of the whole page, and models run on one thread. " +
        "Start it with dwell web, or have the server send the headers Cross-Origin-Opener-Policy: same-origin and Cross-Origin-Embedder-Policy: require-corp.",
    );
  }
  if (!("memory" in performance)) {
    texts.push(
      "This browser does not tell the size of its JavaScript heap; Chrome and Edge do. WebAssembly and graphics memory are counted.",
    );
  }
  return texts.map((text) => element("p", { class: "notice" }, text));
}

function explanation(): HTMLElement {
  const figures: [string, string][] = [
    ["JavaScript heap", "objects and buffers of this page. It does not contain WebAssembly or graphics memory."],
    [
      "WebAssembly",
      "the linear memories of the runtime, in this page and in its workers: weights, KV cache and compute buffers of wllama.",
    ],
    [
      "Other WebAssembly",
      "what the runtime does not name: its own code's memory, and memory that only loading needed, which WebAssembly cannot give back. While a model loads, all of it is here, because the runtime names its buffers at the end.",
    ],
    ["GPU", "WebGPU buffers and textures from their creation until they are destroyed. Drivers may take more for each."],
    ["KV cache", "keys and values of all tokens so far, which attention reads for each new token."],
  ];
  return element(
    "details",
    { class: "help" },
    element("summary", {}, "What do these figures see?"),
    element("dl", {}, ...figures.flatMap(([name, text]) => [element("dt", {}, name), element("dd", {}, text)])),
    element(
      "p",
      {},
      "Not visible from a page: memory of the browser itself, and what the graphics driver adds. dwell run --engine wllama measures these from outside.",
    ),
  );
}
