"""Captures from a GPU. Skipped where there is none."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import models
import pytest
import torch
from streams import options
from torch import nn

import dwell
from dwell import InstrumentationConfig, _core, deferral
from dwell.capture import Capture
from dwell.deferral import Output
from dwell.transfer import DTYPE_CODES, SMALL_BYTES, Late, RingTransport

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("length", [5, 50])
def test_values_are_those_of_plain_hooks(dtype: torch.dtype, length: int, path: Path) -> None:
    model = models.llama().to("cuda", dtype)
    ids = models.ids(length=length).cuda()
    with torch.no_grad():
        truth = models.plain_outputs(model, lambda: model(ids))
        with dwell.capture_activations(model, path):
            for _ in range(3):
                model(ids)
    stream = dwell.open(path)
    assert [tensor.step for tensor in stream.select("lm_head")] == [0, 1, 2]
    assert [tensor.packet for tensor in stream] == list(range(3 * (models.LAYERS + 1)))
    for tensor in stream:
        assert models.same_bits(tensor.to_torch(), truth[tensor.name].cpu()), tensor


@pytest.mark.parametrize("elements", [1000, SMALL_BYTES, 4 * SMALL_BYTES])
def test_what_is_overwritten_at_once_is_captured_as_it_was(elements: int, path: Path) -> None:
    model = nn.ModuleDict({"part": nn.Identity()}).cuda()
    config = InstrumentationConfig(compression_algorithm="none", max_memory_gb=0.5).with_targets("part")
    # A parameter, so that the capture knows of the GPU from the start.
    model.register_parameter("weight", nn.Parameter(torch.zeros(1, device="cuda")))
    value = torch.zeros(elements, device="cuda")
    with dwell.capture_activations(model, path, config=config):
        for number in range(200):
            value.fill_(float(number))
            model["part"](value)
            value.fill_(-1.0)
    for number, tensor in enumerate(dwell.open(path)):
        assert torch.all(tensor.to_torch() == number), number


def test_every_type_comes_back(path: Path) -> None:
    stream = _core.Stream.create(path, options("float"))
    transport = RingTransport(stream, 1 << 22, waits=True)
    name = stream.name("x", None)
    given = []
    for dtype in sorted(DTYPE_CODES, key=str):
        high = 2 if dtype is torch.bool else 256
        bits = torch.randint(0, high, (4096 * (1 if dtype is torch.bool else dtype.itemsize),), dtype=torch.uint8)
        for tensor in (
            bits.view(dtype),
            bits.view(dtype).reshape(64, 64).t(),
            bits.view(dtype)[0],
            bits.view(dtype)[:0],
        ):
            given.append(tensor)
            transport.emit(name, 0, None, tensor.cuda())
    transport.close()
    stream.finish()
    for tensor, expected in zip(dwell.open(path), given, strict=True):
        assert models.same_bits(tensor.to_torch(), expected.contiguous()), expected.dtype


def test_tokens_stand_between_the_tensors_of_their_passes(path: Path) -> None:
    model = models.llama().cuda()
    ids = models.ids(batch=1).cuda()
    with (
        torch.no_grad(),
        dwell.capture_activations(model, path, track_per_token=True, checkpoint_interval_tokens=4) as capture,
    ):
        for number in range(10):
            model(ids)
            capture.record_token(number, str(number))
    stream = dwell.open(path)
    assert [token.packet for token in stream.tokens] == [(models.LAYERS + 1) * (number + 1) for number in range(10)]


@pytest.mark.parametrize("pressure", ["block", "drop", "spill"])
def test_a_ring_that_is_far_too_small_loses_nothing_uncounted(pressure: str, path: Path) -> None:
    model = nn.ModuleDict({"part": nn.Identity()})
    model.register_parameter("weight", nn.Parameter(torch.zeros(1, device="cuda")))
    config = InstrumentationConfig(compression_algorithm="zstd:9", max_memory_gb=0.1, pressure=pressure).with_targets(
        "part"
    )
    count = 100
    with dwell.capture_activations(model, path, config=config) as capture:
        for number in range(count):
            model["part"](torch.full((1 << 20,), float(number), device="cuda") + torch.rand(1 << 20, device="cuda"))
    stream = dwell.open(path)
    dropped = stream.dropped.get("part", (0, 0))[0]
    assert len(stream) + dropped == count
    assert dropped == 0 or pressure == "drop"
    assert capture.progress()["peak_memory_bytes"] <= 100_000_000
    for tensor in stream:
        values = tensor.to_torch()
        assert tensor.packet <= float(values.min()) and float(values.max()) <= tensor.packet + 1


def test_streams_and_threads_of_the_model_do_not_mix(path: Path) -> None:
    model = nn.ModuleDict({"part": nn.Identity()})
    model.register_parameter("weight", nn.Parameter(torch.zeros(1, device="cuda")))

    def run(number: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(50):
                for size in (100, SMALL_BYTES):
                    model["part"](torch.full((size,), float(number), device="cuda"))

    config = InstrumentationConfig(compression_algorithm="none").with_targets("part")
    with dwell.capture_activations(model, path, config=config):
        threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    stream = dwell.open(path)
    assert len(stream) == 4 * 50 * 2
    assert all(len(torch.unique(tensor.to_torch())) == 1 for tensor in stream)


def test_a_hook_never_waits_for_the_gpu(path: Path) -> None:
    """With a second of work queued, a forward pass with hooks returns long before the work is done."""
    model = models.llama().to("cuda", torch.bfloat16)
    ids = models.ids().cuda()
    with torch.no_grad(), dwell.capture_activations(model, path):
        model(ids)
        torch.cuda.synchronize()
        done = torch.cuda.Event()
        torch.cuda._sleep(2_000_000_000)
        model(ids)
        done.record()
        assert not done.query(), "the pass waited for the GPU"
    assert len(dwell.open(path)) == 2 * (models.LAYERS + 1)


def test_small_tensors_of_several_streams_come_back_in_order(path: Path) -> None:
    stream = _core.Stream.create(path, options("none"))
    transport = RingTransport(stream, 1 << 26, waits=True)
    name = stream.name("x", None)
    sizes = torch.randint(0, SMALL_BYTES, (3000,)).tolist()
    side = torch.cuda.Stream()
    for step, size in enumerate(sizes):
        with torch.cuda.stream(side if step % 7 == 0 else torch.cuda.default_stream()):
            value = torch.full((size,), step % 251, dtype=torch.uint8, device="cuda")
            transport.emit(name, step, None, value)
            value.fill_(255)
        if step % 50 == 0:
            transport.end_pass()
    transport.close()
    stream.finish()
    for step, (tensor, size) in enumerate(zip(dwell.open(path), sizes, strict=True)):
        assert tensor.shape == (size,) and torch.all(tensor.to_torch() == step % 251), step


class Blocks(nn.Module):
    """Three blocks that add to a tensor; `meddle` sees what each has returned before the next one runs."""

    def __init__(self, meddle: Callable[[int, torch.Tensor], object] = lambda layer, x: None) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Add() for _ in range(3))
        self.meddle = meddle

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for number, layer in enumerate(self.layers):
            x = layer(x)
            self.meddle(number, x)
            x = x.clone()
        return x


class Add(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1, device="cuda"), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.weight


def captured_late(
    model: nn.Module,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    passes: int,
    sizes: Sequence[int] = (64,),
    **fields: Any,
) -> list[tuple[str, int]]:
    """Captures passes over tensors of these sizes, pass n of n's; returns which tensors were copied at its end."""
    late: list[tuple[str, int]] = []
    emit_late = RingTransport.emit_late

    def noted(self: RingTransport, tensors: Sequence[Late], token_index: int | None) -> list[tuple[Output, Exception]]:
        late.extend((one[0].name, one[1]) for one in tensors)
        return emit_late(self, tensors, token_index)

    monkeypatch.setattr(RingTransport, "emit_late", noted)
    config = InstrumentationConfig(
        granularity=dwell.HookGranularity.RESIDUAL, compression_algorithm="none", max_memory_gb=0.5, **fields
    )
    with torch.no_grad(), dwell.capture_activations(model, path, config=config, track_per_token=True) as capture:
        for number in range(passes):
            model(torch.full((sizes[number % len(sizes)],), float(number), device="cuda"))
            capture.record_token(number, "t")
            if number < 10 * len(sizes):
                capture.flush()
    return late


def check_late(path: Path, passes: int, sizes: Sequence[int] = (64,)) -> None:
    """Each tensor is what its layer returned, in the order of the hooks."""
    stream = dwell.open(path)
    assert [(it.name, it.step, it.token_index) for it in stream] == [
        (f"layers.{layer}", step, step) for step in range(passes) for layer in range(3)
    ]
    assert [token.packet for token in stream.tokens] == list(range(3, 3 * passes + 1, 3))
    for tensor in stream:
        values = tensor.to_torch()
        assert values.shape == (sizes[tensor.step % len(sizes)],)
        assert torch.all(values == tensor.step + int(tensor.name[-1]) + 1), (tensor, values)


def test_tensors_that_stay_are_copied_at_the_end_of_the_pass(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    late = captured_late(Blocks(), path, monkeypatch, 500)
    check_late(path, 500)
    assert late == [(f"layers.{layer}", step) for step in range(4, 500) for layer in range(3)]


def test_tensors_of_mixed_sizes_that_stay(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Whole words and not, one element, the largest that waits and the smallest that does not.
    sizes = (64, 1, 33, 2050, SMALL_BYTES // 4 - 4, SMALL_BYTES // 4)
    late = captured_late(Blocks(), path, monkeypatch, 300, sizes)
    check_late(path, 300, sizes)
    assert len(late) > 600 and all(step % len(sizes) != 5 for _, step in late)


def test_more_tensors_than_one_launch_takes(path: Path) -> None:
    model = nn.Sequential(*(Add() for _ in range(400)))
    config = InstrumentationConfig(compression_algorithm="none").with_targets("[0-9]*")
    with torch.no_grad(), dwell.capture_activations(model, path, config=config) as capture:
        for _ in range(12):
            model(torch.zeros(512, device="cuda"))
            capture.flush()
    tensors = list(dwell.open(path))
    assert len(tensors) == 12 * 400
    for place, tensor in enumerate(tensors):
        assert torch.all(tensor.to_torch() == place % 400 + 1), tensor


def scribble(x: torch.Tensor) -> None:
    """Writes to a tensor so that PyTorch does not count it."""
    version = x._version
    torch.from_dlpack(x.detach()).add_(100)
    assert x._version == version


@pytest.mark.parametrize("write", [lambda x: x.add_(100), scribble], ids=["counted", "uncounted"])
def test_what_is_changed_before_the_pass_ends_is_copied_by_its_hook(
    write: Callable[[torch.Tensor], object], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed: list[torch.Tensor] = []

    def change(x: torch.Tensor) -> None:
        write(x)
        changed.append(x)

    late = captured_late(ChangedAtLast(change), path, monkeypatch, 100)
    check_late(path, 100)
    assert {name for name, _ in late} == {"layers.0", "layers.2"}
    assert all(float(x[0]) == step + 102 for step, x in enumerate(changed))


class ChangedAtLast(Blocks):
    """What the second block returned is changed when all have run."""

    def __init__(self, change: Callable[[torch.Tensor], object]) -> None:
        super().__init__()
        self.change = change

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = self.layers[0](x)
        second = self.layers[1](first)
        third = self.layers[2](second)
        self.change(second)
        return third


def test_a_change_that_comes_later_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = iter(range(1000))

    def meddle(layer: int, x: torch.Tensor) -> None:
        if layer == 1 and next(step) == 50:
            x.mul_(1)

    with pytest.raises(dwell.CaptureError, match="1 tensor .*'layers.1' found .* changed in place before the pass"):
        captured_late(Blocks(meddle), path, monkeypatch, 100)
    assert len(dwell.open(path)) == 299


def test_a_write_that_is_not_counted_is_found_when_it_is_proved_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deferral, "PROVED_FOR_PASSES", 50)
    step = iter(range(1000))

    def change(x: torch.Tensor) -> None:
        if next(step) >= 70:
            scribble(x)

    with pytest.raises(dwell.CaptureError, match="uncounted by PyTorch"):
        captured_late(ChangedAtLast(change), path, monkeypatch, 150)


def test_tensors_of_inference_mode_are_copied_by_their_hooks(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Blocks()
    with torch.inference_mode():
        assert captured_late(model, path, monkeypatch, 50) == []
    check_late(path, 50)


def test_without_deferral_each_hook_copies(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert captured_late(Blocks(), path, monkeypatch, 50, defer_copies=False) == []
    check_late(path, 50)


@pytest.mark.parametrize("pressure", ["block", "drop"])
def test_a_ring_that_holds_few_passes_of_a_gpu_that_is_behind(
    pressure: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes, step = 120, iter(range(1000))

    def choose(capture: Capture) -> RingTransport:
        # Seven tensors: those of two passes, or those of one that are compared.
        return RingTransport(capture._stream, 7 * 1792, waits=pressure == "block")

    def meddle(layer: int, x: torch.Tensor) -> None:
        if layer == 0 and next(step) >= 20:
            torch.cuda._sleep(10_000_000)

    monkeypatch.setattr(Capture, "_choose_transport", choose)
    late = captured_late(Blocks(meddle), path, monkeypatch, passes, sizes=(448,), pressure=pressure)
    stream = dwell.open(path)
    dropped = sum(count for count, _ in stream.dropped.values())
    assert len(late) > 2 * passes and len(stream) + dropped == 3 * passes
    assert (dropped > 0) == (pressure == "drop")
    for tensor in stream:
        assert tensor.packet == 3 * tensor.step + int(tensor.name[-1])
        assert torch.all(tensor.to_torch() == tensor.step + int(tensor.name[-1]) + 1), tensor


class Aside(nn.Module):
    """The first block runs on a stream of its own, which is behind when the pass ends and which nobody waits for."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Add() for _ in range(3))
        self.side = torch.cuda.Stream()
        self.kept: list[tuple[torch.Tensor, torch.Tensor]] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            torch.cuda._sleep(2_000_000)
            self.kept.append((x, self.layers[0](x)))
        return self.layers[2](self.layers[1](x + 1))


def test_a_tensor_that_waits_is_copied_on_the_stream_that_computes_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = captured_late(Aside(), path, monkeypatch, 100)
    check_late(path, 100)
    assert late == [(f"layers.{layer}", step) for step in range(4, 100) for layer in range(3)]


def test_threads_with_streams_of_their_own_hand_over_their_own(path: Path) -> None:
    model = Blocks()
    config = InstrumentationConfig(granularity=dwell.HookGranularity.RESIDUAL, compression_algorithm="none")

    def run(number: int) -> None:
        with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(100):
                model(torch.full((64,), float(10 * number), device="cuda"))

    with dwell.capture_activations(model, path, config=config) as capture:
        threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        # A thread that has computed nothing hands over what others have put off.
        flushing = threading.Thread(target=lambda: [capture.flush() for _ in range(100)])
        flushing.start()
        for thread in (*threads, flushing):
            thread.join()
    stream = dwell.open(path)
    assert len(stream) == 4 * 100 * 3
    for step in range(400):
        values = [tensor.to_torch().unique().tolist() for tensor in stream.select(step=step)]
        first = values[0][0]
        assert values == [[first], [first + 1], [first + 2]] and first % 10 == 1


def test_a_cuda_graph_is_refused_after_tensors_were_put_off(path: Path) -> None:
    model = Blocks()
    config = InstrumentationConfig(granularity=dwell.HookGranularity.RESIDUAL, compression_algorithm="none")
    given = torch.zeros(64, device="cuda")
    with pytest.raises(dwell.CaptureError, match="3 tensors .* CUDA graph"):
        with torch.no_grad(), dwell.capture_activations(model, path, config=config) as capture:
            for _ in range(8):
                model(given)
                capture.flush()
            torch.cuda.synchronize()
            with torch.cuda.graph(torch.cuda.CUDAGraph()):
                model(given)
    assert len(dwell.open(path)) == 24
