/** A model that is a folder of files: at an address, or chosen by a person. */

import { Failure } from "../failure.ts";
import type { ModelSource } from "./engine.ts";

/** Runtimes ask for files below this path, which stands for folders. WebLLM wants `resolve` in it. */
export const STAND_IN_PARENT = "/dwell-model-folder/resolve/";

/** While a runtime loads, the global one may be that of a folder. */
const ownFetch = globalThis.fetch.bind(globalThis);

let folders = 0;

export class ModelFolder {
  readonly #model: ModelSource;
  readonly #files: Map<string, File>;

  constructor(model: ModelSource) {
    this.#model = model;
    this.#files = new Map((model.files ?? []).map((file) => [withoutTop(file.webkitRelativePath || file.name), file]));
  }

  /** Each folder has a name of its own, because runtimes remember what they found by name, WebLLM even beyond the page. */
  readonly standInName = `model-${Math.round(performance.timeOrigin)}-${folders++}`;
  readonly #standIn = `${STAND_IN_PARENT}${this.standInName}/`;

  /** The name of the file in the folder that an address stands for. */
  nameOf(address: string): string | undefined {
    const at = address.indexOf(this.#standIn);
    return at < 0 ? undefined : decodeURIComponent(address.slice(at + this.#standIn.length));
  }

  /** `fetch`, which answers for the files of this folder. */
  readonly fetch = async (input: RequestInfo | URL, init?: RequestInit): Promise<Response> => {
    const address = input instanceof Request ? input.url : String(input);
    const name = this.nameOf(address);
    return name === undefined ? ownFetch(input, init) : this.open(name, init);
  };

  async open(name: string, init?: RequestInit): Promise<Response> {
    if (this.#model.files === undefined) {
      return complete(await ownFetch(this.addressOf(name), init));
    }
    const file = this.#files.get(name);
    return file === undefined
      ? new Response(null, { status: 404 })
      : new Response(file, { headers: { "content-length": String(file.size) } });
  }

  addressOf(name: string): string {
    return new URL(name, this.#model.url).href;
  }

  /** Whether the folder has a file, found out without getting all of it. */
  async has(name: string): Promise<boolean> {
    if (this.#model.files !== undefined) {
      return this.#files.has(name);
    }
    const abort = new AbortController();
    const { ok } = await ownFetch(this.addressOf(name), { signal: abort.signal }).catch(() => ({ ok: false }));
    abort.abort();
    return ok;
  }

  async json<Value>(name: string): Promise<Value> {
    const response = await this.open(name).catch((error: unknown) => {
      throw new Failure("model", `could not reach ${this.addressOf(name)}: ${String(error)}`, "check that the server still runs");
    });
    if (!response.ok) {
      throw new Failure("model", `${this.#model.name} has no ${name}`, "check that the address is that of the model's folder");
    }
    try {
      return (await response.json()) as Value;
    } catch (error) {
      throw new Failure(
        "model",
        `${name} of ${this.#model.name} is no JSON: ${String(error)}`,
        "the file is cut short or damaged: get it again",
      );
    }
  }
}

/** A path without the folder that was chosen. */
function withoutTop(path: string): string {
  const at = path.indexOf("/");
  return at < 0 ? path : path.slice(at + 1);
}

/** An error page must not be taken for a file: servers answer single-page sites with HTML for what is missing. */
function complete(response: Response): Response {
  const type = response.headers.get("content-type") ?? "";
  return response.ok && type.startsWith("text/html") ? new Response(null, { status: 404 }) : response;
}
