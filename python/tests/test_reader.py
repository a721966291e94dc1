"""Tensors back from a stream, with dwell and with others' readers."""

from __future__ import annotations

from pathlib import Path

import models
import pytest
import torch

import dwell
from dwell import InstrumentationConfig


@pytest.fixture
def truth(path: Path) -> dict[str, torch.Tensor]:
    """Two steps of a bf16 model in a stream, and the outputs of the last."""
    model = models.llama().to(torch.bfloat16)
    with torch.no_grad():
        seen = models.plain_outputs(model, lambda: model(models.ids()))
        with dwell.capture_activations(model, path):
            model(models.ids(length=3))
            model(models.ids())
    return seen


def test_a_stream_is_a_sequence(path: Path, truth: dict[str, torch.Tensor]) -> None:
    with dwell.open(path) as stream:
        assert len(stream) == 2 * (models.LAYERS + 1)
        assert [tensor.packet for tensor in stream] == list(range(len(stream)))
        assert stream[-1].name == "lm_head" and stream[0].name == stream[:1][0].name == "model.layers.0"
        assert stream.names == [*(f"model.layers.{layer}" for layer in range(models.LAYERS)), "lm_head"]
        assert [it.step for it in stream.select("model.layers.*", layer=2)] == [0, 1]
        assert [it.name for it in stream.select(step=1)] == stream.names
        assert [it.name for it in stream.select("lm_head", step=0)] == ["lm_head"]
        with pytest.raises(IndexError):
            stream[len(stream)]
        with pytest.raises(dwell.UsageError, match="no such tensor"):
            stream.get("lm_head", step=5)
        assert stream.metadata["dwell.architecture"] == "llama"
        assert stream.is_finished and stream.dropped == {} and stream.tokens == []
        assert stream.stats()["lm_head"]["packets"] == 2
        assert stream.stats()[""]["raw_bytes"] == sum(tensor.raw_bytes for tensor in stream)
        times = [tensor.timestamp_ns for tensor in stream]
        assert times == sorted(times)


def test_values_come_back_in_every_form(path: Path, truth: dict[str, torch.Tensor]) -> None:
    tensor = dwell.open(path).get("model.layers.1", step=1)
    expected = truth["model.layers.1"]
    assert models.same_bits(tensor.to_torch(), expected)
    assert torch.equal(torch.from_numpy(tensor.to_numpy()), expected.float())
    assert tensor.to_arrow().shape == tuple(expected.shape)
    assert (tensor.dtype, tensor.shape, tensor.raw_bytes) == ("bfloat16", tuple(expected.shape), expected.nbytes)


def test_float8_needs_its_own_numpy_types(path: Path) -> None:
    pytest.importorskip("ml_dtypes")
    values = torch.tensor([1.0, -2.5, 448.0]).to(torch.float8_e4m3fn)
    model = torch.nn.ModuleDict({"part": torch.nn.Identity()})
    with dwell.capture_activations(model, path, config=InstrumentationConfig().with_targets("part")):
        model["part"](values)
    tensor = dwell.open(path)[0]
    assert models.same_bits(tensor.to_torch(), values)
    assert tensor.to_numpy().astype("float32").tolist() == [1.0, -2.5, 448.0]


def test_safetensors(path: Path, truth: dict[str, torch.Tensor], tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    out = tmp_path / "out.safetensors"
    assert dwell.open(path).to_safetensors(out) == 2 * (models.LAYERS + 1)
    loaded = safetensors.load_file(out)
    assert len(loaded) == 2 * (models.LAYERS + 1)
    assert models.same_bits(loaded["model.layers.2/1"], truth["model.layers.2"])
    with pytest.raises(dwell.UsageError, match="the stream itself"):
        dwell.open(path).to_safetensors(path)
    assert len(dwell.open(path)) == len(loaded)


def test_other_readers_agree(path: Path, truth: dict[str, torch.Tensor]) -> None:
    pytest.importorskip("pyarrow")
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    arrow = dwell.open(path).to_arrow().read_all()
    rows = [(it.name, it.step, it.dtype, list(it.shape), it.raw_bytes) for it in dwell.open(path)]
    columns = ["name", "step", "dtype", "shape", "raw_bytes"]
    assert [tuple(row.values()) for row in arrow.select(columns).to_pylist()] == rows
    assert polars.read_ipc_stream(str(path)).select(columns).rows() == rows
    counted = duckdb.sql("select name, count(*) from arrow group by all order by name").fetchall()
    assert counted == sorted((name, 2) for name in {row[0] for row in rows})


def test_a_bound_holds_and_is_told(path: Path) -> None:
    model = models.llama()
    with torch.no_grad():
        seen = models.plain_outputs(model, lambda: model(models.ids(length=40)))
        with dwell.capture_activations(model, path, preset="max_compression") as capture:
            model(models.ids(length=40))
    stream = dwell.open(path)
    cosines: dict[str, float] = {}
    errors: dict[str, float] = {}
    for tensor in stream:
        expected, found = seen[tensor.name].double(), tensor.to_torch().double()
        cosine = torch.nn.functional.cosine_similarity(expected, found, dim=-1)
        cosines[tensor.name], errors[tensor.name] = float(cosine.min()), float((expected - found).abs().max())
        assert tensor.codec == "bounded:nmse:1e-3"
        assert tensor.min_cosine == pytest.approx(cosines[tensor.name], abs=1e-7) and tensor.min_cosine > 0.9994
        assert tensor.max_error == pytest.approx(errors[tensor.name])
    assert capture.summary is not None
    loss = capture.summary["codec_loss"]
    assert loss == stream.codec_loss
    assert loss["codecs"] == ["bounded:nmse:1e-3"] and loss["packets"] == len(stream)
    worst = min(cosines, key=lambda name: cosines[name])
    assert loss["min_cosine"] == (pytest.approx(cosines[worst], abs=1e-7), worst, 0)
    worst = max(errors, key=lambda name: errors[name])
    assert loss["max_error"] == (pytest.approx(errors[worst]), worst, 0)
    stored = sum(tensor.stored_bytes for tensor in stream)
    assert capture.summary["ratio"] == sum(tensor.raw_bytes for tensor in stream) / stored > 3


def test_a_capture_without_loss_says_so(path: Path) -> None:
    model = models.llama()
    with torch.no_grad(), dwell.capture_activations(model, path) as capture:
        model(models.ids())
    assert capture.summary is not None and capture.summary["codec_loss"] is None
    assert dwell.open(path).codec_loss is None


def test_a_cut_stream_is_read_up_to_its_last_whole_batch(path: Path) -> None:
    model = models.llama()
    with torch.no_grad(), dwell.capture_activations(model, path) as capture:
        model(models.ids())
        capture.flush()
        whole_bytes = path.stat().st_size
        model(models.ids())
    with path.open("r+b") as file:
        file.truncate(whole_bytes + 5000)
    stream = dwell.open(path)
    assert not stream.is_finished and stream.unfinished_because
    assert len(stream) == models.LAYERS + 1
    assert "unfinished" in repr(stream)


def test_damage_raises_with_the_text_of_the_command(path: Path, truth: dict[str, torch.Tensor]) -> None:
    data = bytearray(path.read_bytes())
    payload = bytes(dwell.open(path).to_arrow().read_all()["payload"][0].as_py())
    data[data.index(payload) + len(payload) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(dwell.DwellError, match="reading packet 0 .*found damage") as raised:
        dwell.open(path)[0].to_torch()
    assert "dwell tensors verify" in raised.value.hints[0]
    with pytest.raises(FileNotFoundError, match="no such file"):
        dwell.open(path.with_name("missing"))
    path.write_text("not a stream")
    with pytest.raises(dwell.DwellError, match="opening a tensor stream"):
        dwell.open(path)
