"""Whatever a module returns, and whatever happens to it afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import models
import pytest
import torch
from torch import nn
from transformers.modeling_outputs import BaseModelOutput

import dwell
from dwell import InstrumentationConfig


class Returns(nn.Module):
    """Returns what it is given a function for."""

    def __init__(self, make: Any) -> None:
        super().__init__()
        self.make = make

    def forward(self, x: torch.Tensor) -> Any:
        return self.make(x)


def captured(make: Any, path: Path, config: InstrumentationConfig | None = None) -> dict[str, torch.Tensor]:
    model = nn.ModuleDict({"part": Returns(make)})
    config = (config or InstrumentationConfig()).with_targets("part")
    with dwell.capture_activations(model, path, config=config):
        model["part"](torch.arange(6.0).reshape(2, 3))
    return {tensor.name: tensor.to_torch() for tensor in dwell.open(path)}


@dataclass
class Pair:
    left: torch.Tensor
    right: torch.Tensor


SHAPES = {
    "tensor": (lambda x: x, ["part"]),
    "tuple": (lambda x: (x, None, x + 1), ["part", "part.2"]),
    "list": (lambda x: [x, x + 1], ["part", "part.1"]),
    "dict": (lambda x: {"a": x, "b": (x + 1, x + 2)}, ["part.a", "part.b", "part.b.1"]),
    "model output": (
        lambda x: BaseModelOutput(last_hidden_state=x, hidden_states=(x + 1, x + 2)),
        ["part.last_hidden_state", "part.hidden_states", "part.hidden_states.1"],
    ),
    "dataclass": (lambda x: Pair(x, x + 1), ["part.left", "part.right"]),
    "the same twice": (lambda x: (x, x, {"again": x}), ["part"]),
    "nothing first": (lambda x: (None, x), ["part.1"]),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_tensors_are_found_in_every_container(shape: str, path: Path) -> None:
    make, names = SHAPES[shape]
    tensors = captured(make, path)
    assert list(tensors) == names
    assert torch.equal(next(iter(tensors.values())), torch.arange(6.0).reshape(2, 3))


def test_what_is_changed_in_place_afterwards_is_captured_as_it_was(path: Path) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(inplace=True))
    given = torch.randn(4, 8)
    truth = model[0](given).detach()
    with torch.no_grad(), dwell.capture_activations(model, path):
        model(given)
    assert models.same_bits(dwell.open(path).get("0").to_torch(), truth)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.enable_grad, torch.inference_mode])
def test_every_gradient_mode_is_captured(mode: Any, path: Path) -> None:
    model = models.llama()
    with mode():
        truth = models.plain_outputs(model, lambda: model(models.ids()))
        with dwell.capture_activations(model, path, config=InstrumentationConfig().with_slice("...")):
            loss = model(models.ids()).logits.sum()
    if mode is torch.enable_grad:
        loss.backward()
        assert model.lm_head.weight.grad is not None
    for tensor in dwell.open(path):
        assert models.same_bits(tensor.to_torch(), truth[tensor.name])


def test_the_models_own_result_is_untouched(path: Path) -> None:
    model = models.llama()
    with torch.no_grad():
        plain = model(models.ids()).logits
        with dwell.capture_activations(model, path):
            watched = model(models.ids()).logits
    assert torch.equal(plain, watched)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_models_of_every_precision_are_captured(dtype: torch.dtype, path: Path) -> None:
    model = models.llama().to(dtype)
    with torch.no_grad():
        truth = models.plain_outputs(model, lambda: model(models.ids()))
        with dwell.capture_activations(model, path):
            model(models.ids())
    stream = dwell.open(path)
    assert len(stream) == models.LAYERS + 1
    for tensor in stream:
        assert models.same_bits(tensor.to_torch(), truth[tensor.name])


UNFIT = {
    "sparse": (lambda x: x.to_sparse(), "dense"),
    "meta": (lambda x: x.to("meta"), "meta"),
    "quantised": (lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8), "qint8"),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("kind", UNFIT)
def test_what_cannot_be_stored_raises_at_the_end_and_never_in_the_forward_pass(kind: str, path: Path) -> None:
    make, reason = UNFIT[kind]
    model = nn.ModuleDict({"bad": Returns(make), "good": Returns(lambda x: x)})
    given = torch.ones(2, 2)
    with pytest.raises(dwell.CaptureError, match=reason) as raised:
        with dwell.capture_activations(model, path, config=InstrumentationConfig().with_targets(["bad", "good"])):
            model["bad"](given)
            model["good"](given)
            model["bad"](given)
    assert raised.value.message.startswith("2 tensors could not be captured; capturing the output of 'bad'")
    assert dwell.open(path).names == ["good"]
    strict = InstrumentationConfig(strict=True).with_targets(["bad"])
    with pytest.raises(dwell.CaptureError, match=reason), dwell.capture_activations(model, path, config=strict):
        model["bad"](given)


def test_slices_are_those_of_torch(path: Path) -> None:
    model = models.llama()
    config = InstrumentationConfig().with_slice(":, -1, ::4")
    with torch.no_grad():
        truth = models.plain_outputs(model, lambda: model(models.ids()))
        with dwell.capture_activations(model, path, config=config):
            model(models.ids())
    for tensor in dwell.open(path):
        assert models.same_bits(tensor.to_torch(), truth[tensor.name][:, -1, ::4].contiguous())


def test_samples_are_every_kth_element_of_the_last_dimension(path: Path) -> None:
    model = models.llama()
    with torch.no_grad():
        truth = models.plain_outputs(model, lambda: model(models.ids()))
        with dwell.capture_activations(model, path, config=InstrumentationConfig().with_sampling(0.25)):
            model(models.ids())
    tensor = dwell.open(path).get("model.layers.1")
    assert models.same_bits(tensor.to_torch(), truth["model.layers.1"][..., ::4].contiguous())


@pytest.mark.parametrize("text", ["", "x", "::-1", "1:2:3:4", "::0"])
def test_slices_that_mean_nothing_are_refused(text: str, path: Path) -> None:
    with pytest.raises(dwell.UsageError, match="slice"):
        dwell.capture_activations(models.llama(), path, config=InstrumentationConfig(slice=text))


def test_a_slice_that_does_not_fit_is_told(path: Path) -> None:
    with pytest.raises(dwell.CaptureError, match="too many indices|dimension"):
        captured(lambda x: x, path, InstrumentationConfig().with_slice(":, :, :, 0"))


def test_an_output_without_tensors_is_told(path: Path) -> None:
    with pytest.warns(dwell.CaptureWarning, match="holds nothing"):
        captured(lambda x: None, path)
