"""The grammars of slices and globs: the examples that the Rust tests read."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import torch

import dwell
from dwell import _core

EXAMPLES: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "crates/dwell-capture/tests/selection_examples.json").read_text()
)


@pytest.mark.parametrize("example", EXAMPLES["slices"], ids=lambda example: repr(example["text"]))
def test_a_slice_takes_of_a_tensor_what_the_command_line_takes(example: dict[str, Any]) -> None:
    numbered = torch.arange(torch.Size(example["shape"]).numel()).reshape(example["shape"])
    taken = numbered[_core.parse_slice(example["text"])]
    places = itertools.product(*example["places"])
    assert list(taken.shape) == example["result"]
    assert taken.flatten().tolist() == [int(numbered[place]) for place in places]


@pytest.mark.parametrize("text", EXAMPLES["unreadable_slices"])
def test_what_the_command_line_does_not_read_as_a_slice_is_refused(text: str) -> None:
    with pytest.raises(dwell.UsageError, match="slice") as raised:
        _core.parse_slice(text)
    assert raised.value.hints


@pytest.mark.parametrize("example", EXAMPLES["misfits"], ids=lambda example: repr(example["text"]))
def test_a_slice_that_does_not_fit_fails_here_too(example: dict[str, Any]) -> None:
    with pytest.raises(IndexError):
        torch.zeros(example["shape"])[_core.parse_slice(example["text"])]


@pytest.mark.parametrize("example", EXAMPLES["globs"], ids=lambda example: repr(example["glob"]))
def test_a_glob_names_what_it_names_on_the_command_line(example: dict[str, Any]) -> None:
    names = [*example["others"], *example["matches"]]
    assert _core.matching(example["glob"], names) == example["matches"]


@pytest.mark.parametrize("pattern", EXAMPLES["unreadable_globs"])
def test_what_the_command_line_does_not_read_as_a_glob_is_refused(pattern: str) -> None:
    with pytest.raises(dwell.UsageError, match="pattern"):
        _core.matching(pattern, ["a"])
