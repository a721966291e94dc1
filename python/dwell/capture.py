"""One capture: hooks on a model while a `with` block lasts."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from os import PathLike, fspath
from pathlib import Path
from types import TracebackType
from typing import Any, cast
from weakref import WeakSet

import torch
from torch import nn

from dwell import _core
from dwell.architectures import detect_model_architecture, unwrapped
from dwell.config import InstrumentationConfig
from dwell.deferral import Deferral, Output
from dwell.ending import Failures, warn, warn_of_slowness
from dwell.errors import CaptureWarning, DwellError, UsageError
from dwell.hooks import Index, Target, enclosing_modules, index_of, select_modules, tensors_of
from dwell.passes import Passes
from dwell.tokens import Token
from dwell.transfer import CopyTransport, RingTransport, Transport

__all__ = ["Capture"]

DEFAULT_MEMORY_BYTES = 1 << 30
MAX_RING_BYTES = 1 << 30


class Capture:
    """A capture that is running, as a context manager.

    `record_token` marks token boundaries; `tokens`, `progress` and `summary` tell how far it is. What could not be
    captured raises a `CaptureError` at the end of the block; the model's own results are never touched.
    """

    def __init__(
        self,
        models: Sequence[nn.Module],
        output_path: str | PathLike[str],
        config: InstrumentationConfig,
        *,
        track_per_token: bool = False,
        checkpoint_interval_tokens: int | None = None,
        checkpoint_path: str | PathLike[str] | None = None,
        resume_from_checkpoint: bool = False,
    ) -> None:
        _check_checkpoint_arguments(
            track_per_token, checkpoint_interval_tokens, checkpoint_path, resume_from_checkpoint
        )
        _check_kinds(models, config)
        config.check()
        self.output_path = fspath(output_path)
        self.config = config
        self.tokens: list[Token] = []
        self.summary: dict[str, Any] | None = None
        """What the stream came to, once the block has ended."""
        self._models = list(models)
        self._index: Index | None = index_of(config)
        self._tracks = track_per_token
        self._interval = checkpoint_interval_tokens
        self._checkpoint_path = checkpoint_path
        self._resumes = resume_from_checkpoint
        self._handles: list[Any] = []
        self._stance = ExitStack()
        self._failures = Failures(config.strict)
        self._silent: set[str] = set()
        self._passes: list[Passes] = []
        self._has_begun = False
        self._is_over = False
        self._is_of_parent = False

    def __enter__(self) -> Capture:
        if self._has_begun:
            raise UsageError(
                "beginning a capture a second time, which would replace its stream",
                ["call capture_activations again, with another output_path"],
            )
        selected = [select_modules(model, self.config) for model in self._models]
        first_step = self._open_stream()
        try:
            self._run_as_written()
            self._transport = self._choose_transport()
            self._deferral = self._choose_deferral()
            for number, (model, targets) in enumerate(zip(self._models, selected, strict=True)):
                prefix = f"{number}." if len(self._models) > 1 else ""
                self._attach(model, targets, prefix, first_step)
        except BaseException:
            self._detach()
            self._stream.abandon()
            raise
        self._has_begun = True
        _running.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over = True
        self._detach()
        if self._is_of_parent:
            return
        failure = self._end(is_failed=kind is not None) or self._failures.sum()
        if failure is None:
            self._warn_of_silence()
            warn_of_slowness(self.output_path, self.config.target_throughput_gbps, self.summary)
        elif kind is None:
            raise failure
        else:
            warnings.warn(f"the capture {self.output_path!r} failed too: {failure}", CaptureWarning, stacklevel=2)

    def record_token(self, token_id: int, token_text: str, position: int | None = None) -> None:
        """Marks that a token is complete: tensors from here on belong to the next one.

        `position` is taken for the sake of scripts that give it; tokens are numbered as they come.
        """
        if not self._tracks:
            raise UsageError(
                "recording a token in a capture that does not track them", ["capture with track_per_token=True"]
            )
        self._check_runs_here()
        self._deferral.hand_over()
        self._transport.record_token(int(token_id), token_text)
        self.tokens.append(Token(len(self.tokens), int(token_id), token_text))
        if self._interval is not None and len(self.tokens) % self._interval == 0:
            self.checkpoint()

    def checkpoint(self) -> None:
        """Makes everything so far durable, and leaves a checkpoint to resume from."""
        self._drain()
        self._stream.checkpoint()

    def flush(self) -> None:
        """Returns when everything so far is in the file."""
        self._drain()
        self._stream.flush()

    def progress(self) -> dict[str, Any]:
        """Counts so far: tensors and bytes handed over, written, dropped; memory; how long the model waited."""
        if self.summary is not None:
            return self.summary
        self._check_runs_here()
        return self._stream.progress()

    def analyze_activations(self, stream_path: str | PathLike[str] | None = None) -> dict[str, Any]:
        """What a stream holds; this capture's own by default."""
        from dwell.analysis import analyze_activations

        return analyze_activations(self.output_path if stream_path is None else stream_path)

    def _check_runs_here(self) -> None:
        if not self._has_begun:
            raise UsageError("using a capture that has not begun", ["use it inside `with … as capture:`"])
        if self._is_of_parent:
            raise UsageError("using a capture of the parent process", ["a child begins a capture of its own"])

    def _drain(self) -> None:
        self._check_runs_here()
        self._deferral.hand_over()
        self._transport.drain()

    def _leave_to_parent(self) -> None:
        """In a forked child there are none of the threads that write the stream."""
        self._is_over = self._is_of_parent = True
        self._stream.leave_to_parent()
        for passes in self._passes:
            passes.close()

    def _open_stream(self) -> int:
        options = self._options()
        if not self._resumes or not Path(self.output_path).exists():
            self._stream = _core.Stream.create(self.output_path, options)
            if self._interval is not None:
                # Killed before the first interval is over, it can be resumed too.
                self._stream.checkpoint()
            return 0
        self._stream, tokens, resumed = _core.Stream.resume(self.output_path, options)
        self.tokens = [Token(*token) for token in tokens]
        return resumed["next_step"]

    def _options(self) -> _core.Options:
        config = self.config
        memory = DEFAULT_MEMORY_BYTES if config.max_memory_gb is None else int(config.max_memory_gb * 1e9)
        memory = min(memory, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2)
        self._ring_bytes = min(memory // 2, MAX_RING_BYTES) // 4096 * 4096 if self._uses_cuda() else 0
        return {
            "codec": config.compression_algorithm,
            "pressure": config.pressure,
            "max_memory_bytes": memory - self._ring_bytes,
            "flush_bytes": None if config.flush_mb is None else int(config.flush_mb * 1e6),
            "flush_interval_s": config.flush_interval_s,
            "workers": config.workers,
            "direct_io": config.direct_io,
            "spill_dir": config.spill_dir,
            "max_spill_bytes": None if config.max_spill_gb is None else int(config.max_spill_gb * 1e9),
            "checkpoint_path": self._checkpoint_path,
            "metadata": self._metadata(),
        }

    def _metadata(self) -> dict[str, str]:
        model = unwrapped(self._models[0])
        config = getattr(model, "config", None)
        about = {
            "dwell.engine": "torch",
            "dwell.torch_version": str(torch.__version__),
            "dwell.model_class": type(model).__name__,
            "dwell.architecture": self.config.architecture or detect_model_architecture(model),
            "dwell.granularity": self.config.granularity.value,
            "dwell.targets": ",".join(self.config.targets or []),
            "dwell.slice": self.config.slice or (repr(self._index) if self._index else ""),
            "dwell.model_name": str(getattr(config, "_name_or_path", "") or ""),
        }
        return {key: value for key, value in about.items() if value}

    def _uses_cuda(self) -> bool:
        return any(value.is_cuda for model in self._models for value in (*model.parameters(), *model.buffers()))

    def _choose_transport(self) -> Transport:
        if self._ring_bytes:
            return RingTransport(self._stream, self._ring_bytes, waits=self.config.pressure != "drop")
        return CopyTransport(self._stream)

    def _choose_deferral(self) -> Deferral:
        transport, config = self._transport, self.config
        # What is in the file before its module returns is not put off, and a slice is made while the hook runs.
        is_wanted = config.defer_copies and not config.synchronous and self._index is None
        late = transport if is_wanted and isinstance(transport, RingTransport) else None
        return Deferral(transport, late, lambda: len(self.tokens) if self._tracks else None, self._failures.add)

    def _attach(self, model: nn.Module, targets: list[Target], prefix: str, first_step: int) -> None:
        passes = Passes(first_step, self._deferral.end_pass)
        self._passes.append(passes)
        # Wrappers generate by calling the model within them: a pass begins with whichever is called first.
        roots = enclosing_modules(model, self.config)
        # The counting hooks stand outermost: other hooks of the same module run within the pass.
        for root in roots:
            self._handles.append(root.register_forward_pre_hook(passes.begin, prepend=True))
        for target in targets:
            name = prefix + target.name
            self._silent.add(name)
            self._handles.append(target.module.register_forward_hook(self._hook(name, target.layer, passes)))
        for root in roots:
            self._handles.append(root.register_forward_hook(passes.end, always_call=True))

    def _run_as_written(self) -> None:
        """Has compiled models run uncompiled meanwhile: their code may have been made without hooks."""
        compiler: Any = torch.compiler
        if _has_compiled_parts(self._models) and hasattr(compiler, "set_stance"):
            warnings.warn(
                "the model is compiled; while it is captured it runs as it was written", CaptureWarning, stacklevel=3
            )
            self._stance.enter_context(compiler.set_stance("force_eager"))

    def _hook(self, name: str, layer: int | None, passes: Passes) -> Callable[[nn.Module, Any, Any], None]:
        first = self._output(name, layer)
        outputs = {"": first}
        put_off, failures = self._deferral.putter(passes.here), self._failures
        is_compiling = torch.compiler.is_compiling

        def take(returned: Any) -> None:
            if self._is_over:
                return
            self._silent.discard(name)
            step = passes.step()
            if type(returned) is torch.Tensor:
                self._emit(first, step, returned, passes)
                return
            for suffix, tensor in tensors_of(returned):
                output = outputs.get(suffix)
                if output is None:
                    output = outputs[suffix] = self._output(name + suffix, layer)
                if not put_off(output, tensor):
                    self._emit(output, step, tensor, passes)

        def hook(module: nn.Module, args: Any, returned: Any) -> None:
            try:
                if not put_off(first, returned):
                    take(returned)
            except Exception as error:
                failures.add(name, error)

        def hook_unless_compiling(module: nn.Module, args: Any, returned: Any) -> None:
            if not is_compiling():
                hook(module, args, returned)

        if "torch._dynamo" not in sys.modules:
            # Nothing is compiled so far, and to ask for more would load the compiler, which takes seconds.
            return hook_unless_compiling
        compiler: Any = torch.compiler
        take = compiler.disable(take)
        # Compiled code breaks off for the hook, and does not look into it. The hook itself is only marked: a function put
        # around it would cost more than it does.
        return cast(Callable[[nn.Module, Any, Any], None], compiler.disable(hook, recursive=False))

    def _output(self, name: str, layer: int | None) -> Output:
        return self._deferral.output(name, self._stream.name(name, layer))

    def _emit(self, output: Output, step: int, tensor: torch.Tensor, passes: Passes) -> None:
        if self._index is not None:
            tensor = tensor.detach()[self._index]
        self._deferral.emit(output, step, tensor, is_in_pass=passes.here.step is not None)
        if self.config.synchronous:
            self.flush()

    def _detach(self) -> None:
        self._stance.close()
        for passes in self._passes:
            passes.close()
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _end(self, is_failed: bool) -> DwellError | None:
        """Ends the stream; what failed in doing so."""
        failure: DwellError | None = None
        try:
            try:
                self._deferral.hand_over()
            finally:
                self._transport.close()
            self._deferral.close()
        except DwellError as error:
            failure = error
        except BaseException:
            # Ctrl-C while the last tensors are on their way: what came through is kept.
            self._stream.abandon()
            raise
        try:
            self.summary = self._stream.abandon() if is_failed or failure else self._stream.finish()
        except DwellError as error:
            failure = failure or error
        return failure

    def _warn_of_silence(self) -> None:
        packets = 0 if self.summary is None else self.summary["packets"]
        if not any(passes.begun for passes in self._passes):
            if packets == 0:
                warn(
                    f"the capture {self.output_path!r} holds nothing: no forward pass of the model was seen",
                    "call model(…) inside the block",
                )
        elif self._silent and (packets == 0 or _has_compiled_parts(self._models)):
            some = ", ".join(sorted(self._silent)[:3])
            warn(
                f"the hooks of {len(self._silent)} selected modules never ran ({some}, …)",
                "code that is compiled during a capture does not call them: compile the model before it, "
                'or run it with torch.compiler.set_stance("force_eager")',
            )


_running: WeakSet[Capture] = WeakSet()


def _leave_to_parent() -> None:
    for capture in list(_running):
        capture._leave_to_parent()


os.register_at_fork(after_in_child=_leave_to_parent)


def _has_compiled_parts(models: Sequence[nn.Module]) -> bool:
    return any(
        hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None
        for model in models
        for module in model.modules()
    )


def _check_kinds(models: Sequence[object], config: object) -> None:
    for model in models:
        if not isinstance(model, nn.Module):
            raise UsageError(f"a model of type {type(model).__name__}, and a torch.nn.Module is needed")
    if not isinstance(config, InstrumentationConfig):
        raise UsageError(
            f"a configuration of type {type(config).__name__}, and an InstrumentationConfig is needed",
            ["config=dwell.InstrumentationConfig.balanced().with_…"],
        )


def _check_checkpoint_arguments(tracks: bool, interval: int | None, path: object, resumes: bool) -> None:
    if not tracks and (interval is not None or path is not None or resumes):
        raise UsageError(
            "checkpoints without tokens; a checkpoint stands at a token boundary", ["capture with track_per_token=True"]
        )
    if interval is not None and interval < 1:
        raise UsageError(f"checkpoint_interval_tokens={interval}, and at least 1 is needed")
