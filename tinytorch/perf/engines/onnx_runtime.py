"""ONNX Runtime as an engine: our models as ONNX graphs, with all of its optimizations."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import onnxruntime

from tinytorch.core.module import Module
from tinytorch.core.op import Array
from tinytorch.perf.engines.onnx_graph import onnx_model
from tinytorch.perf.team import usable_cores


def scope(setting: str) -> AbstractContextManager[None]:
    """Return a context without effect: a session has its own threads."""
    del setting
    return nullcontext()


def session_of(model: Module, inputs: Array, optimized_path: str | None = None) -> Any:
    """Return the session of ``model``, with a thread for each core; ``optimized_path`` keeps the optimized graph."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.intra_op_num_threads = len(usable_cores())
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    if optimized_path is not None:
        options.optimized_model_filepath = optimized_path
    made = onnx_model(model, inputs).SerializeToString()
    return onnxruntime.InferenceSession(made, options, providers=["CPUExecutionProvider"])


def forward(setting: str, model: Module, inputs: Array) -> Callable[[], Array]:
    """Return a call of the session with input and output bound to arrays: each call overwrites the last output."""
    del setting
    session = session_of(model.eval(), inputs)
    output: Array = session.run(None, {"x": inputs})[0]
    bound = session.io_binding()
    bound.bind_cpu_input("x", inputs)
    bound.bind_output("output", "cpu", 0, np.float32, output.shape, output.ctypes.data)

    def call() -> Array:
        session.run_with_iobinding(bound)
        return output

    return call
