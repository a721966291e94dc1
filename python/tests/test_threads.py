"""Several threads, several captures, Ctrl-C, a full disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import models
import pytest
import torch
from torch import nn

import dwell
from dwell import InstrumentationConfig


def test_threads_are_in_passes_of_their_own(path: Path) -> None:
    model, passes, threads = models.llama(), 5, 4

    def run(number: int) -> None:
        with torch.no_grad():
            for _ in range(passes):
                model(torch.full((1, number + 2), number + 3))

    with dwell.capture_activations(model, path):
        workers = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    stream = dwell.open(path)
    assert len(stream) == threads * passes * (models.LAYERS + 1)
    for step in range(threads * passes):
        # All tensors of one pass come from one thread: the length of its prompt tells which.
        tensors = stream.select(step=step)
        assert [it.name for it in tensors] == stream.names
        assert len({it.shape[1] for it in tensors}) == 1


def test_captures_may_be_nested(tmp_path: Path) -> None:
    model = models.llama()
    outer, inner = tmp_path / "outer.tensors", tmp_path / "inner.tensors"
    with torch.no_grad(), dwell.capture_activations(model, outer):
        model(models.ids())
        with dwell.capture_activations(model, inner, preset="mlp_analysis"):
            model(models.ids())
        model(models.ids())
    assert len(dwell.open(outer)) == 3 * (models.LAYERS + 1)
    assert len(dwell.open(inner)) == models.LAYERS


def test_two_captures_never_write_one_file(path: Path) -> None:
    model = models.llama()
    with torch.no_grad(), dwell.capture_activations(model, path):
        model(models.ids())
        with pytest.raises(dwell.DwellError, match="another capture"), dwell.capture_activations(model, path):
            pass
    assert len(dwell.open(path)) == models.LAYERS + 1


def test_several_models_of_one_framework(path: Path) -> None:
    framework = dwell.InstrumentationFramework()
    models_ = [models.llama(), models.causal("GPT2")]
    for model in models_:
        framework.instrument_model(model)
    with torch.no_grad(), framework.capture_activations(path):
        for model in models_:
            model(models.ids())
    assert {"0.model.layers.0", "1.transformer.h.0"} <= set(dwell.open(path).names)
    with pytest.raises(dwell.UsageError, match="instrument_model"):
        dwell.InstrumentationFramework().capture_activations(path)


def test_a_capture_that_saw_nothing_says_so(path: Path) -> None:
    with pytest.warns(dwell.CaptureWarning, match="no forward pass"), dwell.capture_activations(models.llama(), path):
        pass
    assert len(dwell.open(path)) == 0


def test_synchronous_captures_are_in_the_file_at_once(path: Path) -> None:
    model = models.llama()
    with (
        torch.no_grad(),
        dwell.capture_activations(model, path, config=InstrumentationConfig(synchronous=True)) as capture,
    ):
        model(models.ids())
        assert capture.progress()["written_packets"] == models.LAYERS + 1


def test_what_is_dropped_is_counted(path: Path) -> None:
    model = nn.ModuleDict({"part": nn.Identity()})
    config = InstrumentationConfig(compression_algorithm="zstd:19", max_memory_gb=0.05, pressure="drop").with_targets(
        "part"
    )
    handed_over = 60
    with pytest.warns(dwell.CaptureWarning, match="dropped"):
        with dwell.capture_activations(model, path, config=config.with_throughput(1000)) as capture:
            for _ in range(handed_over):
                model["part"](torch.randn(1 << 20))
    stream = dwell.open(path)
    dropped, dropped_bytes = stream.dropped["part"]
    assert dropped > 0 and len(stream) + dropped == handed_over
    assert dropped_bytes == dropped * 4 << 20
    assert capture.progress()["peak_memory_bytes"] <= 50_000_000


def test_a_tensor_larger_than_memory_is_told(path: Path) -> None:
    model = nn.ModuleDict({"part": nn.Identity()})
    config = InstrumentationConfig(max_memory_gb=0.05).with_targets("part")
    with pytest.raises(dwell.CaptureError, match="needs .* bytes of memory") as raised:
        with dwell.capture_activations(model, path, config=config):
            model["part"](torch.zeros(20 << 20))
    assert "memory" in raised.value.hints[0]


def test_a_full_disk_raises_and_keeps_what_was_written(path: Path) -> None:
    script = f"""
        import resource, signal, torch, dwell
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 20, 8 << 20))
        model = torch.nn.ModuleDict({{"part": torch.nn.Identity()}})
        config = dwell.InstrumentationConfig(compression_algorithm="none", flush_mb=1).with_targets("part")
        try:
            with dwell.capture_activations(model, {str(path)!r}, config=config):
                for _ in range(40):
                    model["part"](torch.randn(1 << 18))
        except OSError as error:
            print(type(error).__name__, error)
    """
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True, check=True)
    assert ran.stdout.startswith("StorageError writing a "), ran.stdout
    stream = dwell.open(path)
    assert 1 <= len(stream) < 40
    assert all(tensor.to_torch().shape == (1 << 18,) for tensor in stream)


def test_ctrl_c_ends_a_capture_that_waits(path: Path) -> None:
    # Nothing reads what fills the memory: one slow worker, and a model that is far ahead of it.
    script = f"""
        import torch, dwell
        model = torch.nn.ModuleDict({{"part": torch.nn.Identity()}})
        config = dwell.InstrumentationConfig(compression_algorithm="zstd:19", max_memory_gb=0.05, workers=1)
        config.with_targets("part")
        given = torch.randn(1 << 20)
        try:
            with dwell.capture_activations(model, {str(path)!r}, config=config):
                print("begins", flush=True)
                while True:
                    model["part"](given)
        except KeyboardInterrupt:
            print("stopped", flush=True)
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begins\n"
    time.sleep(1.5)
    os.kill(process.pid, signal.SIGINT)
    assert process.communicate(timeout=60)[0] == "stopped\n"
    stream = dwell.open(path)
    assert len(stream) > 0 and all(tensor.name == "part" for tensor in stream)


def test_ctrl_c_while_a_capture_ends_closes_its_stream(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def close() -> None:
        raise KeyboardInterrupt

    model = models.llama()
    capture = dwell.capture_activations(model, path)
    with pytest.raises(KeyboardInterrupt), torch.no_grad(), capture as running:
        model(models.ids())
        monkeypatch.setattr(running._transport, "close", close)
    stream = dwell.open(path)
    assert len(stream) == models.LAYERS + 1 and not stream.is_finished
    # Nobody holds the file any more.
    with torch.no_grad(), dwell.capture_activations(model, path):
        model(models.ids())
    assert dwell.open(path).is_finished
