"""Tensors that are copied when their forward pass ends, all at once, and not while their hooks run.

Decoding is bound by the thread that launches kernels: a copy in each hook costs it more than the copies themselves. So a
hook only remembers its tensor, and the copies of a whole pass begin with one launch.

That is right for a tensor that stays as it is until then, and this is found out, not assumed. PyTorch counts what it
changes in place: a count that has moved tells. What writes without counting is told by the bytes: `PROVING_PASSES` times
a tensor is copied by its hook and again at the end of the pass, and both copies are compared, before the first one of its
shape is put off; and again every `PROVED_FOR_PASSES` passes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import torch

from dwell import _core
from dwell.errors import CaptureError
from dwell.passes import OfThread
from dwell.transfer import SMALL_BYTES, Late, RingTransport, Transport

__all__ = ["Deferral", "Output"]

PROVING_PASSES = 2
"""In so many passes a tensor must have stayed as it was before one of its shape is put off."""
PROVED_FOR_PASSES = 1000
"""After so many passes it is found out again."""
MOST_PENDING_BYTES = 64 << 20
MOST_PENDING = MOST_PENDING_BYTES // SMALL_BYTES
"""So many tensors are held back at most, each smaller than `SMALL_BYTES`."""
MOST_SHAPES = 64
"""An output of more shapes than this begins to learn them anew."""

Key = tuple[torch.Size, torch.dtype, int]
_HINTS = ("capture with defer_copies=False: each tensor is then copied before its module returns",)


class Trial:
    """What is known of whether tensors of one shape stay as they are."""

    __slots__ = ("comparisons", "is_again", "steps")

    def __init__(self, is_again: bool) -> None:
        self.comparisons: list[_core.Comparison] = []
        self.steps: set[int] = set()
        self.is_again = is_again
        """Whether such tensors have been put off before."""


class Output:
    """A tensor that a module returns, each time it runs."""

    __slots__ = ("name", "number", "ready", "stays", "trials")

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number
        self.ready: set[Key] = set()
        """What may be put off."""
        self.trials: dict[Key, Trial] = {}
        self.stays = True
        """Whether it was never found changed before a pass ended."""

    def is_found_changed(self) -> None:
        """Never puts it off again."""
        self.stays = False
        self.ready.clear()
        self.trials.clear()


class Pending:
    """What one thread has put off, in order, and what it will compare when its pass ends."""

    def __init__(self) -> None:
        self.late: list[Late] = []
        self.watched: list[tuple[Late, Trial, _core.Comparison]] = []
        self.lock = threading.Lock()
        self.thread = threading.current_thread()


class _Here(threading.local):
    def __init__(self, register: Callable[[Pending], None]) -> None:
        self.pending = Pending()
        register(self.pending)


class Deferral:
    """Decides which tensors are copied at once and which later, and keeps those of a thread in order."""

    def __init__(
        self,
        transport: Transport,
        late: RingTransport | None,
        token_index: Callable[[], int | None],
        fail: Callable[[str, Exception], None],
    ) -> None:
        self._transport = transport
        self._late = late
        """The transport, where tensors may be put off."""
        self._token_index = token_index
        self._fail = fail
        self._outputs: list[Output] = []
        self._pendings: list[Pending] = []
        self._lock = threading.Lock()
        self._here = _Here(self._register)
        self._passes = 0

    def output(self, name: str, number: int) -> Output:
        """An output that tensors are taken of, by the number of its name in the stream."""
        output = Output(name, number)
        self._outputs.append(output)
        return output

    def putter(self, passes: OfThread) -> Callable[[Output, object], bool]:
        """A function that puts a tensor off until the pass of this thread ends; `False` if it must be copied now.

        It runs in every hook, on caches that the model has just filled: it does what it must and no more.
        """
        if self._late is None:
            return _never
        here, hand_over = self._here, self._hand_over
        stream_of, may_wait, now_ns, plain = self._late.stream_of, self._late.may_wait, time.monotonic_ns, torch.Tensor

        def put_off(output: Output, tensor: object) -> bool:
            step = passes.step
            if step is None or type(tensor) is not plain:
                return False
            device = tensor.get_device()
            if (tensor.shape, tensor.dtype, device) not in output.ready:
                return False
            # The copy is begun on the stream that computes the tensor, whichever is current then. CUDA graphs are never
            # recorded from the default stream, whose handle is 0.
            stream = stream_of(device)
            if stream and not may_wait(device):
                return False
            pending = here.pending
            try:
                pending.late.append((output, step, tensor, tensor._version, device, stream, now_ns()))
            except RuntimeError:
                # In inference mode nothing is counted.
                return False
            if len(pending.late) >= MOST_PENDING:
                hand_over(pending)
            return True

        return put_off

    def emit(self, output: Output, step: int, tensor: torch.Tensor, is_in_pass: bool) -> None:
        """Copies a tensor now, after those of this thread that were put off."""
        late, pending = self._late, self._here.pending
        self._hand_over(pending)
        trial = None
        if late is not None and is_in_pass and len(pending.watched) < MOST_PENDING and late.can_wait(tensor):
            trial = self._trial(output, step, tensor)
        if late is None or trial is None:
            self._transport.emit(output.number, step, self._token_index(), tensor)
            return
        comparison = _core.Comparison()
        if not late.emit(output.number, step, self._token_index(), tensor, comparison):
            return
        device = tensor.get_device()
        trial.steps.add(step)
        trial.comparisons.append(comparison)
        again = (output, step, tensor, tensor._version, device, late.stream_of(device), 0)
        pending.watched.append((again, trial, comparison))

    def end_pass(self) -> None:
        """A pass of this thread has ended: what it put off is copied."""
        pending = self._here.pending
        try:
            self._hand_over(pending)
            self._compare(pending)
        finally:
            self._transport.end_pass()
        self._passes += 1
        if self._passes % PROVED_FOR_PASSES == 0:
            self._prove_again()

    def hand_over(self) -> None:
        """Begins the copies of all that any thread has put off."""
        for pending in list(self._pendings):
            self._hand_over(pending)

    def close(self) -> None:
        """Reports what comparisons have come to since somebody asked."""
        for output in self._outputs:
            for trial in list(output.trials.values()):
                if any(comparison.outcome() is False for comparison in trial.comparisons):
                    self._report_unproved(output, trial)

    def _register(self, pending: Pending) -> None:
        """Takes the place of those whose threads have ended."""
        with self._lock:
            kept = [other for other in self._pendings if other.late or other.thread.is_alive()]
            self._pendings = [*kept, pending]

    def _hand_over(self, pending: Pending) -> None:
        # Whoever waits here must find those before in the stream, also if another thread is handing them over.
        with pending.lock:
            late = pending.late[:]
            if not late or self._late is None:
                return
            # The hooks of the thread may add to it meanwhile.
            del pending.late[: len(late)]
            whole: list[Late] = []
            failures: list[tuple[Output, Exception]] = []
            for one in late:
                fault = _fault(one)
                if fault is None:
                    whole.append(one)
                else:
                    one[0].is_found_changed()
                    failures.append((one[0], fault))
            failures += self._late.emit_late(whole, self._token_index())
        for output, error in failures:
            self._fail(output.name, error)

    def _compare(self, pending: Pending) -> None:
        watched, pending.watched = pending.watched, []
        for late, trial, comparison in watched:
            output, step = late[0], late[1]
            if _fault(late) is not None:
                # Its hook has copied it, and so will those to come; what was put off before was found unchanged.
                output.is_found_changed()
                continue
            try:
                is_taken = self._late is not None and self._late.compare(late, comparison)
            except Exception as error:
                self._fail(output.name, error)
                continue
            if not is_taken:
                # There was no room for the second copy: another pass will tell.
                trial.comparisons.remove(comparison)
                trial.steps.discard(step)

    def _trial(self, output: Output, step: int, tensor: torch.Tensor) -> Trial | None:
        """What this tensor is a trial of, if it is to be one."""
        if not output.stays:
            return None
        key = (tensor.shape, tensor.dtype, tensor.get_device())
        trial = output.trials.get(key)
        if trial is None:
            if len(output.trials) >= MOST_SHAPES:
                output.trials = {other: again for other, again in output.trials.items() if again.is_again}
            # A shape that is seen once, as in a prompt, is not worth a second copy.
            output.trials[key] = Trial(is_again=False)
            return None
        if step in trial.steps or len(trial.steps) < PROVING_PASSES:
            return trial
        self._settle(output, key, trial)
        return None

    def _settle(self, output: Output, key: Key, trial: Trial) -> None:
        outcomes = [comparison.outcome() for comparison in trial.comparisons]
        if False in outcomes:
            self._report_unproved(output, trial)
        elif None not in outcomes and output.stays:
            output.trials.pop(key, None)
            if len(output.ready) >= MOST_SHAPES:
                output.ready.clear()
            output.ready.add(key)

    def _report_unproved(self, output: Output, trial: Trial) -> None:
        """A tensor did not stay as it was. In its first trial that harms nothing: none was put off."""
        output.is_found_changed()
        if trial.is_again:
            self._fail(
                output.name,
                CaptureError(
                    "a tensor that was changed before the pass ended, uncounted by PyTorch; those of up to "
                    f"{PROVED_FOR_PASSES} passes before may have been stored so too",
                    _HINTS,
                ),
            )

    def _prove_again(self) -> None:
        for output in self._outputs:
            for key in list(output.ready):
                output.trials[key] = Trial(is_again=True)
            output.ready.clear()


def _never(output: Output, tensor: object) -> bool:
    return False


def _fault(late: Late) -> Exception | None:
    """Why a tensor cannot be copied any more: something was counted, or its memory was taken away."""
    _, _, tensor, version, *_ = late
    try:
        if tensor._version == version and tensor.data_ptr() != 0:
            return None
    except RuntimeError as error:
        return error
    return CaptureError("a tensor that was changed in place before the pass ended, when it was to be copied", _HINTS)
