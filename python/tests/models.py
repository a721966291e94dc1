"""Small models with random weights, and what plain hooks see of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers
from torch import nn

VOCABULARY = 64
LAYERS = 3
_SHAPE = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "vocab_size": VOCABULARY,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
_GROUPED = _SHAPE | {"num_key_value_heads": 2}
_HEADS = _GROUPED | {"head_dim": 8}
_EXPERTS = {"num_experts": 4, "moe_intermediate_size": 16, "num_experts_per_tok": 2}
_NEXT = {"bos_token_id": 1, "eos_token_id": 2}

CAUSAL: dict[str, dict[str, Any]] = {
    "Llama": _GROUPED,
    "Mistral": _GROUPED,
    "Qwen2": _GROUPED,
    "Qwen3": _HEADS,
    "Gemma": _HEADS,
    "Gemma2": _HEADS,
    "Gemma3Text": _HEADS,
    "GPT2": {"n_embd": 32, "n_layer": LAYERS, "n_head": 4, "vocab_size": VOCABULARY, "n_positions": 64} | _NEXT,
    "GPTNeoX": _SHAPE,
    "OPT": _SHAPE | {"ffn_dim": 48, "word_embed_proj_dim": 32, "max_position_embeddings": 64},
    "Phi": _GROUPED,
    "Phi3": _GROUPED,
    "Falcon": {k: v for k, v in _SHAPE.items() if k != "intermediate_size"},
    "Mixtral": _GROUPED | {"num_local_experts": 4},
    "Qwen2Moe": _GROUPED | _EXPERTS | {"shared_expert_intermediate_size": 16},
    "Qwen3Moe": _HEADS | _EXPERTS,
    # Two that no table of dwell names.
    "Bloom": {"hidden_size": 32, "n_layer": LAYERS, "n_head": 4, "vocab_size": VOCABULARY},
    "GPTJ": {"n_embd": 32, "n_layer": LAYERS, "n_head": 4, "vocab_size": VOCABULARY, "rotary_dim": 4, "n_positions": 64}
    | _NEXT,
}


def causal(family: str) -> nn.Module:
    """A model of the family that generates text."""
    torch.manual_seed(0)
    config = getattr(transformers, f"{family}Config")(**CAUSAL[family])
    return transformers.AutoModelForCausalLM.from_config(config).eval()


def llama() -> nn.Module:
    return causal("Llama")


def bert() -> nn.Module:
    torch.manual_seed(0)
    return transformers.BertForMaskedLM(transformers.BertConfig(**_SHAPE)).eval()


def ids(length: int = 7, batch: int = 2) -> torch.Tensor:
    return torch.randint(3, VOCABULARY, (batch, length), generator=torch.Generator().manual_seed(1))


def plain_outputs(model: nn.Module, run: Callable[[], object]) -> dict[str, torch.Tensor]:
    """The first tensor that each module returns in one forward pass, as plain hooks see it."""
    seen: dict[str, torch.Tensor] = {}

    def keep(name: str) -> Callable[[nn.Module, Any, Any], None]:
        def hook(module: nn.Module, args: Any, output: Any) -> None:
            first = output[0] if isinstance(output, (tuple, list)) else output
            if isinstance(first, torch.Tensor):
                seen[name] = first.detach().clone()

        return hook

    handles = [module.register_forward_hook(keep(name)) for name, module in model.named_modules()]
    try:
        run()
    finally:
        for handle in handles:
            handle.remove()
    return seen


def same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors are the same in type, shape and every bit, NaN included."""
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    if left.numel() == 0:
        return True
    # A copy, because a tensor of one element may have any stride and still count as contiguous.
    bits = [value.clone(memory_format=torch.contiguous_format).reshape(-1).view(torch.uint8) for value in (left, right)]
    return torch.equal(*bits)
