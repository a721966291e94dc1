"""From a tensor's memory to the stream.

`CopyTransport` copies while the hook runs: what the model does to the tensor afterwards does not matter.
`RingTransport` copies from a GPU without waiting for it, into memory that the GPU writes by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast

import torch

from dwell import _core
from dwell.errors import CaptureError

if TYPE_CHECKING:
    from dwell.deferral import Output

__all__ = ["CopyTransport", "Late", "RingTransport", "Transport"]

Late = tuple["Output", int, torch.Tensor, int, int, int, int]
"""A tensor that is copied after its hook: output, step, tensor, its version and device, the stream that computes it, and
when its hook ran."""

DTYPE_CODES: dict[torch.dtype, int] = {
    getattr(torch, name): code for code, name in enumerate(_core.dtype_names()) if hasattr(torch, name)
}
_PLAIN_TYPES = {torch.Tensor, torch.nn.Parameter, getattr(torch.nn, "Buffer", torch.nn.Parameter)}

SMALL_BYTES = 256 << 10
"""Below, a copy on the model's own stream costs less than a change of streams."""


class Transport(Protocol):
    """A way from a tensor to the stream."""

    def emit(self, name: int, step: int, token_index: int | None, tensor: torch.Tensor) -> object:
        """Takes a tensor; its memory may be changed once this returns."""

    def record_token(self, token_id: int, token_text: str) -> None:
        """Marks that a token is complete, after all tensors taken before."""

    def end_pass(self) -> None:
        """A forward pass has ended."""

    def drain(self) -> None:
        """Returns when all that was taken is handed over."""

    def close(self) -> None:
        """Drains, and ends what runs in the background."""


def dense(tensor: torch.Tensor) -> tuple[int, torch.Tensor]:
    """The code of a tensor's type, and the tensor without what is only a note about its values.

    Raises if it is no plain dense tensor.
    """
    code = DTYPE_CODES.get(tensor.dtype)
    if code is None or type(tensor) not in _PLAIN_TYPES or tensor.layout is not torch.strided or tensor.is_meta:
        raise _unfit(tensor)
    if tensor.requires_grad:
        tensor = tensor.detach()
    if tensor.is_neg() or tensor.is_conj():
        tensor = tensor.resolve_conj().resolve_neg()
    return code, tensor


def _unfit(tensor: torch.Tensor) -> CaptureError:
    if tensor.layout is not torch.strided:
        return CaptureError(
            f"a tensor of layout {tensor.layout}, and a dense one is needed",
            ["capture another module, or convert it with to_dense()"],
        )
    if tensor.is_meta:
        return CaptureError("a tensor on the device meta, which has no values")
    if tensor.dtype not in DTYPE_CODES:
        return CaptureError(
            f"elements of type {tensor.dtype}, which dwell cannot store",
            [f"convert them to one of: {', '.join(_core.dtype_names())}"],
        )
    kind = f"{type(tensor).__module__}.{type(tensor).__qualname__}"
    return CaptureError(
        f"a tensor of class {kind}, whose memory is not plain", ["capture a module that returns a torch.Tensor"]
    )


class CopyTransport:
    """Copies each tensor while its hook runs."""

    def __init__(self, stream: _core.Stream) -> None:
        self._stream = stream

    def emit(self, name: int, step: int, token_index: int | None, tensor: torch.Tensor) -> None:
        code, tensor = dense(tensor)
        if not tensor.is_cpu:
            tensor = tensor.cpu()
        tensor = tensor.contiguous()
        self._stream.submit((name, step, token_index, code, tensor.shape), tensor.data_ptr(), tensor.nbytes)

    def record_token(self, token_id: int, token_text: str) -> None:
        self._stream.record_token(token_id, token_text)

    def end_pass(self) -> None:
        pass

    def drain(self) -> None:
        pass

    def close(self) -> None:
        pass


class RingTransport:
    """Copies tensors of a GPU into a ring of pinned memory, without waiting for the GPU.

    A small tensor is copied on the stream that computes it. A large one is first copied on the GPU, so that the
    model may overwrite it, and from there beside that stream. Tensors of the CPU take the same way, so that there is
    one order.
    """

    late_devices: ClassVar[frozenset[str]] = frozenset({"cuda"})
    """Where tensors lie that may be copied later; on others a copy in the hook costs little."""

    def __init__(self, stream: _core.Stream, ring_bytes: int, waits: bool) -> None:
        self._stream = stream
        uses_cuda = torch.cuda.is_available()
        memory = torch.empty(ring_bytes, dtype=torch.uint8, pin_memory=uses_cuda)
        ring = _core.Ring(memory, memory.data_ptr(), ring_bytes)
        self._transfer = _core.Transfer(stream, ring, uses_cuda, waits)
        self._ring_bytes = ring_bytes
        self.stream_of: Callable[[int], int] = _current_raw_stream
        self.record_token = self._transfer.record_token
        self.end_pass = self._transfer.end_pass
        self.drain = self._transfer.drain
        self.close = self._transfer.close

    def emit(
        self,
        name: int,
        step: int,
        token_index: int | None,
        tensor: torch.Tensor,
        comparison: _core.Comparison | None = None,
    ) -> bool:
        """Takes a tensor, to be compared with what it is later; `False` says that it did not go through the ring."""
        code, tensor = dense(tensor)
        values = (name, step, token_index, code, tensor.shape)
        if tensor.is_cuda:
            is_taken = self._emit_from_gpu(values, tensor, comparison)
        else:
            tensor = tensor.contiguous()
            is_taken = self._transfer.copy(values, tensor.data_ptr(), tensor.nbytes, comparison)
        if not is_taken:
            self._refuse(values, tensor)
        return is_taken

    def _emit_from_gpu(
        self, values: _core.TensorValues, tensor: torch.Tensor, comparison: _core.Comparison | None
    ) -> bool:
        device = tensor.get_device()
        if device != _current_device():
            with torch.cuda.device(device):
                return self._emit_from_gpu(values, tensor, comparison)
        if torch.cuda.is_current_stream_capturing():
            raise CaptureError(
                "a CUDA graph is being recorded; hooks do not run when it is replayed", ["capture without CUDA graphs"]
            )
        source, size = None, tensor.nbytes
        if size >= SMALL_BYTES and size <= self._ring_bytes:
            tensor = source = tensor.clone(memory_format=torch.contiguous_format)
        else:
            tensor = tensor.contiguous()
        stream = self.stream_of(device)
        return self._transfer.copy_from_gpu(values, tensor.data_ptr(), size, stream, source, comparison)

    def can_wait(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor like this may be copied later: small, plain, no part of more memory, its changes counted."""
        return (
            type(tensor) is torch.Tensor
            and tensor.device.type in self.late_devices
            and 0 < tensor.nbytes < SMALL_BYTES
            and _is_plain(tensor)
            and not tensor.is_inference()
            and tensor.untyped_storage().nbytes() < SMALL_BYTES
        )

    def may_wait(self, device: int) -> bool:
        """Whether what this thread computes on a device now may be copied later, on a stream that is not the default."""
        return device == _current_device() and not torch.cuda.is_current_stream_capturing()

    def compare(self, late: Late, comparison: _core.Comparison) -> bool:
        """Copies a tensor once more, to be compared with what `emit` took; `False` if there is no room."""
        _, _, tensor, _, device, stream, _ = late
        return self._transfer.compare(tensor.data_ptr(), tensor.nbytes, _place(device, stream), comparison)

    def emit_late(self, late: Sequence[Late], token_index: int | None) -> list[tuple[Output, Exception]]:
        """Takes tensors after their hooks, in this order; returns those that could not be captured, and why."""
        failures: list[tuple[Output, Exception]] = []
        for (device, stream, is_plain), run in groupby(late, _way):
            if is_plain:
                self._emit_run(list(run), device, stream, token_index, failures)
                continue
            for output, step, tensor, *_ in run:
                try:
                    with _on_stream(device, stream):
                        self.emit(output.number, step, token_index, tensor)
                except Exception as error:
                    failures.append((output, error))
        return failures

    def _emit_run(
        self,
        run: list[Late],
        device: int,
        stream: int,
        token_index: int | None,
        failures: list[tuple[Output, Exception]],
    ) -> None:
        """Takes plain tensors of one stream."""
        rows: list[_core.LateValues] = [
            (
                (output.number, step, token_index, DTYPE_CODES[tensor.dtype], tensor.shape),
                timestamp_ns,
                tensor.data_ptr(),
                tensor.nbytes,
            )
            for output, step, tensor, _, _, _, timestamp_ns in run
        ]
        begin = 0
        while begin < len(rows):
            taken, error = self._transfer.copy_late(rows[begin:], _place(device, stream))
            begin += taken
            if error is None and begin == len(rows):
                return
            output, tensor = run[begin][0], run[begin][2]
            try:
                if error is not None:
                    raise error
                self._refuse(rows[begin][0], tensor)
            except Exception as failure:
                failures.append((output, failure))
            begin += 1

    def _refuse(self, values: _core.TensorValues, tensor: torch.Tensor) -> None:
        """A tensor without room in the ring: dropped, or, if a ring of this size can never hold it, copied by itself."""
        if tensor.nbytes <= self._ring_bytes:
            self._transfer.count_dropped(values)
            return
        self.drain()
        plain = tensor.cpu().contiguous()
        self._stream.submit(values, plain.data_ptr(), plain.nbytes)


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether the elements lie one after another as they are meant."""
    is_strided = tensor.layout is torch.strided
    return is_strided and tensor.is_contiguous() and not (tensor.is_conj() or tensor.is_neg())


def _way(late: Late) -> tuple[int, int, bool]:
    """Device and stream of a tensor, and whether it can be copied as it lies."""
    _, _, tensor, _, device, stream, _ = late
    return device, stream, _is_plain(tensor)


def _place(device: int, stream: int) -> tuple[int, int] | None:
    return (device, stream) if device >= 0 else None


def _on_stream(device: int, stream: int) -> AbstractContextManager[object]:
    """Has PyTorch compute on a stream."""
    if device < 0:
        return nullcontext()
    cuda: Any = torch.cuda
    return cast(
        AbstractContextManager[object],
        cuda.stream(cuda.ExternalStream(stream, device) if stream else cuda.default_stream(device)),
    )


def _current_device() -> int:
    return torch.cuda.current_device()


def _current_raw_stream(device: int) -> int:
    """The driver's handle of the stream that computes on a device."""
    stream: int = torch.cuda.current_stream(device).cuda_stream
    return stream


# PyTorch's own callers of the driver, generated code among them, ask in this way; it costs a tenth.
if hasattr(torch._C, "_cuda_getCurrentRawStream"):
    _current_raw_stream = torch._C._cuda_getCurrentRawStream  # noqa: F811
if hasattr(torch._C, "_cuda_getDevice"):
    _current_device = torch._C._cuda_getDevice  # noqa: F811
