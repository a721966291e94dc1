/** What a person chooses before a run. */

import { element, type Child } from "../../../viewer/src/dom.ts";
import { bytes } from "../../../viewer/src/format.ts";
import { sourceOf, type Config, type OfferedModel } from "../config.ts";
import { RUNTIMES, type Device, type Message, type ModelSource, type Runtime } from "../engines/engine.ts";
import { nameOf } from "../profiler.ts";
import type { Job } from "../session.ts";
import { CARDS, obstacle, type Availability } from "./runtimes.ts";

const FILE = "file";
const ADDRESS = "address";
const DEFAULT_PROMPT = "Explain in two sentences why the sky is blue.";

interface Field<Control extends HTMLElement> {
  control: Control;
  row: HTMLElement;
}

export class Form {
  readonly node: HTMLFormElement;
  readonly start = element("button", { type: "submit", class: "primary" }, "Start");
  readonly stop = element("button", { type: "button", disabled: true }, "Stop");
  readonly #config: Config;
  readonly #available: Record<Runtime, Availability>;
  readonly #model = element("select", { name: "model", "aria-label": "Model" });
  readonly #files = labelled("Files", element("input", { type: "file", name: "files" }));
  readonly #address = labelled(
    "Address",
    element("input", { type: "text", name: "address", autocomplete: "off", spellcheck: "false" }),
  );
  readonly #prompt = element("textarea", { name: "prompt", rows: 3, "aria-label": "Prompt", required: true }, DEFAULT_PROMPT);
  readonly #manner = labelled("Send it as", options({ chat: "chat message", text: "plain text" }, "manner"));
  readonly #maxTokens = labelled("Tokens to write, at most", number("max_tokens", 64, 1));
  readonly #interval = labelled("Sample every (ms)", number("interval", 100, 10));
  readonly #temperature = labelled("Temperature", number("temperature", 0, 0, 0.1));
  readonly #context = labelled("Context (tokens)", number("context", 1024, 16));
  readonly #threads = labelled("Threads", number("threads", defaultThreads(), 1));
  readonly #device = labelled(
    "Runs on",
    options({ wasm: "processor (WebAssembly)", webgpu: "graphics card (WebGPU)" }, "device"),
  );

  constructor(config: Config, available: Record<Runtime, Availability>, submit: () => void) {
    this.#config = config;
    this.#available = available;
    this.node = element("form", { class: "choices" }, this.#runtimes(), this.#models(), this.#prompts(), this.#settings());
    this.node.append(element("div", { class: "actions" }, this.start, this.stop));
    this.node.addEventListener("submit", (event) => {
      event.preventDefault();
      submit();
    });
    this.start.disabled = !RUNTIMES.some((runtime) => this.#isUsable(runtime));
    this.#runtimeChanged();
  }

  get runtime(): Runtime {
    return (new FormData(this.node).get("runtime") as Runtime | null) ?? RUNTIMES[0];
  }

  /** The job as chosen; a text says what is missing. */
  job(): Job | string {
    const model = this.#source();
    if (typeof model === "string") {
      return model;
    }
    const { devices, hasContext, hasThreads } = CARDS[this.runtime];
    const text = this.#prompt.value;
    const messages: Message[] = [{ role: "user", content: text }];
    return {
      runtime: this.runtime,
      model,
      prompt: text,
      ...(this.#manner.control.value === "chat" && { messages }),
      maxTokens: this.#maxTokens.control.valueAsNumber,
      temperature: this.#temperature.control.valueAsNumber,
      seed: 0,
      samplingIntervalMs: this.#interval.control.valueAsNumber,
      device: devices.length > 1 ? (this.#device.control.value as Device) : (devices[0] ?? "wasm"),
      ...(hasContext && { contextLength: this.#context.control.valueAsNumber }),
      ...(hasThreads && { threads: this.#threads.control.valueAsNumber }),
    };
  }

  setRunning(isRunning: boolean): void {
    this.start.disabled = isRunning;
    this.stop.disabled = !isRunning;
  }

  #runtimes(): HTMLElement {
    const first = RUNTIMES.find((runtime) => this.#offered(runtime).length > 0 && this.#isUsable(runtime));
    const chosen = first ?? RUNTIMES.find((runtime) => this.#isUsable(runtime));
    const cards = RUNTIMES.map((runtime) => this.#card(runtime, runtime === chosen));
    return group("Runtime", element("div", { class: "cards" }, ...cards));
  }

  #card(runtime: Runtime, isChosen: boolean): HTMLElement {
    const { title, about } = CARDS[runtime];
    const problem = obstacle(runtime, this.#available[runtime]);
    const input = element("input", {
      type: "radio",
      name: "runtime",
      value: runtime,
      checked: isChosen,
      disabled: problem !== null,
    });
    input.addEventListener("change", () => this.#runtimeChanged());
    const text = element("span", { class: "about" }, about);
    const why = problem === null ? null : element("span", { class: "problem" }, problem);
    return element("label", { class: "card" }, input, element("span", {}, element("b", {}, title), text, why));
  }

  #models(): HTMLElement {
    this.#model.addEventListener("change", () => this.#modelChanged());
    return group("Model", this.#model, this.#files.row, this.#address.row);
  }

  #prompts(): HTMLElement {
    return group("Prompt", this.#prompt, element("div", { class: "fields" }, this.#manner.row, this.#maxTokens.row));
  }

  #settings(): HTMLElement {
    const { row } = this.#interval;
    const fields = element(
      "div",
      { class: "fields" },
      row,
      this.#device.row,
      this.#context.row,
      this.#threads.row,
      this.#temperature.row,
    );
    return element("details", { class: "more" }, element("summary", {}, "More settings"), fields);
  }

  #runtimeChanged(): void {
    const { isFolder, hasContext, hasThreads, devices, model } = CARDS[this.runtime];
    const offered = this.#offered(this.runtime).map((each, at) => element("option", { value: at }, titleOf(each)));
    const own: Child[] = [
      element("option", { value: FILE }, isFolder ? "A folder on this computer…" : "A file on this computer…"),
      element("option", { value: ADDRESS }, "An address…"),
    ];
    this.#model.replaceChildren(...([...offered, ...own] as Node[]));
    this.#files.control.toggleAttribute("webkitdirectory", isFolder);
    this.#files.control.toggleAttribute("multiple", true);
    this.#files.control.accept = isFolder ? "" : ".gguf";
    this.#address.control.placeholder = isFolder
      ? "models/name/, https://…/, or a name that the runtime knows"
      : "models/model.gguf or https://…/model.gguf";
    this.#files.row.title = model;
    this.#device.row.hidden = devices.length < 2;
    this.#context.row.hidden = !hasContext;
    this.#threads.row.hidden = !hasThreads;
    const gpu = this.#device.control.querySelector<HTMLOptionElement>('[value="webgpu"]');
    if (gpu) {
      gpu.disabled = !this.#available[this.runtime].hasWebGpu;
    }
    this.#device.control.value = "wasm";
    this.#modelChanged();
  }

  #modelChanged(): void {
    const { value } = this.#model;
    this.#files.row.hidden = value !== FILE;
    this.#address.row.hidden = value !== ADDRESS;
  }

  #source(): ModelSource | string {
    const { value } = this.#model;
    if (value === FILE) {
      const files = [...(this.#files.control.files ?? [])];
      return files[0]
        ? { name: files[0].webkitRelativePath.split("/")[0] || files[0].name, url: "", files }
        : `Choose ${CARDS[this.runtime].model}.`;
    }
    if (value === ADDRESS) {
      return this.#typed(this.#address.control.value.trim());
    }
    const offered = this.#offered(this.runtime)[Number(value)];
    return offered ? sourceOf(offered) : "Choose a model.";
  }

  /** A folder's address ends in a slash; without one and without a scheme it is a name that the runtime knows. */
  #typed(text: string): ModelSource | string {
    if (text === "") {
      return `Type the address of ${CARDS[this.runtime].model}.`;
    }
    const isName = CARDS[this.runtime].isFolder && !text.endsWith("/") && !text.includes(":");
    const url = CARDS[this.runtime].isFolder && !text.endsWith("/") ? `${text}/` : text;
    return isName ? { name: text, url: "", id: text } : { name: nameOf(text), url };
  }

  #offered(runtime: Runtime): OfferedModel[] {
    return this.#config.models.filter((model) => model.runtime === runtime);
  }

  #isUsable(runtime: Runtime): boolean {
    return obstacle(runtime, this.#available[runtime]) === null;
  }
}

const titleOf = ({ name, bytes: size }: OfferedModel): string => (size === undefined ? name : `${name} (${bytes(size)})`);

/** Threads of a page that is not isolated cannot share memory. */
function defaultThreads(): number {
  return crossOriginIsolated ? Math.max(1, Math.min(8, Math.floor((navigator.hardwareConcurrency || 2) / 2))) : 1;
}

function labelled<Control extends HTMLElement>(title: string, control: Control): Field<Control> {
  return { control, row: element("label", { class: "field" }, element("span", {}, title), control) };
}

function number(name: string, value: number, min: number, step = 1): HTMLInputElement {
  return element("input", { type: "number", name, value, min, step, required: true });
}

function options(titles: Record<string, string>, name: string): HTMLSelectElement {
  return element("select", { name }, ...Object.entries(titles).map(([value, title]) => element("option", { value }, title)));
}

function group(title: string, ...content: Child[]): HTMLElement {
  return element("fieldset", {}, element("legend", {}, title), ...content);
}
