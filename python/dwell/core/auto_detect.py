"""Names of `dwell.architectures`."""

from dwell.architectures import create_optimized_config, detect_model_architecture

__all__ = ["create_optimized_config", "detect_model_architecture"]
