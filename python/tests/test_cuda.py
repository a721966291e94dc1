"""Captures from a GPU. Skipped where there is none."""

from __future__ import annotations

import threading
from pathlib import Path

import models
import pytest
import torch
from streams import options
from torch import nn

import dwell
from dwell import InstrumentationConfig, _core
from dwell.transfer import DTYPE_CODES, SMALL_BYTES, RingTransport

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
