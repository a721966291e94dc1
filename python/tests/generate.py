"""Generates with a capture that goes on where an earlier process was stopped: generate.py STREAM TOKENS"""

from __future__ import annotations

import sys
import time

import torch
from torch import nn

import dwell


class Language(nn.Module):
    """A language model of three blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(64, 32)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(32, 4, 48, batch_first=True) for _ in range(3))
        self.lm_head = nn.Linear(32, 64)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        hidden = self.embedding(ids)
        for layer in self.layers:
            hidden = layer(hidden)
        return self.lm_head(hidden)


path, count = sys.argv[1], int(sys.argv[2])
torch.manual_seed(0)
model = Language().eval()
with dwell.capture_activations(
    model, path, track_per_token=True, checkpoint_interval_tokens=4, resume_from_checkpoint=True
) as capture:
    print("begins", flush=True)
    ids = torch.tensor([[1, 2, 3, *(token.token_id for token in capture.tokens)]])
    while len(capture.tokens) < count:
        with torch.no_grad():
            next_id = int(model(ids)[0, -1].argmax())
        capture.record_token(next_id, f"{next_id} ")
        ids = torch.cat([ids, torch.tensor([[next_id]])], dim=-1)
        time.sleep(0.02)
