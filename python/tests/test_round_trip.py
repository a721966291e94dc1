"""Every type, shape and layout of a tensor comes back bit by bit, by both ways into the stream."""

from __future__ import annotations

import tempfile
from pathlib import Path

import models
import pytest
from streams import options
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import dwell
from dwell import _core
from dwell.transfer import DTYPE_CODES, CopyTransport, RingTransport

DTYPES = sorted(DTYPE_CODES, key=str)
LOSSLESS = ["none", "lz4", "zstd:1", "float"]


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    """Tensors of random bits, of every type, shape and order of dimensions, some with steps between elements."""
    dtype = draw(st.sampled_from(DTYPES))
    shape = draw(st.lists(st.integers(0, 7), max_size=4))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    step = draw(st.integers(1, 3))
    count = 1
    for length in shape:
        count *= length
    size = 1 if dtype is torch.bool else dtype.itemsize
    high = 2 if dtype is torch.bool else 256
    bits = torch.randint(0, high, (count * step * size,), dtype=torch.uint8, generator=generator)
    flat = bits.view(dtype)[::step] if count else torch.empty(0, dtype=dtype)
    order = draw(st.permutations(range(len(shape))))
    return flat.reshape(shape).permute(order)


@pytest.mark.parametrize("codec", LOSSLESS)
@pytest.mark.parametrize("way", ["copy", "ring"])
def test_bits_come_back(codec: str, way: str) -> None:
    @settings(max_examples=12, deadline=None, database=None)
    @given(st.lists(tensors(), min_size=1, max_size=24))
    def check(given_tensors: list[torch.Tensor]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.tensors"
            stream = _core.Stream.create(path, options(codec))
            transport = CopyTransport(stream) if way == "copy" else RingTransport(stream, 1 << 16, waits=True)
            name = stream.name("x", None)
            for number, tensor in enumerate(given_tensors):
                transport.emit(name, number, None, tensor)
            transport.close()
            stream.finish()
            file = dwell.open(path)
            assert len(file) == len(given_tensors)
            for number, tensor in enumerate(given_tensors):
                assert file[number].step == number
                assert models.same_bits(file[number].to_torch(), tensor.contiguous()), (tensor.dtype, tensor.shape)

    check()


def test_every_type_of_torch_that_dwell_names_is_there() -> None:
    assert {str(dtype).removeprefix("torch.") for dtype in DTYPES} == set(_core.dtype_names())


def test_conjugated_and_negated_views_are_stored_as_their_values(path: Path) -> None:
    stream = _core.Stream.create(path, options("float"))
    name = stream.name("x", None)
    value = torch.randn(5, dtype=torch.complex64)
    transport = CopyTransport(stream)
    for tensor in (value.conj(), value.conj().imag):
        transport.emit(name, 0, None, tensor)
    stream.finish()
    file = dwell.open(path)
    assert torch.equal(file[0].to_torch(), value.conj().resolve_conj())
    assert torch.equal(file[1].to_torch(), -value.imag)


def test_a_size_that_is_not_the_tensors_is_refused(path: Path) -> None:
    stream = _core.Stream.create(path, options("none"))
    name = stream.name("x", None)
    tensor = torch.ones(4)
    with pytest.raises(dwell.UsageError, match="in 17 bytes"):
        stream.submit((name, 0, None, DTYPE_CODES[torch.float32], tensor.shape), tensor.data_ptr(), 17)
    stream.finish()
    with pytest.raises(dwell.DwellError, match="has ended"):
        stream.flush()


def test_more_than_64ki_names(path: Path) -> None:
    stream = _core.Stream.create(path, options("none"))
    tensor, code = torch.ones(1), DTYPE_CODES[torch.float32]
    for number in range(70_000):
        name = stream.name(f"n{number}", None)
        stream.submit((name, 0, None, code, tensor.shape), tensor.data_ptr(), tensor.nbytes)
    stream.finish()
    file = dwell.open(path)
    assert len(file.names) == 70_000 and file.get("n69999").to_torch().item() == 1.0
