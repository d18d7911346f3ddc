"""The modules that speak to engines, each imported when its engine is asked for."""

from __future__ import annotations

from typing import Any, cast

from tinytorch.perf.engines.protocol import Engine, Translation


def load(engine: Engine) -> Translation:
    """Return the module that speaks to an engine; imports the engine."""
    module: Any
    if engine.translation == "ours":
        from tinytorch.perf.engines import ours as module
    elif engine.translation == "pytorch":
        from tinytorch.perf.engines import pytorch as module
    elif engine.translation == "onnx_runtime":
        from tinytorch.perf.engines import onnx_runtime as module
    else:
        from tinytorch.perf.engines import jax_xla as module
    return cast(Translation, module)
