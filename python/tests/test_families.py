"""Of every family: which modules are captured, under which names, with which values."""

from __future__ import annotations

from pathlib import Path

import models
import pytest
import torch
from torch import nn

import dwell
from dwell import HookGranularity, InstrumentationConfig

SELF_ATTN = ("model.layers.{}", "self_attn", ["mlp"])
PARTS: dict[str, tuple[str, str, list[str]]] = {
    "Llama": SELF_ATTN,
    "Mistral": SELF_ATTN,
    "Qwen2": SELF_ATTN,
    "Qwen3": SELF_ATTN,
    "Gemma": SELF_ATTN,
    "Gemma2": SELF_ATTN,
    "Gemma3Text": SELF_ATTN,
    "GPT2": ("transformer.h.{}", "attn", ["mlp"]),
    "GPTNeoX": ("gpt_neox.layers.{}", "attention", ["mlp"]),
    "OPT": ("model.decoder.layers.{}", "self_attn", ["fc2"]),
    "Phi": SELF_ATTN,
    "Phi3": SELF_ATTN,
    "Falcon": ("transformer.h.{}", "self_attention", ["mlp"]),
    "Mixtral": ("model.layers.{}", "self_attn", ["mlp", "mlp.experts"]),
    "Qwen2Moe": ("model.layers.{}", "self_attn", ["mlp", "mlp.experts", "mlp.shared_expert"]),
    "Qwen3Moe": ("model.layers.{}", "self_attn", ["mlp", "mlp.experts"]),
    "Bloom": ("transformer.h.{}", "self_attention", ["mlp"]),
    "GPTJ": ("transformer.h.{}", "attn", ["mlp"]),
    "Bert": ("bert.encoder.layer.{}", "attention", ["intermediate", "output"]),
}


def build(family: str) -> nn.Module:
    return models.bert() if family == "Bert" else models.causal(family)


def expected(family: str, granularity: HookGranularity) -> dict[str, int | None]:
    block, attention, mlps = PARTS[family]
    suffixes = {
        HookGranularity.ATTENTION_ONLY: [f".{attention}"],
        HookGranularity.MLP_ONLY: [f".{mlp}" for mlp in mlps],
    }.get(granularity, [""])
    names: dict[str, int | None] = {
        block.format(layer) + suffix: layer for layer in range(models.LAYERS) for suffix in suffixes
    }
    if granularity is HookGranularity.FULL_TENSOR:
        names["cls.predictions.decoder" if family == "Bert" else "lm_head"] = None
    return names


@pytest.mark.parametrize("family", PARTS)
@pytest.mark.parametrize(
    "granularity",
    [HookGranularity.ATTENTION_ONLY, HookGranularity.MLP_ONLY, HookGranularity.RESIDUAL, HookGranularity.FULL_TENSOR],
    ids=lambda value: value.name,
)
def test_every_block_is_captured_with_its_values(family: str, granularity: HookGranularity, path: Path) -> None:
    model, ids = build(family), models.ids()
    with torch.no_grad():
        truth = models.plain_outputs(model, lambda: model(ids))
        with dwell.capture_activations(model, path, config=InstrumentationConfig(granularity)):
            model(ids)
    stream = dwell.open(path)
    layers = {tensor.name: tensor.layer for tensor in stream}
    names = expected(family, granularity)
    # Other entries of a tuple, such as attention weights, come with a number.
    assert {
        name: layer for name, layer in layers.items() if not name.rpartition(".")[2].isdigit() or name in names
    } == names
    for name in names:
        assert models.same_bits(stream.get(name).to_torch(), truth[name]), name


@pytest.mark.parametrize(
    ("family", "name"),
    [
        ("Llama", "llama"),
        ("Mistral", "mistral"),
        ("Qwen2", "qwen"),
        ("Qwen3", "qwen"),
        ("Gemma2", "gemma"),
        ("GPT2", "gpt2"),
        ("GPTNeoX", "gpt_neox"),
        ("OPT", "opt"),
        ("Phi3", "phi"),
        ("Falcon", "falcon"),
        ("Mixtral", "mixtral"),
        ("Qwen2Moe", "moe"),
        ("Bert", "bert"),
        ("Bloom", "bloom"),
    ],
)
def test_architectures_are_told_apart(family: str, name: str) -> None:
    assert dwell.detect_model_architecture(build(family)) == name


def test_a_model_without_configuration_is_known_by_its_class_or_unknown() -> None:
    class LlamaLike(nn.Linear):
        pass

    assert dwell.detect_model_architecture(LlamaLike(2, 2)) == "llama"
    assert dwell.detect_model_architecture(nn.Linear(2, 2)) == "unknown"


@pytest.mark.parametrize("purpose", ["interpretability", "debugging", "performance_analysis", "full_capture"])
@pytest.mark.parametrize("arch", ["llama", "gpt_neox", "moe", "unknown"])
def test_a_configuration_for_every_purpose_captures(arch: str, purpose: str, path: Path) -> None:
    model = {
        "llama": models.llama,
        "gpt_neox": lambda: models.causal("GPTNeoX"),
        "moe": lambda: models.causal("Qwen3Moe"),
    }
    built = model.get(arch, lambda: models.causal("GPTJ"))()
    config = dwell.create_optimized_config(arch, purpose)
    with torch.no_grad(), dwell.capture_activations(built, path, config=config):
        built(models.ids())
    assert {tensor.layer for tensor in dwell.open(path)} >= set(range(models.LAYERS))


def test_an_unknown_purpose_is_refused() -> None:
    with pytest.raises(dwell.UsageError, match="full_capture"):
        dwell.create_optimized_config("llama", "fun")


def test_encoder_and_decoder_are_both_captured(path: Path) -> None:
    import transformers

    config = transformers.T5Config(
        d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, vocab_size=models.VOCABULARY, decoder_start_token_id=0
    )
    model = transformers.T5ForConditionalGeneration(config).eval()
    with torch.no_grad(), dwell.capture_activations(model, path, config=InstrumentationConfig.attention_analysis()):
        model(input_ids=models.ids(), labels=models.ids())
    names = set(dwell.open(path).names)
    assert {"encoder.block.1.layer.0.SelfAttention", "decoder.block.1.layer.1.EncDecAttention"} <= names


def test_a_model_without_attention_is_captured_by_its_largest_list(path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    with dwell.capture_activations(model, path):
        model(torch.ones(1, 4))
    assert [(tensor.name, tensor.layer) for tensor in dwell.open(path)] == [("0", 0), ("1", 1), ("2", 2)]
    with pytest.raises(dwell.UsageError, match="attention_only"):
        with dwell.capture_activations(model, path, preset="attention_analysis"):
            pass


def test_globs_and_layers_choose(path: Path) -> None:
    model = models.llama()
    config = InstrumentationConfig.balanced().with_targets("model.layers.*.mlp.down_proj").with_layers([0, -1])
    with torch.no_grad(), dwell.capture_activations(model, path, config=config):
        model(models.ids())
    assert dwell.open(path).names == ["model.layers.0.mlp.down_proj", "model.layers.2.mlp.down_proj"]
    for config in (InstrumentationConfig().with_targets("nothing.*"), InstrumentationConfig().with_layers([3])):
        with pytest.raises(dwell.UsageError), dwell.capture_activations(model, path, config=config):
            pass
