"""Token boundaries, checkpoints, and going on after a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import models
import pytest
import torch

import dwell
from dwell import InstrumentationConfig, InstrumentationFramework

GENERATE = Path(__file__).with_name("generate.py")


def decode(capture: dwell.capture.Capture, model: torch.nn.Module, count: int) -> None:
    ids = models.ids(batch=1)
    for number in range(count):
        with torch.no_grad():
            next_id = int(model(ids).logits[0, -1].argmax())
        capture.record_token(next_id, f"<{number}>")
        ids = torch.cat([ids, torch.tensor([[next_id]])], dim=-1)


def test_tokens_are_in_the_stream_and_beside_it(path: Path) -> None:
    model = models.llama()
    with dwell.capture_activations(model, path, track_per_token=True) as capture:
        decode(capture, model, 5)
    packets_per_step = models.LAYERS + 1
    stream = dwell.open(path)
    assert [token.token_text for token in stream.tokens] == [f"<{number}>" for number in range(5)]
    assert [token.packet for token in stream.tokens] == [packets_per_step * (number + 1) for number in range(5)]
    assert [(tensor.step, tensor.token_index) for tensor in stream.select("lm_head")] == [(n, n) for n in range(5)]
    told = json.loads((path.parent / "capture_tokens.json").read_text())
    assert told["total_tokens"] == 5
    assert [token["token_id"] for token in told["tokens"]] == [token.token_id for token in stream.tokens]


def test_tokens_are_counted_exactly_per_token(path: Path) -> None:
    model = models.llama()
    framework = InstrumentationFramework(InstrumentationConfig.fast_capture())
    framework.instrument_model(model)
    with framework.capture_activations(path, track_per_token=True) as capture:
        decode(capture, model, 3)
        with torch.no_grad():
            model(models.ids(batch=1))
    analysis = dwell.analyze_activations_with_tokens(path, framework)
    per_step = models.LAYERS + 1
    assert analysis["packets_of_token"] == [per_step] * 4
    assert analysis["packets_per_token"] == per_step * 4 / 3
    # One token is 32 numbers in each block and 64 of logits; the prompt has 7 tokens and grows by one.
    width = 4 * (32 * models.LAYERS + models.VOCABULARY)
    assert analysis["bytes_of_token"] == [7 * width, 8 * width, 9 * width, 7 * width]
    assert analysis["token_metadata"]["total_tokens"] == 3


def test_tokens_need_tracking(path: Path) -> None:
    model = models.llama()
    with torch.no_grad(), dwell.capture_activations(model, path) as capture:
        model(models.ids())
        with pytest.raises(dwell.UsageError, match="track_per_token"):
            capture.record_token(1, "x")
    for arguments in ({"checkpoint_interval_tokens": 4}, {"resume_from_checkpoint": True}, {"checkpoint_path": "x"}):
        with pytest.raises(ValueError, match="track_per_token"):
            dwell.capture_activations(model, path, **arguments)
    with pytest.raises(ValueError, match="at least 1"):
        dwell.capture_activations(model, path, track_per_token=True, checkpoint_interval_tokens=0)


def test_an_exception_keeps_data_tokens_and_checkpoint(path: Path) -> None:
    model = models.llama()
    with pytest.raises(ZeroDivisionError):
        with dwell.capture_activations(model, path, track_per_token=True, checkpoint_interval_tokens=2) as capture:
            decode(capture, model, 3)
            raise ZeroDivisionError
    stream = dwell.open(path)
    assert (len(stream), len(stream.tokens), stream.is_finished) == (3 * (models.LAYERS + 1), 3, False)
    assert json.loads((path.parent / "capture_tokens.json").read_text())["total_tokens"] == 3
    assert Path(f"{path}.ckpt.json").exists()
    assert not any(module._forward_hooks for module in model.modules())
    with dwell.capture_activations(
        model, path, track_per_token=True, checkpoint_interval_tokens=2, resume_from_checkpoint=True
    ) as capture:
        # The third token came after the checkpoint.
        assert len(capture.tokens) == 2
        with torch.no_grad():
            model(models.ids())
        capture.record_token(7, "again")
    stream = dwell.open(path)
    assert [token.token_text for token in stream.tokens] == ["<0>", "<1>", "again"]
    assert {tensor.step for tensor in stream} == {0, 1, 2}
    assert stream.is_finished and not Path(f"{path}.ckpt.json").exists()


def test_a_finished_capture_is_not_resumed_and_other_settings_are_refused(path: Path) -> None:
    model = models.llama()
    with dwell.capture_activations(model, path, track_per_token=True) as capture:
        decode(capture, model, 1)
    with pytest.raises(dwell.DwellError, match="finished"):
        with dwell.capture_activations(model, path, track_per_token=True, resume_from_checkpoint=True):
            pass
    assert len(dwell.open(path)) == models.LAYERS + 1
    with pytest.raises(RuntimeError):
        with dwell.capture_activations(model, path, track_per_token=True, checkpoint_interval_tokens=1) as capture:
            decode(capture, model, 1)
            raise RuntimeError
    with pytest.raises(dwell.DwellError, match="codec"):
        with dwell.capture_activations(
            model, path, preset="fast_capture", track_per_token=True, resume_from_checkpoint=True
        ):
            pass


def test_a_capture_without_anything_to_resume_begins(path: Path) -> None:
    model = models.llama()
    with dwell.capture_activations(model, path, track_per_token=True, resume_from_checkpoint=True) as capture:
        assert capture.tokens == []
        decode(capture, model, 1)
    assert len(dwell.open(path).tokens) == 1


def contents(path: Path) -> list[tuple[str, int, int | None, bytes]]:
    return [(it.name, it.step, it.token_index, bytes(it.to_bytes())) for it in dwell.open(path)]


def test_killed_and_resumed_is_the_same_as_uninterrupted(tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole.tensors", tmp_path / "cut.tensors"
    subprocess.run([sys.executable, GENERATE, whole, "80"], check=True)
    kills = 0
    for wait_s in (0.05, 0.25, 0.5):
        process = subprocess.Popen([sys.executable, GENERATE, cut, "80"], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(wait_s)
        kills += process.poll() is None
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert kills > 0
    subprocess.run([sys.executable, GENERATE, cut, "80"], check=True)
    assert contents(cut) == contents(whole)
    assert [token.token_id for token in dwell.open(cut).tokens] == [
        token.token_id for token in dwell.open(whole).tokens
    ]
    assert dwell.open(cut).is_finished
