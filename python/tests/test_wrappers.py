"""Models in wrappers, copies, children, and captures that are held wrongly."""

from __future__ import annotations

import copy
import os
import pickle
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import models
import pytest
import torch
from torch import nn

import dwell
from dwell import InstrumentationConfig


class Wrapper(nn.Module):
    """Holds a model as adapters do: calls go through it, `generate` is that of the model."""

    def __init__(self, base: nn.Module) -> None:
        super().__init__()
        self.base = base

    def forward(self, *args: Any, **named: Any) -> Any:
        return self.base(*args, **named)


WRAPPERS: dict[str, tuple[Callable[[nn.Module], nn.Module], str]] = {
    "own": (Wrapper, "base."),
    "twice": (lambda model: Wrapper(Wrapper(model)), "base.base."),
    "parallel": (nn.DataParallel, ""),
}


@pytest.mark.parametrize("kind", WRAPPERS)
def test_a_wrapped_model_has_its_logits_and_a_step_for_each_pass(kind: str, path: Path) -> None:
    wrap, prefix = WRAPPERS[kind]
    model = models.llama()
    wrapped = wrap(model)
    with torch.no_grad(), dwell.capture_activations(wrapped, path):
        wrapped(models.ids())
        model.generate(models.ids(), max_new_tokens=3, min_new_tokens=3)
    stream = dwell.open(path)
    assert stream.names[-1] == f"{prefix}lm_head"
    for name in (f"{prefix}lm_head", f"{prefix}model.layers.0"):
        assert [tensor.step for tensor in stream.select(name)] == [0, 1, 2, 3]


class Stack(nn.Module):
    """The first block stands in the list twice, and beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.layers = nn.ModuleList([self.first, self.first, nn.Linear(4, 4)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def test_a_shared_block_is_captured_each_time_it_runs(path: Path) -> None:
    model = Stack()
    with torch.no_grad(), dwell.capture_activations(model, path):
        result = model(torch.ones(2, 4))
    stream = dwell.open(path)
    assert [(tensor.name, tensor.layer) for tensor in stream] == [("layers.0", 0), ("layers.0", 0), ("layers.2", 2)]
    assert models.same_bits(stream[2].to_torch(), result)


def test_a_model_can_be_copied_while_it_is_captured(path: Path) -> None:
    model = models.llama()
    with torch.no_grad():
        with dwell.capture_activations(model, path):
            model(models.ids())
            other = copy.deepcopy(model)
            other(models.ids())
        other(models.ids())
    assert [tensor.step for tensor in dwell.open(path).select("lm_head")] == [0, 1]


def test_a_forked_child_leaves_the_capture_to_its_parent(path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 4))
    with dwell.capture_activations(model, path, track_per_token=True) as capture:
        model(torch.ones(1, 4))
        child = os.fork()
        if child == 0:
            # A child that waits for threads it has not would do so for ever.
            signal.alarm(60)
            model(torch.ones(1, 4))
            refused = 0
            for use in (capture.flush, capture.checkpoint, lambda: capture.record_token(1, "a")):
                try:
                    use()
                except dwell.UsageError:
                    refused += 1
            capture.__exit__(None, None, None)
            os._exit(refused)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        model(torch.ones(1, 4))
    assert status == 3
    stream = dwell.open(path)
    assert (len(stream), stream.is_finished) == (2, True)


def test_a_capture_begins_once_and_is_used_while_it_runs(path: Path) -> None:
    model = models.llama()
    capture: Any = dwell.capture_activations(model, path, track_per_token=True)
    for use in (capture.flush, capture.checkpoint, capture.progress, lambda: capture.record_token(1, "a")):
        with pytest.raises(dwell.UsageError, match="has not begun"):
            use()
    with capture:
        model(models.ids())
    with pytest.raises(dwell.UsageError, match="second time"), capture:
        pass
    assert len(dwell.open(path)) == models.LAYERS + 1


def test_what_is_no_model_or_configuration_is_refused(path: Path) -> None:
    model: Any = nn.Linear(2, 2)
    wrong: Any = "model"
    with pytest.raises(dwell.UsageError, match="a model of type str"):
        dwell.capture_activations(wrong, path)
    with pytest.raises(dwell.UsageError, match="a configuration of type str"):
        dwell.capture_activations(model, path, config=wrong)
    with pytest.raises(dwell.UsageError, match="max_memory_gb=inf"):
        InstrumentationConfig().with_memory_limit(float("inf"))
    with pytest.raises(dwell.UsageError, match="selects no module"):
        InstrumentationConfig().with_targets([])
    assert not path.exists()


def test_captures_of_one_second_have_files_of_their_own(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    paths = set()
    for _ in range(3):
        with dwell.capture_activations(model, output_dir=tmp_path) as capture:
            model(torch.ones(1, 2))
        paths.add(capture.output_path)
    assert len(paths) == len(list(tmp_path.glob("*.tensors"))) == 3


def test_paths_that_cannot_be_written_are_told_once(tmp_path: Path) -> None:
    model = nn.Linear(2, 2)
    with pytest.raises(dwell.NotFoundError) as missing, dwell.capture_activations(model, tmp_path / "no" / "a"):
        pass
    assert missing.value.hints == [f"create the folder: mkdir -p '{tmp_path / 'no'}'"]
    with pytest.raises(dwell.StorageError, match="no regular file"), dwell.capture_activations(model, tmp_path):
        pass


def test_tensors_and_streams_are_pickled_as_places_in_a_file(path: Path) -> None:
    model = models.llama()
    with torch.no_grad(), dwell.capture_activations(model, path):
        model(models.ids())
    stream = dwell.open(path)
    again, tensors = pickle.loads(pickle.dumps((stream, list(stream))))
    assert again.names == stream.names
    for ours, theirs in zip(stream, tensors, strict=True):
        assert theirs.name == ours.name
        assert models.same_bits(ours.to_torch(), theirs.to_torch())
