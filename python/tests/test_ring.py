"""The way of a GPU's tensors, with tensors of the CPU: order, waiting, dropping, failing."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import torch
from streams import options

import dwell
from dwell import _core
from dwell.transfer import RingTransport


@pytest.mark.parametrize("waits", [True, False])
def test_order_and_counts_hold_when_the_ring_is_too_small(waits: bool, path: Path) -> None:
    pressure = "block" if waits else "drop"
    stream = _core.Stream.create(path, options("zstd:9", pressure=pressure))
    transport = RingTransport(stream, 1 << 19, waits=waits)
    name, count = stream.name("x", 3), 200
    for number in range(count):
        transport.emit(name, number, None, torch.full((20_000,), number) + torch.randint(0, 9, (20_000,)))
        if number % 10 == 9:
            transport.record_token(number, "t")
            transport.end_pass()
    transport.close()
    stream.finish()
    file = dwell.open(path)
    dropped = file.dropped.get("x", (0, 0))[0]
    assert len(file) + dropped == count and (dropped == 0) == waits
    assert [tensor.step for tensor in file] == sorted(tensor.step for tensor in file)
    # Packets are numbered as the hooks ran, dropped ones too, so a packet's number is its step here.
    assert all(tensor.packet == tensor.step for tensor in file)
    assert [token.packet for token in file.tokens] == list(range(10, count + 1, 10))
    for tensor in file:
        difference = tensor.to_torch() - tensor.step
        assert 0 <= difference.min() and difference.max() < 9


def test_a_tensor_larger_than_the_ring_takes_another_way(path: Path) -> None:
    stream = _core.Stream.create(path, options("none"))
    transport = RingTransport(stream, 1 << 12, waits=True)
    name = stream.name("x", None)
    for size in (10, 5000, 20):
        transport.emit(name, size, None, torch.arange(size))
    transport.close()
    stream.finish()
    assert [tensor.shape for tensor in dwell.open(path)] == [(10,), (5000,), (20,)]


def test_a_failure_in_the_background_reaches_the_next_call_and_nobody_waits_for_ever(path: Path) -> None:
    stream = _core.Stream.create(path, options("none"))
    transport = RingTransport(stream, 1 << 16, waits=True)
    name = stream.name("x", None)
    stream.finish()
    with pytest.raises(dwell.DwellError, match="has ended"):
        for _ in range(100):
            transport.emit(name, 0, None, torch.zeros(4000, dtype=torch.uint8))
            transport.end_pass()
        transport.drain()
    with pytest.raises(dwell.DwellError, match="has ended"):
        transport.close()


def test_tensors_of_any_size_come_through_a_ring_that_holds_few_of_them(path: Path) -> None:
    stream = _core.Stream.create(path, options("float"))
    transport = RingTransport(stream, 1 << 16, waits=True)
    name = stream.name("x", None)
    sizes = torch.randint(0, 1 << 16, (2000,)).tolist()
    for step, size in enumerate(sizes):
        transport.emit(name, step, None, torch.full((size,), step % 251, dtype=torch.uint8))
    transport.close()
    stream.finish()
    for step, (tensor, size) in enumerate(zip(dwell.open(path), sizes, strict=True)):
        assert tensor.shape == (size,) and torch.all(tensor.to_torch() == step % 251)


def test_threads_share_a_ring(path: Path) -> None:
    stream = _core.Stream.create(path, options("float"))
    transport = RingTransport(stream, 1 << 18, waits=True)

    def run(number: int) -> None:
        name = stream.name(f"thread {number}", number)
        for step in range(100):
            transport.emit(name, step, None, torch.full((500,), float(step)))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    transport.close()
    stream.finish()
    file = dwell.open(path)
    for number in range(4):
        tensors = file.select(f"thread {number}")
        assert [tensor.step for tensor in tensors] == list(range(100))
        assert all(torch.all(tensor.to_torch() == tensor.step) for tensor in tensors)
