"""dwell: activations of a model on disk, while the model keeps its speed.

import dwell

with dwell.capture_activations(model, output_path="out.tensors"):
    model(ids)

for tensor in dwell.open("out.tensors"):
    print(tensor.name, tensor.step, tensor.to_torch().shape)
"""

from dwell._core import __version__
from dwell.analysis import analyze_activations, analyze_activations_with_tokens
from dwell.architectures import create_optimized_config, detect_model_architecture
from dwell.config import HookConfig, HookGranularity, InstrumentationConfig
from dwell.errors import CaptureError, CaptureWarning, DwellError, NotFoundError, StorageError, UsageError
from dwell.framework import InstrumentationFramework, capture_activations
from dwell.reader import Tensor, TensorFile, open
from dwell.sql import sql, sql_connection
from dwell.tokens import Token

__all__ = [
    "CaptureError",
    "CaptureWarning",
    "DwellError",
    "HookConfig",
    "HookGranularity",
    "InstrumentationConfig",
    "InstrumentationFramework",
    "NotFoundError",
    "StorageError",
    "Tensor",
    "TensorFile",
    "Token",
    "UsageError",
    "__version__",
    "analyze_activations",
    "analyze_activations_with_tokens",
    "capture_activations",
    "create_optimized_config",
    "detect_model_architecture",
    "open",
    "sql",
    "sql_connection",
]
