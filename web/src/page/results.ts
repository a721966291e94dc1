/** What a run shows: progress, the text, the figures, what the runtime says of its buffers, and errors. */

import { button, element, scrolling } from "../../../viewer/src/dom.ts";
import { bytes, count, duration, percent, significant } from "../../../viewer/src/format.ts";
import { samplesToCsv, saveText } from "../csv.ts";
import type { Buffer, Generated, Loaded } from "../engines/engine.ts";
import type { Sample } from "../sampler.ts";
import type { Event, Job } from "../session.ts";
import { MemoryChart } from "./chart.ts";
import { partsOf, totalOf } from "./parts.ts";
import { CARDS } from "./runtimes.ts";

const KIND_TITLES: Record<Buffer["kind"], string> = {
  weight: "Weights",
  kv_cache: "KV cache",
  compute: "Compute buffers",
  other: "Other",
};

const NO_TEMPLATE = "This model has no chat template: the prompt was sent as plain text.";
const NO_ADAPTER = "It runs on the processor: the runtime found no graphics adapter.";

export class Results {
  readonly node = element("section", { class: "results", "aria-labelledby": "result", hidden: true });
  readonly #what = element("p", { class: "about" });
  readonly #status = element("p", { class: "status", role: "status" });
  readonly #bar = element("progress", { max: 1, value: 0, "aria-label": "Loading" });
  readonly #error = element("div", { class: "error", role: "alert", hidden: true });
  readonly #notices = element("div", {});
  readonly #figures = element("dl", { class: "figures" });
  readonly #text = element("div", { class: "text", "aria-label": "Text that the model writes" });
  readonly #chart = new MemoryChart();
  readonly #buffers = element("div", {});
  readonly #csv = button("Download CSV", () => this.#download());
  #job: Job | null = null;
  #samples: Sample[] = [];
  #tokenTimes: number[] = [];
  #begun = 0;
  #loaded: Loaded | null = null;
  #promptTokens = 0;

  constructor() {
    this.#csv.disabled = true;
    const files = element("div", { class: "actions" }, this.#csv);
    const heading = element("h2", { id: "result" }, "Result");
    this.node.append(
      heading,
      this.#what,
      this.#status,
      this.#bar,
      this.#error,
      this.#notices,
      this.#text,
      this.#figures,
      this.#chart.node,
      this.#buffers,
      files,
    );
  }

  begin(job: Job): void {
    this.#job = job;
    this.#samples = [];
    this.#tokenTimes = [];
    this.#promptTokens = 0;
    this.#loaded = null;
    this.#what.textContent = `${CARDS[job.runtime].title} with ${job.model.name}`;
    this.#text.textContent = "";
    this.#error.hidden = true;
    this.#notices.replaceChildren();
    this.#figures.replaceChildren();
    this.#buffers.replaceChildren();
    this.#chart.clear();
    this.#csv.disabled = true;
    this.#bar.hidden = false;
    this.node.hidden = false;
    this.#say("Starting…");
  }

  take(event: Event): void {
    switch (event.type) {
      case "loading":
        this.#bar.value = event.fraction;
        return this.#say(`Loading the model: ${event.text}`);
      case "loaded":
        return this.#showLoaded(event);
      case "prompt":
        this.#promptTokens = event.tokens;
        return this.#say(`Reading the prompt: ${count(event.tokens)} tokens…`);
      case "token":
        return this.#addToken(event.t_ms, event.text);
      case "sample":
        this.#samples.push(event);
        this.#csv.disabled = false;
        return this.#chart.add(partsOf(event, this.#loaded));
      case "done":
        return this.#done(event);
      case "error":
        return this.#fail(event.message, event.hint);
    }
  }

  #say(text: string): void {
    this.#status.textContent = text;
  }

  #showLoaded(loaded: Loaded): void {
    this.#loaded = loaded;
    this.#bar.hidden = true;
    this.#begun = performance.timeOrigin + performance.now();
    this.#say("Reading the prompt…");
    this.#buffers.replaceChildren(...buffersTable(loaded, CARDS[this.#job?.runtime ?? "wllama"].title));
    this.#notices.replaceChildren(...this.#deviations(loaded).map((text) => element("p", { class: "notice" }, text)));
  }

  /** What is done in another way than the person chose. */
  #deviations(loaded: Loaded): string[] {
    const isElsewhere = this.#job?.device === "webgpu" && !loaded.device.startsWith("webgpu");
    const isPlain = this.#job?.messages !== undefined && !loaded.has_chat_template;
    return [...(isElsewhere ? [NO_ADAPTER] : []), ...(isPlain ? [NO_TEMPLATE] : [])];
  }

  #addToken(t_ms: number, text: string): void {
    this.#tokenTimes.push(t_ms);
    this.#text.append(text);
    this.#chart.addToken(t_ms);
    this.#say(`Writing: token ${count(this.#tokenTimes.length)} of at most ${count(this.#job?.maxTokens ?? 0)}`);
  }

  #done({ reason, usage }: Generated): void {
    this.#chart.finish();
    const isFull = usage.completion_tokens < (this.#job?.maxTokens ?? 0);
    const ends = {
      length: isFull ? "the context is full" : "the limit of tokens is reached",
      stop: "the model ended its text",
      aborted: "stopped",
    };
    this.#say(`Done: ${ends[reason]}.`);
    const entries = this.#numbers(usage.prompt_tokens || this.#promptTokens, usage.completion_tokens);
    this.#figures.replaceChildren(
      ...entries.map(([name, value, about]) =>
        element("div", {}, element("dt", {}, name), element("dd", {}, value), element("dd", { class: "about" }, about)),
      ),
    );
  }

  #numbers(promptTokens: number, completionTokens: number): [string, string, string][] {
    const [first, last] = [this.#tokenTimes[0], this.#tokenTimes.at(-1)];
    const peak = this.#samples.reduce((most, sample) => Math.max(most, totalOf(sample)), 0);
    const rate =
      first !== undefined && last !== undefined && last > first ? (1000 * (this.#tokenTimes.length - 1)) / (last - first) : null;
    const perToken = this.#loaded?.kv.bytes_per_token;
    return [
      ["Peak memory", bytes(peak), "JavaScript, WebAssembly and graphics memory that this page holds"],
      ["Speed", rate === null ? "–" : `${significant(rate)} tokens/s`, "after the first token"],
      [
        "First token",
        first === undefined ? "–" : duration((first - this.#begun) / 1000),
        `to read ${count(promptTokens)} prompt tokens`,
      ],
      ["Tokens", count(completionTokens), "written, as the runtime counts them"],
      ["KV cache", perToken === undefined ? "–" : `${bytes(perToken)}/token`, this.#kvText()],
    ];
  }

  #kvText(): string {
    const { bytes: all, preallocated } = this.#loaded?.kv ?? { preallocated: false };
    if (preallocated) {
      return `${bytes(all ?? null)}, allocated in full when the model loads`;
    }
    // The runtime frees it when the text has ended.
    const held = this.#samples.reduce((most, { kv_bytes }) => Math.max(most, kv_bytes ?? 0), 0);
    return `grows with each token${held > 0 ? `, to ${bytes(held)}` : ""}`;
  }

  #fail(message: string, hint: string | undefined): void {
    this.#chart.finish();
    this.#bar.hidden = true;
    this.#say("The run failed.");
    const advice = hint === undefined ? null : element("p", { class: "hint" }, `What helps: ${hint}.`);
    this.#error.replaceChildren(element("p", {}, message), ...(advice ? [advice] : []));
    this.#error.hidden = false;
  }

  #download(): void {
    const name = this.#job?.model.name ?? "run";
    saveText(`dwell-${name.replace(/[^\w.-]/g, "_")}.csv`, samplesToCsv(this.#samples, this.#job?.runtime ?? ""));
  }
}

function buffersTable({ model, buffers, runtime_version, device, kv }: Loaded, runtime: string): HTMLElement[] {
  const sum = buffers.reduce((all, each) => all + each.bytes, 0);
  const head = ["What", "Where", "Size", "Share"].map((title) => element("th", { scope: "col" }, title));
  const where = { wasm: "WebAssembly", webgpu: "graphics card", js: "JavaScript" };
  const rows = buffers.map(({ kind, name, where: place, bytes: size }) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, KIND_TITLES[kind], element("span", { class: "about" }, ` ${name}`)),
      element("td", {}, where[place]),
      element("td", { class: "number" }, bytes(size)),
      element("td", { class: "number" }, percent(sum > 0 ? size / sum : null)),
    ),
  );
  const table = element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows));
  const size = model.parameters === undefined ? "" : `, ${significant(model.parameters / 1e6)} million parameters`;
  const what = model.description === undefined ? "" : `Model: ${model.description} in llama.cpp's words${size}. `;
  const source = `${what}Computed by ${runtime} ${runtime_version} on ${device}. Sizes of the KV cache: ${kv.basis}.`;
  return [
    element("h3", {}, "What the runtime allocated"),
    ...(buffers.length > 0 ? [scrolling("What the runtime allocated", table)] : []),
    element("p", { class: "about" }, source),
  ];
}
