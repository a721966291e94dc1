"""Prints every tensor of a safetensors file: key, type, shape, values (of long ones the sum)."""

import sys

from safetensors import safe_open

with safe_open(sys.argv[1], framework="pt") as file:
    for key in sorted(file.keys()):
        tensor = file.get_tensor(key)
        values = tensor.tolist() if tensor.numel() < 100 else tensor.sum().item()
        print(key, tensor.dtype, list(tensor.shape), values)
