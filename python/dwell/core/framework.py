"""Names of `dwell.framework`."""

from dwell.framework import InstrumentationFramework, analyze_activations_with_tokens

__all__ = ["InstrumentationFramework", "analyze_activations_with_tokens"]
