"""What all tests share."""

from __future__ import annotations

import os

# Some virtual machines announce AMX and cannot execute it.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from pathlib import Path

import pytest
import torch

torch.set_num_threads(2)

# These run in an environment of their own: scripts/test-cluster.sh.
collect_ignore = ["cluster"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a capture goes."""
    return tmp_path / "capture.tensors"


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)
