"""How models name their parts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dwell.config import HookGranularity, InstrumentationConfig
from dwell.errors import UsageError

if TYPE_CHECKING:
    from torch import nn

__all__ = ["create_optimized_config", "detect_model_architecture"]


@dataclass(frozen=True)
class Family:
    """The names of a block's parts, as a pattern on the last part of a module's name."""

    attention: str
    mlp: str

    def is_attention(self, name: str) -> bool:
        """Whether a module of this name is an attention."""
        return re.fullmatch(self.attention, name) is not None

    def is_mlp(self, name: str) -> bool:
        """Whether a module of this name is an MLP, or what its output comes from where there is no module for it."""
        return re.fullmatch(self.mlp, name) is not None


_SELF_ATTN = Family(attention="self_attn", mlp="mlp")

FAMILIES: dict[str, Family] = {
    "llama": _SELF_ATTN,
    "mistral": _SELF_ATTN,
    "mixtral": Family(attention="self_attn", mlp="mlp|block_sparse_moe"),
    "moe": Family(attention="self_attn|linear_attn", mlp="mlp|block_sparse_moe|feed_forward|moe"),
    "qwen": Family(attention="self_attn|linear_attn|attn", mlp="mlp"),
    "gemma": _SELF_ATTN,
    "phi": Family(attention="self_attn|mixer", mlp="mlp"),
    "gpt2": Family(attention="attn|crossattention", mlp="mlp"),
    "gpt_neox": Family(attention="attention", mlp="mlp"),
    # The two matrices of the MLP stand in the block itself; what leaves the second is the MLP's output.
    "opt": Family(attention="self_attn", mlp="fc2"),
    "falcon": Family(attention="self_attention", mlp="mlp"),
    # `output` adds the residual and normalises, as `attention` does; `intermediate` is the hidden layer.
    "bert": Family(attention="attention|crossattention", mlp="intermediate|output"),
    "t5": Family(attention="SelfAttention|EncDecAttention", mlp="DenseReluDense"),
}

UNKNOWN = Family(
    attention=r"(.*_)?(attn|attention)|(Self|EncDec|Cross)Attention|mixer",
    mlp=r"(.*_)?(mlp|ffn?|feed_?forward|moe)|DenseReluDense",
)

EXPERTS = re.compile(r"(shared_)?experts?")

_PREFIXES = [
    ("gpt_neox", "gpt_neox"),
    ("gptneox", "gpt_neox"),
    ("mixtral", "mixtral"),
    ("gpt2", "gpt2"),
    ("llama", "llama"),
    ("mistral", "mistral"),
    ("ministral", "mistral"),
    ("qwen", "qwen"),
    ("gemma", "gemma"),
    ("falcon", "falcon"),
    ("phi", "phi"),
    ("opt", "opt"),
    ("bert", "bert"),
    ("roberta", "bert"),
    ("t5", "t5"),
    ("mt5", "t5"),
]


def detect_model_architecture(model: nn.Module) -> str:
    """The family of a model, such as `llama`, `qwen`, `gpt2`, `moe`.

    It is taken from the model's own configuration where it has one and from the name of its class otherwise. A model
    of no known family gives the type that its configuration names, or `unknown`; both can be captured.
    """
    declared = _declared_type(model)
    if declared.endswith("_moe"):
        return "moe"
    class_name = type(unwrapped(model)).__name__.lower()
    for text in (declared, class_name):
        for prefix, family in _PREFIXES:
            if text.startswith(prefix):
                return family
    return declared or "unknown"


def create_optimized_config(arch: str, purpose: str = "full_capture") -> InstrumentationConfig:
    """A configuration for a family of models and a purpose.

    | purpose | captures | stored |
    | --- | --- | --- |
    | `interpretability` | outputs of attention modules | lossless, the model waits for the disk |
    | `debugging` | every block and the logits | as they are |
    | `performance_analysis` | every block | lossless; the model never waits, what is dropped is counted |
    | `full_capture` | every block and the logits | lossless, with memory for bursts |
    """
    if purpose == "interpretability":
        config = InstrumentationConfig.attention_analysis()
    elif purpose == "debugging":
        config = InstrumentationConfig.fast_capture()
    elif purpose == "performance_analysis":
        config = InstrumentationConfig.balanced().with_granularity(HookGranularity.RESIDUAL).with_pressure("drop")
    elif purpose == "full_capture":
        config = InstrumentationConfig.max()
    else:
        names = "interpretability, debugging, performance_analysis, full_capture"
        raise UsageError(f"the purpose {purpose!r}, and no such purpose is known", [f"one of: {names}"])
    config.architecture = arch
    return config


def family_of(model: nn.Module, architecture: str | None) -> Family:
    """How this model names its parts."""
    return FAMILIES.get(architecture or detect_model_architecture(model), UNKNOWN)


def blocks_of(model: nn.Module, family: Family) -> dict[str, int]:
    """The names of a model's blocks, and the number of each in its stack.

    Blocks are the members of every outermost list of modules of which each holds an attention. Where there is none,
    they are the members of the list with the most parameters, and without any list the direct children.
    """
    found: dict[str, int] = {}
    for name, members in _lists(model):
        if any(name.startswith(f"{block}.") for block in found):
            continue
        if all(
            any(family.is_attention(part) or UNKNOWN.is_attention(part) for part in _parts(member))
            for _, member in members
        ):
            found.update(_numbered(name, members))
    return found or _blocks_by_size(model)


def _blocks_by_size(model: nn.Module) -> dict[str, int]:
    def parameters(entry: tuple[str, list[tuple[str, nn.Module]]]) -> int:
        return sum(value.numel() for _, member in entry[1] for value in member.parameters())

    lists = [entry for entry in _lists(model) if parameters(entry) > 0]
    if lists:
        return _numbered(*max(lists, key=parameters))
    return {name: number for number, (name, _) in enumerate(model.named_children())}


def head_of(model: nn.Module) -> str | None:
    """The name of the module that makes the logits, of the model or of the outermost one within it that has one."""
    for _, part in named_parts(model):
        make = getattr(part, "get_output_embeddings", None)
        head = make() if callable(make) else getattr(part, "lm_head", None)
        if head is not None:
            return next((name for name, module in named_parts(model) if module is head), None)
    return None


def _numbered(name: str, members: list[tuple[str, nn.Module]]) -> dict[str, int]:
    """The members of a list by their places in it; one that is there twice by its first."""
    prefix = f"{name}." if name else ""
    numbered: dict[str, int] = {}
    seen: set[int] = set()
    for number, (key, member) in enumerate(members):
        if id(member) not in seen:
            seen.add(id(member))
            numbered[f"{prefix}{key}"] = number
    return numbered


def _lists(model: nn.Module) -> Iterator[tuple[str, list[tuple[str, nn.Module]]]]:
    from torch import nn

    for name, module in named_parts(model):
        if isinstance(module, (nn.ModuleList, nn.Sequential)):
            members = [(key, member) for key, member in module._modules.items() if member is not None]
            if members:
                yield name, members


def _parts(module: nn.Module) -> Iterator[str]:
    return (name.rpartition(".")[2] for name, _ in named_parts(module) if name)


def named_parts(model: nn.Module, remove_duplicate: bool = True) -> Iterator[tuple[str, nn.Module]]:
    """The modules of a model with their names, as if no part of it had been compiled."""
    for name, module in model.named_modules(remove_duplicate=remove_duplicate):
        if not name.endswith("_orig_mod"):
            yield name.replace("_orig_mod.", ""), module


def _declared_type(model: nn.Module) -> str:
    config = getattr(unwrapped(model), "config", None)
    declared = getattr(config, "model_type", None)
    return declared.lower() if isinstance(declared, str) else ""


def unwrapped(model: nn.Module) -> nn.Module:
    """The module inside what `torch.compile` or a parallel wrapper made of it."""
    from torch import nn

    inner = getattr(model, "_orig_mod", None)
    if type(model).__name__ in ("DataParallel", "DistributedDataParallel"):
        inner = model.module
    return unwrapped(inner) if isinstance(inner, nn.Module) else model
