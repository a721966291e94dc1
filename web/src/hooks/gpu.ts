/** WebGPU memory of this thread: buffers and textures from their creation until they are destroyed, lost or collected. */

import { formatBytesPerBlock } from "./texture_formats.ts";
import { gpuTotal, noGpu, type GpuKind, type GpuTally, type Phase } from "./tally.ts";

interface Held {
  bytes: number;
  kind: GpuKind;
  isTexture: boolean;
  /** Filled by the processor: what a model's file holds. */
  isFilled: boolean;
  usage: number;
  device: WeakRef<GPUDevice>;
  what: WeakRef<GPUBuffer | GPUTexture>;
}

/** Storage buffers may be of use for indirect calls as well: ONNX Runtime permits that for all of its own. */
const USAGE = { MAP_READ: 0x1, MAP_WRITE: 0x2, UNIFORM: 0x40, STORAGE: 0x80, QUERY_RESOLVE: 0x200 } as const;
const NEVER_MODEL = USAGE.MAP_READ | USAGE.MAP_WRITE | USAGE.UNIFORM | USAGE.QUERY_RESOLVE;
const KV_LABEL = /\bkv|kv[_-]?cache|past_key|present\.|cache_[kv]/i;
const WEIGHT_LABEL = /weight|param/i;

const live = new Set<Held>();
const heldBy = new WeakMap<GPUBuffer | GPUTexture, Held>();
const tally = noGpu();
let peak = 0;
let phase: Phase = "idle";

const collected = new FinalizationRegistry<Held>(release);

export const tallyGpu = (): GpuTally => tally;
export const gpuPeakBytes = (): number => peak;
export const setPhase = (now: Phase): void => void (phase = now);

export function classify(buffer: GPUBuffer, kind: GpuKind): void {
  const held = heldBy.get(buffer);
  if (held && live.has(held)) {
    reclassify(held, kind);
  }
}

export function classifySizes(leastBytes: number, mostBytes: number, kind: GpuKind): number {
  const fits = ({ bytes, isTexture, isFilled, usage }: Held): boolean =>
    bytes >= leastBytes && bytes <= mostBytes && !isTexture && !isFilled && isForModels(usage);
  const found = [...live].filter(fits);
  found.forEach((held) => reclassify(held, kind));
  return found.length;
}

export function hookGpu(): void {
  if (typeof GPUDevice === "undefined") {
    return;
  }
  wrap(GPUDevice.prototype, "createBuffer", (device, [descriptor], buffer) => {
    const { size, usage, label, mappedAtCreation } = descriptor;
    hold(device, buffer, size, kindOf(label ?? "", usage), { isTexture: false, isFilled: mappedAtCreation === true, usage });
  });
  wrap(GPUDevice.prototype, "createTexture", (device, [descriptor], texture) =>
    hold(device, texture, textureBytes(texture, descriptor), "other", {
      isTexture: true,
      isFilled: false,
      usage: descriptor.usage,
    }),
  );
  wrap(GPUBuffer.prototype, "destroy", (buffer) => releaseOf(buffer));
  wrap(GPUTexture.prototype, "destroy", (texture) => releaseOf(texture));
  wrap(GPUQueue.prototype, "writeBuffer", (_, [buffer]) => filled(buffer));
  wrap(GPUCommandEncoder.prototype, "copyBufferToBuffer", (_, given) => copied(given as unknown[]));
  wrap(GPUDevice.prototype, "destroy", releaseDevice);
  wrap(GPUAdapter.prototype, "requestDevice", (_adapter, _given, asked) => void asked.then(watchLoss, () => {}));
}

/** Calls `then` after each call of a method, with what it gave. */
function wrap<Type extends object, Name extends keyof Type>(
  prototype: Type,
  name: Name,
  then: Type[Name] extends (...given: infer Given) => infer Result ? (self: Type, given: Given, result: Result) => void : never,
): void {
  const original = prototype[name] as unknown as Function;
  const wrapped = {
    [name](this: Type, ...given: unknown[]): unknown {
      const result: unknown = original.apply(this, given);
      (then as Function)(this, given, result);
      return result;
    },
  };
  Object.defineProperty(prototype, name, {
    value: wrapped[name as string],
    configurable: true,
    writable: true,
    enumerable: true,
  });
}

function hold(
  device: GPUDevice,
  what: GPUBuffer | GPUTexture,
  bytes: number,
  kind: GpuKind,
  about: Pick<Held, "isTexture" | "isFilled" | "usage">,
): void {
  const held: Held = { ...about, bytes, kind, device: new WeakRef(device), what: new WeakRef(what) };
  live.add(held);
  heldBy.set(what, held);
  collected.register(what, held, held);
  count(held, 1);
  peak = Math.max(peak, gpuTotal(tally));
  if (held.isFilled) {
    filled(what as GPUBuffer);
  }
}

function releaseOf(what: GPUBuffer | GPUTexture): void {
  const held = heldBy.get(what);
  if (held) {
    release(held);
  }
}

function release(held: Held): void {
  if (live.delete(held)) {
    collected.unregister(held);
    count(held, -1);
  }
}

function releaseDevice(device: GPUDevice): void {
  [...live].filter((held) => held.device.deref() === device).forEach(release);
}

function watchLoss(device: GPUDevice): void {
  void device.lost.then(() => releaseDevice(device));
}

function count({ bytes, kind, isTexture }: Held, sign: 1 | -1): void {
  tally.bytes[kind] += sign * bytes;
  tally.textureBytes += isTexture ? sign * bytes : 0;
  tally[isTexture ? "textures" : "buffers"] += sign;
}

function reclassify(held: Held, kind: GpuKind): void {
  count(held, -1);
  held.kind = kind;
  count(held, 1);
}

/** What a label says; nothing else is known of a buffer when it is created. */
function kindOf(label: string, usage: number): GpuKind {
  if (!isForModels(usage)) {
    return "other";
  }
  return KV_LABEL.test(label) ? "kv_cache" : WEIGHT_LABEL.test(label) ? "weight" : "other";
}

function isForModels(usage: number): boolean {
  return (usage & USAGE.STORAGE) !== 0 && (usage & NEVER_MODEL) === 0;
}

/** A storage buffer that the processor fills while a model loads holds weights. */
function filled(buffer: GPUBuffer): void {
  const held = heldBy.get(buffer);
  if (held === undefined || !live.has(held)) {
    return;
  }
  held.isFilled = true;
  if (phase === "load" && held.kind === "other" && isForModels(held.usage)) {
    reclassify(held, "weight");
  }
}

/** Engines fill buffers through mapped staging buffers as well: source, [its offset,] destination. */
function copied(given: unknown[]): void {
  const source = heldBy.get(given[0] as GPUBuffer);
  if (source?.isFilled || (source && (source.usage & USAGE.MAP_WRITE) !== 0)) {
    filled((typeof given[1] === "number" ? given[2] : given[1]) as GPUBuffer);
  }
}

/** Bytes of all mip levels and layers without the padding of the driver. */
function textureBytes(texture: GPUTexture, { format }: GPUTextureDescriptor): number {
  const { bytes, width, height } = formatBytesPerBlock(format);
  const isVolume = texture.dimension === "3d";
  let sum = 0;
  for (let level = 0; level < texture.mipLevelCount; level++) {
    const columns = Math.ceil(Math.max(1, texture.width >> level) / width);
    const rows = Math.ceil(Math.max(1, texture.height >> level) / height);
    const depth = isVolume ? Math.max(1, texture.depthOrArrayLayers >> level) : texture.depthOrArrayLayers;
    sum += columns * rows * depth * bytes;
  }
  return sum * texture.sampleCount;
}
