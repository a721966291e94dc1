"""The same names under the paths that scripts for llm-instrumentation import them from."""

from dwell.config import InstrumentationConfig
from dwell.framework import InstrumentationFramework, capture_activations

__all__ = ["InstrumentationConfig", "InstrumentationFramework", "capture_activations"]
