"""Copies that are put off until a pass ends, with tensors of the CPU: order, proofs, and what is changed meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import models
import pytest
import torch
from torch import nn

import dwell
from dwell import InstrumentationConfig, _core, deferral
from dwell.capture import Capture
from dwell.transfer import SMALL_BYTES, RingTransport

LAYERS = 3
# A shape is seen in one pass, compared in two, what came of it is heard in the next; from then on it is put off.
LEARNING = 4


class LateFromCpu(RingTransport):
    """Puts tensors of the CPU off, and remembers which."""

    late_devices = frozenset({"cpu"})
    ring_bytes = 1 << 22
    made: LateFromCpu

    def __init__(self, stream: _core.Stream, waits: bool) -> None:
        super().__init__(stream, self.ring_bytes, waits)
        self.stream_of = lambda device: 0
        self.late: list[tuple[str, int]] = []
        self.most = 0
        LateFromCpu.made = self

    def emit_late(self, late: Any, token_index: int | None) -> list[tuple[deferral.Output, Exception]]:
        self.late += [(one[0].name, one[1]) for one in late]
        self.most = max(self.most, len(late))
        return super().emit_late(late, token_index)


@pytest.fixture(autouse=True)
def late_from_cpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def choose(capture: Capture) -> RingTransport:
        return LateFromCpu(capture._stream, waits=capture.config.pressure != "drop")

    monkeypatch.setattr(Capture, "_choose_transport", choose)
    yield
    monkeypatch.undo()


class Blocks(nn.Module):
    """Adds to its input, layer by layer; `meddle` sees what a layer has returned before the next one runs."""

    def __init__(self, meddle: Callable[[int, torch.Tensor], Any] = lambda layer, x: None) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Add(number + 1) for number in range(LAYERS))
        self.meddle = meddle

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for number, layer in enumerate(self.layers):
            x = layer(x)
            self.meddle(number, x)
            x = x.clone()
        return x


class Add(nn.Module):
    def __init__(self, number: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(number), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.weight


# What the layers return for an input of 0, if nobody meddles.
SUMS = [1.0, 3.0, 6.0]


def residual(**fields: Any) -> InstrumentationConfig:
    return InstrumentationConfig(granularity=dwell.HookGranularity.RESIDUAL, compression_algorithm="none", **fields)


def run(model: nn.Module, path: Path, passes: int, config: InstrumentationConfig | None = None, size: int = 8) -> None:
    """Captures passes of a model; pass n is given n."""
    with torch.no_grad(), dwell.capture_activations(model, path, config=config or residual()) as capture:
        for number in range(passes):
            model(torch.full((size,), float(number)))
            capture.flush()


def check(path: Path, passes: int, missing: frozenset[tuple[int, int]] = frozenset()) -> None:
    """All tensors are there, in the order of the hooks, as they were when their layers returned."""
    expected = [
        (f"layers.{layer}", step, step + SUMS[layer])
        for step in range(passes)
        for layer in range(LAYERS)
        if (layer, step) not in missing
    ]
    stream = dwell.open(path)
    assert [(tensor.name, tensor.step, tensor.to_torch().unique().tolist()) for tensor in stream] == [
        (name, step, [value]) for name, step, value in expected
    ]
    assert [tensor.packet for tensor in stream] == list(range(len(expected)))
    times = [tensor.timestamp_ns for tensor in stream]
    assert times == sorted(times)


def late_steps(name: str) -> list[int]:
    return [step for other, step in LateFromCpu.made.late if other == name]


def test_tensors_that_stay_are_put_off_once_that_is_known(path: Path) -> None:
    run(Blocks(), path, 20)
    check(path, 20)
    for layer in range(LAYERS):
        assert late_steps(f"layers.{layer}") == list(range(LEARNING, 20))
    assert LateFromCpu.made.most == LAYERS


def test_timestamps_are_those_of_the_hooks(path: Path) -> None:
    ran: list[int] = []
    run(Blocks(lambda layer, x: ran.append(time.monotonic_ns())), path, 6)
    stream = dwell.open(path)
    last = stream.select(step=5)
    # Each stands before what ran right after its layer, though all were copied later.
    assert [tensor.timestamp_ns < moment for tensor, moment in zip(last, ran[-LAYERS:], strict=True)] == [True] * LAYERS
    assert last[1].timestamp_ns > ran[-LAYERS]


def test_what_pytorch_changes_in_place_is_never_put_off(path: Path) -> None:
    run(Blocks(lambda layer, x: x.mul_(1) if layer == 1 else None), path, 10)
    check(path, 10)
    assert late_steps("layers.1") == []
    assert late_steps("layers.0") == late_steps("layers.2") == list(range(LEARNING, 10))


def scribble(x: torch.Tensor) -> None:
    """Writes as a kernel that PyTorch knows nothing of does."""
    version = x._version
    x.numpy()[0] += 100
    assert x._version == version


def test_what_is_written_without_counting_is_never_put_off(path: Path) -> None:
    seen: list[torch.Tensor] = []

    def meddle(layer: int, x: torch.Tensor) -> None:
        if layer == 1:
            scribble(x)
            seen.append(x)

    run(Blocks(meddle), path, 10)
    assert late_steps("layers.1") == []
    for step, tensor in enumerate(dwell.open(path).select("layers.1")):
        assert tensor.to_torch().tolist() == [step + SUMS[1]] * 8
        assert seen[step][0] == step + SUMS[1] + 100


@pytest.mark.parametrize("is_strict", [False, True])
def test_a_change_that_comes_later_is_told_and_copied_from_then_on(is_strict: bool, path: Path) -> None:
    step = iter(range(100))

    def meddle(layer: int, x: torch.Tensor) -> None:
        if layer == 1 and next(step) >= 6:
            x.mul_(1)

    with pytest.raises(dwell.CaptureError, match="changed in place before the pass ended") as raised:
        run(Blocks(meddle), path, 12, residual(strict=is_strict))
    assert "defer_copies=False" in raised.value.hints[0]
    if is_strict:
        assert dwell.open(path)[-1].step == 6
        return
    assert raised.value.message.startswith("1 tensor could not be captured; capturing the output of 'layers.1'")
    check(path, 12, frozenset({(1, 6)}))
    assert late_steps("layers.1") == [4, 5]


def test_a_write_that_comes_later_is_found_when_it_is_proved_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deferral, "PROVED_FOR_PASSES", 10)
    step = iter(range(100))

    def meddle(layer: int, x: torch.Tensor) -> None:
        if layer == 2 and next(step) >= 15:
            scribble(x)

    with pytest.raises(dwell.CaptureError, match="uncounted by PyTorch") as raised:
        run(Blocks(meddle), path, 40)
    assert raised.value.message.startswith("1 tensor could not be captured; capturing the output of 'layers.2'")
    # Proved in passes 10 and 11 that it stays, in 20 that it does not.
    assert late_steps("layers.2") == [*range(LEARNING, 10), *range(13, 20)]
    tensors = dwell.open(path).select("layers.2")
    right = [bool((tensor.to_torch() == step + SUMS[2]).all()) for step, tensor in enumerate(tensors)]
    assert right == [step < 15 or step >= 20 for step in range(40)]
    assert late_steps("layers.0") == [step for step in range(LEARNING, 40) if step < 10 or step % 10 > 2]


def test_the_last_comparison_is_heard_of_too(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deferral, "PROVED_FOR_PASSES", 10)
    step = iter(range(100))

    def meddle(layer: int, x: torch.Tensor) -> None:
        if layer == 0 and next(step) == 10:
            scribble(x)

    with pytest.raises(dwell.CaptureError, match="uncounted by PyTorch"):
        run(Blocks(meddle), path, 11)


def test_memory_that_is_taken_away_is_told(path: Path) -> None:
    step = iter(range(100))

    class Freed(Blocks):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                y = layer(x)
                x = y.clone()
                if layer is self.layers[0] and next(step) == 5:
                    y.untyped_storage().resize_(0)
            return x

    with pytest.raises(dwell.CaptureError, match="1 tensor could not be captured"):
        run(Freed(), path, 8)
    check(path, 8, frozenset({(0, 5)}))


def test_tensors_that_wait_and_that_do_not_keep_their_order(path: Path) -> None:
    class Mixed(Blocks):
        """The second layer returns more than is ever put off."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.layers[0](x)
            self.layers[1](x.repeat(SMALL_BYTES // 4))
            return self.layers[2](x + 2)

    run(Mixed(), path, 10, size=1)
    check(path, 10)
    assert late_steps("layers.1") == [] and late_steps("layers.0") == late_steps("layers.2") != []


def test_tensors_of_another_layout_take_another_way(path: Path) -> None:
    step = iter(range(100))

    class Turned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([Transposed(step)])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layers[0](x)

    given = torch.arange(9.0).reshape(3, 3)
    model = Turned()
    with torch.no_grad(), dwell.capture_activations(model, path, config=residual()) as capture:
        for _ in range(8):
            model(given)
            capture.flush()
    tensors = [tensor.to_torch() for tensor in dwell.open(path)]
    assert late_steps("layers.0") == list(range(LEARNING, 8))
    assert [torch.equal(tensor, given.t() if step >= 5 else given) for step, tensor in enumerate(tensors)] == [True] * 8


class Transposed(nn.Module):
    """Returns its input, from the fifth pass on transposed: the same shape, otherwise laid out."""

    def __init__(self, step: Iterator[int]) -> None:
        super().__init__()
        self.step = step
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.clone().t() if next(self.step) >= 5 else x.clone()


def test_tuples_and_dicts_wait_too(path: Path) -> None:
    class Pair(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return x + 1, {"more": x + 2}

    model = nn.Sequential(Pair())
    with torch.no_grad(), dwell.capture_activations(model, path, config=residual().with_targets("0")) as capture:
        for number in range(8):
            model(torch.full((8,), float(number)))
            capture.flush()
    assert late_steps("0") == late_steps("0.1.more") == list(range(LEARNING, 8))
    assert [float(tensor.to_torch()[0]) for tensor in dwell.open(path)] == [
        value for number in range(8) for value in (number + 1.0, number + 2.0)
    ]


def test_threads_hand_over_their_own(path: Path) -> None:
    model, passes, threads = Blocks(), 50, 4

    def work(number: int) -> None:
        with torch.no_grad():
            for _ in range(passes):
                model(torch.full((8,), float(10 * number)))

    with dwell.capture_activations(model, path, config=residual()) as capture:
        workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
        for worker in workers:
            worker.start()
        while any(worker.is_alive() for worker in workers):
            capture.flush()
        for worker in workers:
            worker.join()
    stream = dwell.open(path)
    assert len(stream) == passes * threads * LAYERS and LateFromCpu.made.late
    for step in range(passes * threads):
        tensors = stream.select(step=step)
        assert [tensor.name for tensor in tensors] == [f"layers.{layer}" for layer in range(LAYERS)]
        values = [float(tensor.to_torch().unique()) for tensor in tensors]
        assert [value - values[0] for value in values] == [0.0, 2.0, 5.0] and (values[0] - 1) % 10 == 0


def test_what_was_put_off_before_an_exception_is_there(path: Path) -> None:
    step = iter(range(100))

    def meddle(layer: int, x: torch.Tensor) -> None:
        if layer == 1 and next(step) == 6:
            raise ValueError("the model failed")

    with pytest.raises(ValueError, match="the model failed"):
        run(Blocks(meddle), path, 12)
    check(path, 7, frozenset({(2, 6)}))
    assert late_steps("layers.1")[-1] == 6


def test_a_model_in_a_model_keeps_the_order(path: Path) -> None:
    class Outer(nn.Module):
        """Runs another captured model between its own blocks."""

        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.layers = nn.ModuleList([Add(1), Add(2)])
            self.inner = [inner]

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.layers[0](x)
            self.inner[0](x)
            return self.layers[1](x)

    inner = Blocks()
    outer = Outer(inner)
    framework = dwell.InstrumentationFramework(residual())
    framework.instrument_model(outer)
    framework.instrument_model(inner)
    with torch.no_grad(), framework.capture_activations(path) as capture:
        for _ in range(8):
            outer(torch.zeros(8))
            capture.flush()
    names = ["0.layers.0", "1.layers.0", "1.layers.1", "1.layers.2", "0.layers.1"]
    assert [tensor.name for tensor in dwell.open(path)] == names * 8
    assert late_steps("0.layers.1") == list(range(LEARNING, 8))


def test_tokens_stand_behind_what_was_put_off_before_them(path: Path) -> None:
    recorded: list[Callable[[], None]] = []
    model = Blocks(lambda layer, x: recorded[-1]() if layer == 1 and recorded else None)
    config = residual()
    with torch.no_grad(), dwell.capture_activations(model, path, config=config, track_per_token=True) as capture:
        for number in range(10):
            if number == 6:
                # From here on within the passes, after two of three layers.
                recorded.append(lambda: capture.record_token(0, "t"))
            model(torch.full((8,), float(number)))
            if number < 6:
                capture.record_token(0, "t")
                capture.flush()
    check(path, 10)
    stream = dwell.open(path)
    assert late_steps("layers.2")[-1] == 9
    assert [token.packet for token in stream.tokens] == [*range(3, 21, 3), 20, 23, 26, 29]
    assert [tensor.token_index for tensor in stream.select("layers.1")] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert [tensor.token_index for tensor in stream.select("layers.2")] == [0, 1, 2, 3, 4, 5, 7, 8, 9, 10]


@pytest.mark.parametrize(
    "config", [residual(defer_copies=False), residual(synchronous=True), residual(slice=":4")], ids=str
)
def test_who_does_not_want_it_has_each_tensor_copied_at_once(config: InstrumentationConfig, path: Path) -> None:
    run(Blocks(), path, 8, config)
    check(path, 8)
    assert LateFromCpu.made.late == []


def test_tensors_without_a_count_of_changes_do_not_wait(path: Path) -> None:
    model = Blocks()
    with dwell.capture_activations(model, path, config=residual()) as capture:
        for number in range(8):
            # Known to stay from passes that count, and then there are some that do not.
            with torch.inference_mode() if number > 5 else torch.no_grad():
                model(torch.full((8,), float(number)))
            capture.flush()
    check(path, 8)
    assert late_steps("layers.0") == [4, 5]


def test_outside_of_a_pass_nothing_waits(path: Path) -> None:
    model = Blocks()
    with torch.no_grad(), dwell.capture_activations(model, path, config=residual()) as capture:
        for number in range(6):
            model(torch.full((8,), float(number)))
            capture.flush()
        before = len(LateFromCpu.made.late)
        model.layers[0](torch.zeros(8))
        assert len(LateFromCpu.made.late) == before and capture.progress()["packets"] == 6 * LAYERS
        capture.flush()
        assert capture.progress()["packets"] == 6 * LAYERS + 1
    assert dwell.open(path)[-1].name == "layers.0"


def test_no_more_than_a_few_are_held_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deferral, "MOST_PENDING", 2)
    run(Blocks(), path, 12)
    check(path, 12)
    assert LateFromCpu.made.most == 2


class Often(Blocks):
    """Runs its layers several times in a pass."""

    times = 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(self.times):
            last = super().forward(x)
        return last


@pytest.mark.parametrize("waits", [True, False])
def test_a_ring_that_is_too_small_waits_or_counts(waits: bool, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # 1,800 bytes, of which the ring holds seven: a pass whose tensors are compared, and not one that runs often.
    monkeypatch.setattr(LateFromCpu, "ring_bytes", 7 * 2048)
    model = Often()
    config = residual(pressure="block" if waits else "drop")
    with torch.no_grad(), dwell.capture_activations(model, path, config=config) as capture:
        for number in range(100):
            model.times = 1 if number < 10 else 8
            model(torch.full((450,), float(number)))
            if number < 10:
                capture.flush()
    stream = dwell.open(path)
    dropped = sum(count for count, _ in stream.dropped.values())
    assert len(stream) + dropped == (10 + 90 * 8) * LAYERS and (dropped == 0) == waits
    assert len(LateFromCpu.made.late) == (10 - LEARNING + 90 * 8) * LAYERS
    for tensor in stream:
        assert tensor.packet % LAYERS == int(tensor.name[-1])
        assert torch.all(tensor.to_torch() == tensor.step + SUMS[tensor.packet % LAYERS])


def test_a_ring_that_can_never_hold_them(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LateFromCpu, "ring_bytes", 1 << 10)
    run(Blocks(), path, 10, size=1000)
    check(path, 10)


def test_many_shapes_are_not_compared_and_not_kept(path: Path) -> None:
    model = Blocks()
    with torch.no_grad(), dwell.capture_activations(model, path, config=residual()) as capture:
        for length in range(1, 200):
            model(torch.zeros(length))
        kept = [len(output.trials) + len(output.ready) for output in capture._deferral._outputs]
        compared = [trial.comparisons for output in capture._deferral._outputs for trial in output.trials.values()]
    assert max(kept) <= deferral.MOST_SHAPES and not any(compared)
    assert [tensor.shape for tensor in dwell.open(path).select("layers.2")] == [(length,) for length in range(1, 200)]


def test_a_real_model_decodes_to_the_same_values(path: Path) -> None:
    model = models.llama()
    ids = models.ids(batch=2, length=1)
    with torch.no_grad():
        truth = models.plain_outputs(model, lambda: model(ids))
        with dwell.capture_activations(model, path) as capture:
            for _ in range(10):
                model(ids)
                capture.flush()
    stream = dwell.open(path)
    assert len(stream) == 10 * (models.LAYERS + 1)
    assert len(LateFromCpu.made.late) == (10 - LEARNING) * (models.LAYERS + 1)
    for tensor in stream:
        assert models.same_bits(tensor.to_torch(), truth[tensor.name]), tensor
