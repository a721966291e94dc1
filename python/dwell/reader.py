"""Tensors back from a stream."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from os import PathLike, fspath
from os.path import exists, samefile
from types import TracebackType
from typing import TYPE_CHECKING, Any, overload

from dwell import _core
from dwell.errors import UsageError
from dwell.tokens import Token

if TYPE_CHECKING:
    import numpy
    import pyarrow
    import torch

__all__ = ["Tensor", "TensorFile", "open"]


class Tensor:
    """A tensor of a stream. Its elements are read when they are asked for."""

    __slots__ = ("_file", "_index", "_values")

    def __init__(self, file: _core.File, index: int) -> None:
        self._file = file
        self._index = index
        self._values = file.entry(index)

    def __reduce__(self) -> tuple[type[Tensor], tuple[_core.File, int]]:
        return Tensor, (self._file, self._index)

    @property
    def name(self) -> str:
        """Where in the model it comes from, such as `model.layers.3`."""
        return self._values["name"]

    @property
    def packet(self) -> int:
        """Its number in the stream; numbers that are missing were dropped."""
        return self._values["packet"]

    @property
    def layer(self) -> int | None:
        """The number of its block."""
        return self._values["layer"]

    @property
    def step(self) -> int:
        """The forward pass that it comes from, from 0."""
        return self._values["step"]

    @property
    def token_index(self) -> int | None:
        """How many tokens had been recorded before."""
        return self._values["token_index"]

    @property
    def timestamp_ns(self) -> int:
        """When it was handed over, on the clock of `time.monotonic_ns`."""
        return self._values["timestamp_ns"]

    @property
    def dtype(self) -> str:
        """The type of its elements, as PyTorch names it: `bfloat16`."""
        return self._values["dtype"]

    @property
    def shape(self) -> tuple[int, ...]:
        """Its dimensions."""
        return tuple(self._values["shape"])

    @property
    def codec(self) -> str:
        """How it is stored."""
        return self._values["codec"]

    @property
    def raw_bytes(self) -> int:
        """Bytes of its elements."""
        return self._values["raw_bytes"]

    @property
    def stored_bytes(self) -> int:
        """Bytes of its elements as they are stored."""
        return self._values["stored_bytes"]

    @property
    def bound(self) -> float | None:
        """What a lossy codec promised for this tensor; the largest of its vectors' bounds where each has its own."""
        return self._values["bound"]

    @property
    def max_error(self) -> float | None:
        """The largest error of a value, measured when it was stored with loss."""
        return self._values["max_error"]

    @property
    def mse(self) -> float | None:
        """The mean of the squared errors, measured when it was stored with loss."""
        return self._values["mse"]

    @property
    def min_cosine(self) -> float | None:
        """The smallest cosine between a vector (one row of the last dimension) and what was stored of it with loss."""
        return self._values["min_cosine"]

    def to_bytes(self) -> bytearray:
        """The elements, little-endian, in row order."""
        return self._file.elements(self._index)

    def to_torch(self) -> torch.Tensor:
        """The tensor with its own type, bit for bit as it was captured unless the codec is lossy."""
        import torch

        dtype = getattr(torch, self.dtype, None)
        if not isinstance(dtype, torch.dtype):
            raise UsageError(
                f"elements of type {self.dtype}, which torch {torch.__version__} has not", ["read them with to_bytes()"]
            )
        if self.raw_bytes == 0:
            return torch.empty(self.shape, dtype=dtype)
        return torch.frombuffer(self.to_bytes(), dtype=torch.uint8).view(dtype).reshape(self.shape)

    def to_numpy(self) -> numpy.ndarray[Any, Any]:
        """The tensor as an array. `bfloat16` becomes `float32`, exactly; `float8` needs the package ml_dtypes."""
        import numpy

        if self.dtype == "bfloat16":
            halves = numpy.frombuffer(self.to_bytes(), dtype="<u2").astype("<u4")
            return (halves << 16).view("<f4").reshape(self.shape)
        if self.dtype.startswith("float8"):
            try:
                import ml_dtypes
            except ImportError:
                hints = ["use to_torch()", "pip install ml_dtypes"]
                raise UsageError(f"elements of type {self.dtype}, which numpy has not", hints) from None
            return numpy.frombuffer(self.to_bytes(), dtype=getattr(ml_dtypes, self.dtype)).reshape(self.shape)
        return numpy.frombuffer(self.to_bytes(), dtype=numpy.dtype(self.dtype).newbyteorder("<")).reshape(self.shape)

    def to_arrow(self) -> pyarrow.Tensor:
        """The tensor as Arrow's, with the type of `to_numpy`."""
        import pyarrow

        return pyarrow.Tensor.from_numpy(self.to_numpy())

    def __repr__(self) -> str:
        return f"<dwell.Tensor {self.name} step={self.step} {self.dtype}{list(self.shape)} packet={self.packet}>"


class TensorFile(Sequence[Tensor]):
    """A tensor stream on disk: a sequence of its tensors, in the order in which they were computed."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = fspath(path)
        self._file = _core.File(path)

    def __len__(self) -> int:
        return len(self._file)

    @overload
    def __getitem__(self, index: int) -> Tensor: ...
    @overload
    def __getitem__(self, index: slice) -> list[Tensor]: ...
    def __getitem__(self, index: int | slice) -> Tensor | list[Tensor]:
        if isinstance(index, slice):
            return [Tensor(self._file, number) for number in range(*index.indices(len(self)))]
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(f"tensor {index} of a stream of {len(self)}")
        return Tensor(self._file, place)

    def __iter__(self) -> Iterator[Tensor]:
        return (Tensor(self._file, index) for index in range(len(self)))

    def select(self, name: str = "*", *, step: int | None = None, layer: int | None = None) -> list[Tensor]:
        """The tensors whose name is, or matches the glob, `name`; of one step or layer if given."""
        names = self._file.names()
        chosen = [name] if name in names else _core.matching(name, names)
        places = sorted(place for one in chosen for place in self._file.find(one, step))
        found = (Tensor(self._file, place) for place in places)
        return [tensor for tensor in found if layer is None or tensor.layer == layer]

    def get(self, name: str, step: int = 0) -> Tensor:
        """The one tensor of this name and step; the last, if a module ran several times in the step."""
        places = self._file.find(name, step)
        if not places:
            some = ", ".join(self.names[:6])
            raise UsageError(
                f"reading {name!r} of step {step} found no such tensor: {self.path!r}", [f"names are: {some}, …"]
            )
        return Tensor(self._file, places[-1])

    @property
    def names(self) -> list[str]:
        """The names of tensors, in the order in which they came."""
        return self._file.names()

    @property
    def tokens(self) -> list[Token]:
        """The tokens that were recorded."""
        return [Token(*values) for values in self._file.tokens()]

    @property
    def dropped(self) -> dict[str, tuple[int, int]]:
        """How many tensors of each name were dropped, and bytes of their elements."""
        return self._file.dropped()

    @property
    def metadata(self) -> dict[str, str]:
        """What the stream says about itself."""
        return self._file.metadata()

    @property
    def is_finished(self) -> bool:
        """Whether the stream was ended; one that was not is readable up to its last whole batch."""
        return self._file.unfinished_because() is None

    @property
    def unfinished_because(self) -> str | None:
        """What is there instead of an end."""
        return self._file.unfinished_because()

    @property
    def file_bytes(self) -> int:
        """Bytes of the file."""
        return self._file.file_bytes()

    def stats(self) -> dict[str, dict[str, Any]]:
        """What `dwell tensors stats` tells, by name: packets, bytes, codecs, errors. `""` is all tensors together."""
        told = json.loads(self._file.stats_json())
        return {figures["name"]: figures for figures in [told["total"], *told["names"]]}

    @property
    def codec_loss(self) -> dict[str, Any] | None:
        """What lossy codecs lost: the codecs, the largest error, the worst vector's cosine, and in which tensors.

        `None` if every tensor comes back bit for bit.
        """
        loss: dict[str, Any] | None = json.loads(self._file.stats_json())["codec_loss"]
        if loss is None:
            return None
        for figure in ("max_error", "min_cosine"):
            worst = loss[figure]
            loss[figure] = worst and (worst["value"], worst["name"], worst["step"])
        return loss

    def to_safetensors(self, path: str | PathLike[str]) -> int:
        """Writes all tensors to a safetensors file, under `name/step`; returns how many there are."""
        if exists(path) and samefile(path, self.path):
            raise UsageError(f"writing the output: it is the stream itself: {fspath(path)!r}", ["choose another name"])
        return self._file.export_safetensors(path)

    def to_arrow(self) -> pyarrow.RecordBatchReader:
        """The rows of the stream as pyarrow reads them, payloads encoded."""
        import pyarrow

        reader: pyarrow.RecordBatchReader = pyarrow.ipc.open_stream(pyarrow.OSFile(self.path, "rb"))
        return reader

    def close(self) -> None:
        """Does nothing that the end of the object does not: for `with` and old habits."""

    def __enter__(self) -> TensorFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "" if self.is_finished else " unfinished"
        return f"<dwell.TensorFile {self.path!r} {len(self)} tensors{state}>"


def open(path: str | PathLike[str]) -> TensorFile:
    """Opens a tensor stream, whole or cut off."""
    return TensorFile(path)
