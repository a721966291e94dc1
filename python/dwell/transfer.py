"""From a tensor's memory to the stream.

`CopyTransport` copies while the hook runs: what the model does to the tensor afterwards does not matter.
`RingTransport` copies from a GPU without waiting for it, into memory that the GPU writes by itself.
"""

from __future__ import annotations

from typing import Protocol

import torch

from dwell import _core
from dwell.errors import CaptureError

__all__ = ["CopyTransport", "RingTransport", "Transport"]

DTYPE_CODES: dict[torch.dtype, int] = {
    getattr(torch, name): code for code, name in enumerate(_core.dtype_names()) if hasattr(torch, name)
}
_PLAIN_TYPES = {torch.Tensor, torch.nn.Parameter, getattr(torch.nn, "Buffer", torch.nn.Parameter)}

SMALL_BYTES = 256 << 10
"""Below, a copy on the model's own stream costs less than a change of streams."""


class Transport(Protocol):
    """A way from a tensor to the stream."""

    def emit(self, name: int, step: int, token_index: int | None, tensor: torch.Tensor) -> None:
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

    def __init__(self, stream: _core.Stream, ring_bytes: int, waits: bool) -> None:
        self._stream = stream
        uses_cuda = torch.cuda.is_available()
        memory = torch.empty(ring_bytes, dtype=torch.uint8, pin_memory=uses_cuda)
        ring = _core.Ring(memory, memory.data_ptr(), ring_bytes)
        self._transfer = _core.Transfer(stream, ring, uses_cuda, waits)
        self._ring_bytes = ring_bytes
        self.record_token = self._transfer.record_token
        self.end_pass = self._transfer.end_pass
        self.drain = self._transfer.drain
        self.close = self._transfer.close

    def emit(self, name: int, step: int, token_index: int | None, tensor: torch.Tensor) -> None:
        code, tensor = dense(tensor)
        values = (name, step, token_index, code, tensor.shape)
        if tensor.is_cuda:
            is_taken = self._emit_from_gpu(values, tensor)
        else:
            tensor = tensor.contiguous()
            is_taken = self._transfer.copy(values, tensor.data_ptr(), tensor.nbytes)
        if not is_taken:
            self._refuse(values, tensor)

    def _emit_from_gpu(self, values: _core.TensorValues, tensor: torch.Tensor) -> bool:
        device = tensor.get_device()
        if device != _current_device():
            with torch.cuda.device(device):
                return self._emit_from_gpu(values, tensor)
        if torch.cuda.is_current_stream_capturing():
            raise CaptureError(
                "a CUDA graph is being recorded; hooks do not run when it is replayed", ["capture without CUDA graphs"]
            )
        source, size = None, tensor.nbytes
        if size >= SMALL_BYTES and size <= self._ring_bytes:
            tensor = source = tensor.clone(memory_format=torch.contiguous_format)
        else:
            tensor = tensor.contiguous()
        stream = _current_raw_stream(device)
        return self._transfer.copy_from_gpu(values, tensor.data_ptr(), size, stream, source)

    def _refuse(self, values: _core.TensorValues, tensor: torch.Tensor) -> None:
        """A tensor without room in the ring: dropped, or, if a ring of this size can never hold it, copied by itself."""
        if tensor.nbytes <= self._ring_bytes:
            self._transfer.count_dropped(values)
            return
        self.drain()
        plain = tensor.cpu().contiguous()
        self._stream.submit(values, plain.data_ptr(), plain.nbytes)


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
