/** transformers.js: ONNX models with ONNX Runtime, in WebAssembly or on WebGPU. Its cache grows token by token. */

import { bytes } from "../../../viewer/src/format.ts";
import { Failure } from "../failure.ts";
import type { Buffer, Engine, EngineKind, Generated, GenerateOptions, Loaded, LoadOptions } from "./engine.ts";
import { runtimeModule, textOf } from "./fetching.ts";
import { ModelFolder, STAND_IN_PARENT } from "./folder.ts";
import { KvWatch } from "./onnx_kv.ts";
import { TextStream } from "./text_stream.ts";
import type { IdTensor, Model, ModelConfig, Progress, Tokenizer, TransformersModule } from "./transformers_types.ts";
import { requireWebGpu } from "./webgpu.ts";

/** Files of a model by how its weights are stored; the first is what transformers.js takes by default on each device. */
const SUFFIX = { fp32: "", fp16: "_fp16", q8: "_quantized", q4: "_q4", q4f16: "_q4f16", int8: "_int8", uint8: "_uint8" } as const;
type Dtype = keyof typeof SUFFIX;
const PREFERRED: Record<"wasm" | "webgpu", Dtype[]> = {
  wasm: ["q8", "int8", "uint8", "q4", "fp32"],
  webgpu: ["fp32", "q4", "q8", "q4f16", "fp16"],
};
/** A repository that is not at an address here takes what transformers.js takes. */
const REPOSITORY_DTYPE = { wasm: "q8", webgpu: "fp32" } as const;

export const transformersJs: EngineKind = { load };

async function load(options: LoadOptions): Promise<{ engine: Engine; loaded: Loaded }> {
  const device = options.device ?? "wasm";
  if (device === "webgpu") {
    await requireWebGpu("transformers.js");
  }
  options.onProgress(0, "loads transformers.js");
  const address = new URL("dist/transformers.min.js", options.runtimeUrl).href;
  const module = await runtimeModule<TransformersModule>("transformers.js", options.module, address);
  const folder = new ModelFolder(options.model);
  const isRepository = options.model.id !== undefined;
  configure(module, options, folder, isRepository);
  const dtype = isRepository ? REPOSITORY_DTYPE[device] : await dtypeOf(options.model.name, folder, device);
  const sizes = new Map<string, number>();
  const { tokenizer, model } = await fromPretrained(module, options, folder, { device, dtype }, sizes);
  const watch = new KvWatch();
  watch.watch(model.sessions);
  options.onProgress(1, "ready");
  const loaded = {
    ...describe(model.config, dtype, device, sizes, module.env.version),
    has_chat_template: Boolean(tokenizer.chat_template),
  };
  return { engine: new TransformersEngine(module, tokenizer, model, watch), loaded };
}

function configure({ env }: TransformersModule, options: LoadOptions, folder: ModelFolder, isRepository: boolean): void {
  env.allowRemoteModels = isRepository;
  env.allowLocalModels = !isRepository;
  // A path, because transformers.js takes what is an address for a file of the hub.
  env.localModelPath = STAND_IN_PARENT;
  env.useBrowserCache = isRepository;
  env.useWasmCache = false;
  env.fetch = folder.fetch;
  const { wasm } = env.backends.onnx;
  if (wasm) {
    const file = (ending: string): string =>
      new URL(`dist/ort-wasm-simd-threaded.asyncify.${ending}`, options.onnxRuntimeUrl).href;
    wasm.wasmPaths = { mjs: file("mjs"), wasm: file("wasm") };
    if (options.threads !== undefined) {
      wasm.numThreads = options.threads;
    }
  }
}

async function dtypeOf(name: string, folder: ModelFolder, device: "wasm" | "webgpu"): Promise<Dtype> {
  await folder.json("config.json");
  for (const dtype of PREFERRED[device]) {
    if (await folder.has(`onnx/model${SUFFIX[dtype]}.onnx`)) {
      return dtype;
    }
  }
  const looked = PREFERRED[device].map((dtype) => `model${SUFFIX[dtype]}.onnx`).join(", ");
  throw new Failure("model", `${name} has no folder onnx with one of ${looked}`, "export the model for transformers.js");
}

async function fromPretrained(
  module: TransformersModule,
  { model: source, onProgress }: LoadOptions,
  folder: ModelFolder,
  how: { device: string; dtype: string },
  sizes: Map<string, number>,
): Promise<{ tokenizer: Tokenizer; model: Model }> {
  const progress_callback = ({ status, file, loaded = 0, total = 0 }: Progress): void => {
    if (status === "progress" && file !== undefined) {
      sizes.set(file, total);
      onProgress(total > 0 ? (0.9 * loaded) / total : 0, `reads ${file}: ${bytes(loaded)}`);
    }
  };
  const name = source.id ?? folder.standInName;
  try {
    const tokenizer = await module.AutoTokenizer.from_pretrained(name, { progress_callback });
    const model = await module.AutoModelForCausalLM.from_pretrained(name, { ...how, progress_callback });
    return { tokenizer, model };
  } catch (error) {
    throw modelFailure(source.name, textOf(error));
  }
}

function modelFailure(name: string, said: string): Failure {
  if (/wasm|initwasm|backend not found|dynamically imported module/i.test(said) && !/protobuf/i.test(said)) {
    return new Failure(
      "runtime",
      `ONNX Runtime did not start: ${said}`,
      "put the files of onnxruntime-web beside those of transformers.js",
    );
  }
  const isDamaged = /protobuf|deserialize|ModelProto|unexpected end|offset|invalid model/i.test(said);
  return new Failure(
    "model",
    `ONNX Runtime could not load ${name}: ${said}`,
    isDamaged ? "the file is cut short or damaged: get it again" : undefined,
  );
}

function describe(
  config: ModelConfig,
  dtype: string,
  device: "wasm" | "webgpu",
  sizes: Map<string, number>,
  version: string,
): Omit<Loaded, "has_chat_template"> {
  const files: Buffer[] = [...sizes]
    .filter(([name]) => /\.onnx(_data)?/.test(name))
    .map(([name, bytes]) => ({ name, kind: "weight", bytes, where: "wasm" }));
  const onGpu = globalThis.dwellHooks?.snapshot().gpu.bytes.weight ?? 0;
  const weights: Buffer[] = device === "webgpu" ? [{ name: "parameters", kind: "weight", bytes: onGpu, where: "webgpu" }] : files;
  const type = dtype.endsWith("16") ? "f16" : "f32";
  const perToken = kvBytesPerToken(config, type === "f16" ? 2 : 4);
  return {
    model: {
      ...(config.model_type !== undefined && { architecture: config.model_type }),
      ...(config.num_hidden_layers !== undefined && { layers: config.num_hidden_layers }),
      ...(config.max_position_embeddings !== undefined && { context_length: config.max_position_embeddings }),
      ...(config.vocab_size !== undefined && { vocabulary: config.vocab_size }),
    },
    kv: {
      bytes: 0,
      cells: 0,
      ...(perToken !== undefined && { bytes_per_token: perToken }),
      type_k: type,
      type_v: type,
      preallocated: false,
      basis: "key and value tensors that each run returns",
    },
    buffers: weights,
    runtime_version: version,
    device: `${device}, ${dtype}`,
  };
}

function kvBytesPerToken(config: ModelConfig, elementBytes: number): number | undefined {
  const { num_hidden_layers: layers, num_attention_heads: heads, hidden_size: width } = config;
  const kvHeads = config.num_key_value_heads ?? heads;
  const headLength = config.head_dim ?? (heads && width ? width / heads : undefined);
  return layers && kvHeads && headLength ? 2 * layers * kvHeads * headLength * elementBytes : undefined;
}

class TransformersEngine implements Engine {
  readonly #module: TransformersModule;
  readonly #tokenizer: Tokenizer;
  readonly #model: Model;
  readonly #watch: KvWatch;

  constructor(module: TransformersModule, tokenizer: Tokenizer, model: Model, watch: KvWatch) {
    this.#module = module;
    this.#tokenizer = tokenizer;
    this.#model = model;
    this.#watch = watch;
  }

  async generate(options: GenerateOptions): Promise<Generated> {
    const inputs = this.#inputs(options);
    const promptTokens = inputs.input_ids.dims.at(-1) ?? 0;
    options.onPrompt({ tokens: promptTokens, ids: [...inputs.input_ids.data].map(Number) });
    const stopper = new this.#module.InterruptableStoppingCriteria();
    options.signal.addEventListener("abort", () => stopper.interrupt());
    this.#module.random.seed(options.seed);
    const progress = new Progressing(options, this.#tokenizer);
    try {
      await this.#model.generate({ ...inputs, ...requestOf(options), streamer: progress, stopping_criteria: stopper });
    } finally {
      this.#watch.clear();
    }
    return progress.result(promptTokens);
  }

  kvBytes(): number | undefined {
    return this.#watch.bytes;
  }

  async unload(): Promise<void> {
    await this.#model.dispose();
  }

  #inputs({ messages, prompt }: GenerateOptions): { input_ids: IdTensor; attention_mask: IdTensor } {
    if (messages === undefined) {
      return this.#tokenizer(prompt);
    }
    if (!this.#tokenizer.chat_template) {
      throw new Failure("generate", "the model has no chat template", "send the prompt as plain text");
    }
    return this.#tokenizer.apply_chat_template(messages, { add_generation_prompt: true, return_dict: true });
  }
}

function requestOf({ maxTokens, temperature, ignoreEnd }: GenerateOptions): Record<string, unknown> {
  return {
    max_new_tokens: maxTokens,
    do_sample: temperature > 0,
    ...(temperature > 0 && { temperature }),
    ...(ignoreEnd && { min_new_tokens: maxTokens }),
  };
}

/** What `generate` tells: first the ids of the prompt, then each token. */
class Progressing {
  readonly #options: GenerateOptions;
  readonly #text: TextStream;
  readonly #begun = performance.now();
  #first: number | undefined;
  #last = 0;
  #tokens = 0;
  #isPrompt = true;

  constructor(options: GenerateOptions, tokenizer: Tokenizer) {
    this.#options = options;
    this.#text = new TextStream((ids) => tokenizer.decode(ids, { skip_special_tokens: true }));
  }

  put(ids: bigint[][]): void {
    if (this.#isPrompt) {
      this.#isPrompt = false;
      return;
    }
    this.#last = performance.now();
    this.#first ??= this.#last;
    for (const id of ids[0] ?? []) {
      this.#tokens++;
      this.#options.onToken({ id: Number(id), text: this.#text.add(id) });
    }
  }

  /** Called by `generate` after the last token. */
  end(): void {}

  result(promptTokens: number): Generated {
    const isLength = this.#tokens >= this.#options.maxTokens;
    return {
      reason: this.#options.signal.aborted ? "aborted" : isLength ? "length" : "stop",
      usage: { prompt_tokens: promptTokens, completion_tokens: this.#tokens },
      timings: this.#first === undefined ? {} : { prompt_ms: this.#first - this.#begun, predicted_ms: this.#last - this.#first },
    };
  }
}
