"""How much of a PyTorch model's speed is left while its activations are captured.

Every condition runs the same forward passes: nothing captured, dwell, and llm-instrumentation where it is installed.
Conditions take turns, and each is compared with the uncaptured passes right before and after it, so that a machine that
slows down meanwhile slows all of them. `hot` is the speed inside the `with` block; `whole` also counts closing it, until
every byte is in the file; `cpu` is tokens per second of processor time of the thread that runs the model, which other
load disturbs less. Results are JSON on standard output; progress is on standard error.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import dwell

# Random weights: speed does not depend on them.
SHAPES: dict[str, dict[str, int]] = {
    "134m": dict(vocab_size=32000, hidden_size=768, intermediate_size=2048, num_hidden_layers=12, num_attention_heads=12),
    "1.1b": dict(
        vocab_size=32000,
        hidden_size=2048,
        intermediate_size=5632,
        num_hidden_layers=22,
        num_attention_heads=32,
        num_key_value_heads=4,
    ),
}

# Blocks captured at each point of the curve.
GPU_CURVE: dict[str, list[int]] = {
    "none": [1, 2, 3, 22],
    "float": [1, 2, 3, 4, 6, 11, 22],
    "bounded:nmse:1e-3": [4, 8, 22],
}


@dataclass
class Workload:
    """Forward passes to be timed; running them returns how many tokens they took."""

    name: str
    run: Callable[[], int]


@dataclass
class Condition:
    """One way of capturing."""

    name: str
    open: Callable[[Path], contextlib.AbstractContextManager[Any]]
    ratios_hot: list[float] = field(default_factory=list)
    ratios_whole: list[float] = field(default_factory=list)
    ratios_cpu: list[float] = field(default_factory=list)
    stored_bytes: int = 0
    raw_bytes: int = 0
    packets: int = 0
    seconds_whole: float = 0.0


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def build_model(shape: str, device: str, dtype: torch.dtype) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(**SHAPES[shape], max_position_embeddings=4096)
    with torch.device(device):
        model = LlamaForCausalLM(config).to(dtype)
    return model.eval()


def synchronise(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def prompt_workload(model: LlamaForCausalLM, device: str, batch: int, length: int, seconds: float) -> Workload:
    """Prompts one after another for some time, so that a slow capture takes no longer to measure than a fast one."""
    ids = torch.randint(0, 32000, (batch, length), device=device)

    def run() -> int:
        passes, begin = 0, time.perf_counter()
        with torch.no_grad():
            while time.perf_counter() - begin < seconds:
                model(ids, use_cache=False, logits_to_keep=1)
                synchronise(device)
                passes += 1
        return batch * length * passes

    return Workload("prompt", run)


def decode_workload(model: LlamaForCausalLM, device: str, batch: int, steps: int) -> Workload:
    ids = torch.randint(0, 32000, (batch, 16), device=device)

    def run() -> int:
        with torch.no_grad():
            out = model(ids, use_cache=True)
            for _ in range(steps):
                token = out.logits[:, -1:].argmax(-1)
                out = model(token, past_key_values=out.past_key_values, use_cache=True)
        synchronise(device)
        return batch * steps

    return Workload("decode", run)


def layer_names(model: LlamaForCausalLM, count: int) -> list[str]:
    """`count` blocks, spread evenly over the model."""
    total = model.config.num_hidden_layers
    return [f"model.layers.{index * total // count}" for index in range(count)]


def dwell_condition(model: LlamaForCausalLM, name: str, codec: str, layers: int, memory_gb: float) -> Condition:
    def open_capture(path: Path) -> contextlib.AbstractContextManager[Any]:
        config = (
            dwell.InstrumentationConfig.balanced()
            .with_compression(codec)
            .with_memory_limit(memory_gb)
            .with_targets(layer_names(model, layers))
        )
        return dwell.capture_activations(model, output_path=path, config=config)

    return Condition(name, open_capture)


def peer_condition(model: LlamaForCausalLM, name: str, every_block: bool) -> Condition:
    from llm_instrumentation import InstrumentationConfig, InstrumentationFramework

    @contextlib.contextmanager
    def open_capture(path: Path) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            framework = InstrumentationFramework(InstrumentationConfig.balanced())
            for module in model.model.layers if every_block else [model]:
                framework.instrument_model(module)
            stack.enter_context(framework.capture_activations(str(path)))
            yield

    return Condition(name, open_capture)


@dataclass
class Speed:
    """Tokens per second."""

    hot: float
    whole: float
    cpu: float
    seconds_whole: float


def speed(workload: Workload, condition: Condition | None, path: Path) -> Speed:
    begin = time.perf_counter()
    with condition.open(path) if condition else contextlib.nullcontext():
        inside, inside_cpu = time.perf_counter(), time.thread_time()
        tokens = workload.run()
        hot, cpu = time.perf_counter() - inside, time.thread_time() - inside_cpu
    whole = time.perf_counter() - begin
    return Speed(tokens / hot, tokens / whole, tokens / cpu, whole)


def measure(workload: Workload, conditions: list[Condition], rounds: int, folder: Path) -> dict[str, Any]:
    path = folder / "bench.tensors"
    workload.run()
    bases = []
    for number in range(rounds):
        bases.append(speed(workload, None, path))
        for condition in conditions:
            found = speed(workload, condition, path)
            read_outcome(condition, path, found.seconds_whole)
            path.unlink(missing_ok=True)
            bases.append(speed(workload, None, path))
            compare(condition, found, bases[-2:])
            say(f"{workload.name} {number + 1}/{rounds} {condition.name}: {last_ratios(condition)}")
    return {
        "workload": workload.name,
        "base_tokens_per_s": statistics.median(base.hot for base in bases),
        "conditions": [summary(condition) for condition in conditions],
    }


def compare(condition: Condition, found: Speed, neighbours: list[Speed]) -> None:
    hot = statistics.mean(base.hot for base in neighbours)
    condition.ratios_hot.append(found.hot / hot)
    condition.ratios_whole.append(found.whole / hot)
    condition.ratios_cpu.append(found.cpu / statistics.mean(base.cpu for base in neighbours))


def last_ratios(condition: Condition) -> str:
    stored = condition.stored_bytes / condition.seconds_whole / 1e9
    hot, whole, cpu = condition.ratios_hot[-1], condition.ratios_whole[-1], condition.ratios_cpu[-1]
    return f"hot {hot:.3f} whole {whole:.3f} cpu {cpu:.3f} {stored:.2f} GB/s"


def read_outcome(condition: Condition, path: Path, seconds: float) -> None:
    condition.stored_bytes = path.stat().st_size if path.exists() else 0
    condition.seconds_whole = seconds
    if condition.name.startswith("dwell") and path.exists():
        with dwell.open(path) as stream:
            condition.packets = len(stream)
            condition.raw_bytes = sum(tensor.raw_bytes for tensor in stream)


def summary(condition: Condition) -> dict[str, Any]:
    values = asdict(condition) | {
        "hot": statistics.median(condition.ratios_hot),
        "whole": statistics.median(condition.ratios_whole),
        "cpu": statistics.median(condition.ratios_cpu),
        "stored_gb_per_s": condition.stored_bytes / condition.seconds_whole / 1e9,
        "raw_gb_per_s": condition.raw_bytes / condition.seconds_whole / 1e9,
    }
    values.pop("open")
    return values


def disk_rate_gb_per_s(folder: Path, gigabytes: int) -> float:
    """What the disk itself takes: writes of 8 MiB past the page cache."""
    path = folder / "disk.bench"
    blocks = gigabytes * 125
    begin = time.perf_counter()
    command = ["dd", "if=/dev/zero", f"of={path}", "bs=8M", f"count={blocks}", "oflag=direct", "status=none"]
    subprocess.run(command, check=True)
    seconds = time.perf_counter() - begin
    path.unlink()
    return blocks * 8 * 2**20 / seconds / 1e9


def has_peer() -> bool:
    with contextlib.suppress(ImportError):
        import llm_instrumentation  # noqa: F401

        return True
    say("llm-instrumentation is not installed; it is left out")
    return False


def cpu_results(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    model = build_model("134m", "cpu", torch.float32)
    layers = model.config.num_hidden_layers

    def conditions() -> list[Condition]:
        found = [dwell_condition(model, "dwell balanced, every block", "float", layers, 1.0)]
        if has_peer():
            found.append(peer_condition(model, "llm-instrumentation balanced, as shipped", every_block=False))
            found.append(peer_condition(model, "llm-instrumentation balanced, every block", every_block=True))
        return found

    workloads = [prompt_workload(model, "cpu", 1, 512, arguments.seconds), decode_workload(model, "cpu", 1, 48)]
    return [measure(work, conditions(), arguments.rounds, arguments.folder) for work in workloads]


def gpu_results(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    model = build_model("1.1b", "cuda", torch.float16)
    layers = model.config.num_hidden_layers
    folder, seconds, memory_gb = arguments.folder, arguments.seconds, 2.0
    results = []
    if "decode" in arguments.parts:
        decode = [
            Condition("nothing", lambda path: contextlib.nullcontext()),
            dwell_condition(model, "dwell balanced, every block", "float", layers, memory_gb),
        ]
        results.append(measure(decode_workload(model, "cuda", 8, 64), decode, arguments.rounds, folder))
    if "prompt" in arguments.parts:
        curve = [
            dwell_condition(model, f"dwell {codec}, {count} of {layers} blocks", codec, count, memory_gb)
            for codec, counts in GPU_CURVE.items()
            for count in counts
        ]
        results.append(measure(prompt_workload(model, "cuda", 8, 1024, seconds), curve, 1, folder))
    if "peer" in arguments.parts and has_peer():
        peer = [
            peer_condition(model, "llm-instrumentation balanced, as shipped", every_block=False),
            peer_condition(model, "llm-instrumentation balanced, every block", every_block=True),
        ]
        results.append(measure(prompt_workload(model, "cuda", 8, 1024, 0.05), peer, 1, folder))
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0, help="how long prompts are computed for each figure")
    parser.add_argument("--parts", nargs="+", choices=["decode", "prompt", "peer"], default=["decode", "prompt", "peer"], help="on a GPU")
    parser.add_argument("--folder", type=Path, default=Path("."), help="where captures are written and removed again")
    parser.add_argument("--disk-gb", type=int, default=4, help="how much is written to learn the disk's own rate")
    arguments = parser.parse_args()
    before = disk_rate_gb_per_s(arguments.folder, arguments.disk_gb)
    results = gpu_results(arguments) if arguments.device == "cuda" else cpu_results(arguments)
    after = disk_rate_gb_per_s(arguments.folder, arguments.disk_gb)
    about = {
        "device": torch.cuda.get_device_name() if arguments.device == "cuda" else platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "torch": torch.__version__,
        "disk_gb_per_s": [before, after],
    }
    json.dump({"about": about, "results": results}, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
