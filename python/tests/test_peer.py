"""Scripts for llm-instrumentation: the same calls, and what both capture of one model."""

from __future__ import annotations

from pathlib import Path

import models
import pytest
import torch

import dwell


def test_the_short_form(path: Path) -> None:
    from dwell import capture_activations

    model = models.llama()
    with capture_activations(model, preset="balanced", output_path=str(path)) as framework:
        model(torch.randint(0, 60, (1, 16)))
    analysis = framework.analyze_activations(str(path))
    assert analysis["packets"] == models.LAYERS + 1
    assert analysis["per_layer"]["lm_head"]["count"] == 1
    assert analysis["total_compressed_bytes"] == sum(layer["bytes"] for layer in analysis["per_layer"].values())


def test_the_long_form_with_generate(path: Path) -> None:
    from dwell.core.config import InstrumentationConfig
    from dwell.core.framework import InstrumentationFramework
    from dwell.core.hooks import HookGranularity

    model = models.llama()
    config = InstrumentationConfig(
        granularity=HookGranularity.ATTENTION_ONLY,
        compression_algorithm="lz4",
        target_throughput_gbps=2.0,
        max_memory_gb=24,
    )
    framework = InstrumentationFramework(config)
    framework.instrument_model(model)
    with framework.capture_activations(str(path)):
        model.generate(models.ids(batch=1), max_new_tokens=4, min_new_tokens=4, do_sample=False)
    analysis = framework.analyze_activations(str(path))
    # The prompt and three more passes; the last token is not fed back.
    assert analysis["packets"] == 4 * models.LAYERS
    assert {layer["count"] for layer in analysis["per_layer"].values()} == {4}
    assert analysis["stream_path"] == str(path)


def test_tokens_checkpoints_and_going_on(path: Path) -> None:
    from dwell import InstrumentationConfig, InstrumentationFramework, analyze_activations_with_tokens

    model = models.llama()
    framework = InstrumentationFramework(
        InstrumentationConfig.balanced().with_compression("zstd").with_memory_limit(16)
    )
    framework.instrument_model(model)

    def generate(tracker: dwell.capture.Capture, count: int) -> None:
        ids = models.ids(batch=1)
        for _ in range(count):
            with torch.no_grad():
                out = model(ids)
                next_tok = out.logits[:, -1, :].argmax(dim=-1, keepdim=True)
            tracker.record_token(next_tok[0].item(), str(next_tok[0].item()))
            ids = torch.cat([ids, next_tok], dim=-1)

    with pytest.raises(KeyboardInterrupt):
        with framework.capture_activations(str(path), track_per_token=True, checkpoint_interval_tokens=4) as tracker:
            generate(tracker, 6)
            raise KeyboardInterrupt
    with framework.capture_activations(
        str(path), track_per_token=True, checkpoint_interval_tokens=4, resume_from_checkpoint=True
    ) as tracker:
        assert len(tracker.tokens) == 4
        generate(tracker, 4)
    analysis = analyze_activations_with_tokens(str(path), framework)
    assert analysis["token_metadata"]["total_tokens"] == 8
    assert analysis["packets_per_token"] == models.LAYERS + 1
    assert analysis["bytes_per_token"] > 0


def test_automatic_configuration(path: Path) -> None:
    from dwell import capture_activations
    from dwell.core.auto_detect import create_optimized_config, detect_model_architecture

    model = models.llama()
    arch = detect_model_architecture(model)
    config = create_optimized_config(arch, purpose="performance_analysis")
    with torch.no_grad(), capture_activations(model, config=config, output_path=str(path)):
        model(models.ids())
    assert len(dwell.open(path)) == models.LAYERS


def test_files_get_names(tmp_path: Path) -> None:
    model = models.llama()
    with torch.no_grad(), dwell.capture_activations(model, output_dir=tmp_path, prefix="run", preset="balanced"):
        model(models.ids())
    (made,) = tmp_path.glob("run_llama_balanced_*.tensors")
    assert len(dwell.open(made)) == models.LAYERS + 1


def test_presets_and_builders() -> None:
    config = dwell.InstrumentationConfig
    assert [config.preset(name).compression_algorithm for name in config.PRESETS] == [
        "none",
        "float",
        "float",
        "bounded:nmse:1e-3",
        "float",
        "float",
    ]
    assert config.attention_analysis().granularity is dwell.HookGranularity.ATTENTION_ONLY
    assert config.mlp_analysis().granularity is dwell.HookGranularity.MLP_ONLY
    chained = config.balanced().with_compression("zstd:5").with_memory_limit(16).with_throughput(1.5)
    assert (chained.compression_algorithm, chained.max_memory_gb, chained.target_throughput_gbps) == ("zstd:5", 16, 1.5)
    with pytest.raises(ValueError, match="fp16"):
        chained.with_compression("fp16")
    assert chained.compression_algorithm == "zstd:5"
    for refused in (
        lambda: config.preset("fastest"),
        lambda: config(max_memory_gb=-1),
        lambda: config(pressure="wait"),
    ):
        with pytest.raises(dwell.UsageError):
            refused()


def test_hook_configurations_are_taken(path: Path) -> None:
    model = models.llama()
    hooks = dwell.HookConfig(dwell.HookGranularity.MLP_ONLY, target_layers=[1], compression_enabled=False)
    with (
        torch.no_grad(),
        dwell.capture_activations(model, path, config=dwell.InstrumentationConfig().with_hooks(hooks)),
    ):
        model(models.ids())
    (tensor,) = dwell.open(path)
    assert (tensor.name, tensor.codec) == ("model.layers.1.mlp", "none")


def test_side_by_side(tmp_path: Path) -> None:
    peer = pytest.importorskip("llm_instrumentation")
    model = models.llama()
    names = {}
    for label, package in [("peer", peer), ("dwell", dwell)]:
        framework = package.InstrumentationFramework(package.InstrumentationConfig.balanced())
        framework.instrument_model(model)
        output = str(tmp_path / f"{label}.stream")
        with torch.no_grad(), framework.capture_activations(output):
            model(models.ids())
        names[label] = set(framework.analyze_activations(output)["per_layer"])
    assert names["peer"] == {"lm_head"}
    assert names["dwell"] == {"lm_head", *(f"model.layers.{layer}" for layer in range(models.LAYERS))}
