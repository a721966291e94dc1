"""Compares a capture of "The capital of France is" with what transformers computes from the same GGUF file."""

import os
import sys

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

import numpy as np
import pyarrow as pa
import torch
from transformers import AutoModelForCausalLM

stream, model_path = sys.argv[1:]
TOKENS = [504, 3575, 282, 4649, 314]

captured = {
    row["name"]: np.frombuffer(row["payload"], dtype=np.float32).reshape(row["shape"])
    for row in pa.ipc.open_stream(stream).read_all().to_pylist()
    if row["record"] == "tensor" and row["step"] == 0
}
folder, file_name = os.path.split(model_path)
model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file_name, dtype=torch.float32)
with torch.no_grad():
    expected = model(torch.tensor([TOKENS]), output_hidden_states=True)


def correlation(name, tensor):
    found, other = captured[name], tensor[0].numpy()
    assert found.shape == other.shape, (name, found.shape, other.shape)
    return np.corrcoef(found.ravel(), other.ravel())[0, 1]


# llama.cpp rounds activations to 8 bits before it multiplies them; transformers does not.
# The last hidden state of transformers is normed already.
layers = expected.hidden_states[1:-1]
assert len(layers) == 29, len(layers)
for layer, state in enumerate(layers):
    value = correlation(f"l_out-{layer}", state)
    assert value > 0.99, (layer, value)
value = correlation("result_output", expected.logits)
assert value > 0.99, value
assert (captured["result_output"].argmax(1) == expected.logits[0].argmax(1).numpy()).all()
