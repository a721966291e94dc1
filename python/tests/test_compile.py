"""torch.compile: hooks that were there when code was compiled run; those that do not are told."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import models
import pytest
import torch
from torch import nn

import dwell

# The same graphs and hooks, without waiting for a C++ compiler.
BACKEND = "eager"


class Blocks(nn.Module):
    """Three blocks in a row."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x).relu()
        return x


RUNS: list[None] = []


def counted(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
    """A compiler that leaves the code as it is and counts how often it runs."""

    def run(*arguments: Any) -> Any:
        RUNS.append(None)
        return graph.forward(*arguments)

    return run


GIVEN = torch.linspace(-1, 1, 16).reshape(2, 8)


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def captured(model: nn.Module, path: Path) -> dict[str, torch.Tensor]:
    with torch.no_grad(), pytest.warns(dwell.CaptureWarning, match="runs as it was written"):
        with dwell.capture_activations(model, path):
            model(GIVEN)
    return {tensor.name: tensor.to_torch() for tensor in dwell.open(path)}


@pytest.mark.parametrize("has_run", [True, False])
def test_a_compiled_model_is_captured(has_run: bool, path: Path) -> None:
    plain = Blocks()
    with torch.no_grad():
        truth = models.plain_outputs(plain, lambda: plain(GIVEN))
        compiled = torch.compile(plain, backend=counted)
        if has_run:
            compiled(GIVEN)
    runs_before = len(RUNS)
    tensors = captured(compiled, path)
    assert len(RUNS) == runs_before
    assert list(tensors) == ["layers.0", "layers.1", "layers.2"]
    for name, tensor in tensors.items():
        assert models.same_bits(tensor, truth[name])
    with torch.no_grad():
        compiled(GIVEN)
    assert len(RUNS) > runs_before, "compiled code runs again after the block"
    assert len(dwell.open(path)) == 3, "nothing is captured after the block"


def test_a_model_compiled_in_place_or_in_parts_is_captured(path: Path) -> None:
    model = Blocks()
    model.compile(backend=BACKEND)
    assert len(captured(model, path)) == 3
    model = Blocks()
    for number, layer in enumerate(model.layers):
        model.layers[number] = torch.compile(layer, backend=BACKEND)
    with torch.no_grad():
        model(GIVEN)
    assert list(captured(model, path)) == ["layers.0", "layers.1", "layers.2"]


def test_a_model_compiled_during_its_capture_is_captured_or_told(path: Path) -> None:
    model = Blocks()
    with torch.no_grad(), dwell.capture_activations(model, path):
        torch.compile(model, backend=BACKEND)(GIVEN)
    assert len(dwell.open(path)) == 3
    # Before the compiler is loaded, the hooks cannot be kept from it.
    script = f"""
        import warnings, torch, dwell
        warnings.simplefilter("error")
        model = torch.nn.Sequential(torch.nn.Linear(2, 2))
        try:
            with dwell.capture_activations(model, {str(path)!r}):
                torch.compile(model, backend="eager")(torch.ones(1, 2))
        except dwell.CaptureWarning as warning:
            print(warning)
    """
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True, check=True)
    assert "never ran" in ran.stdout and "force_eager" in ran.stdout
