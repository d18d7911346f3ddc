"""The model that the page reads, what it is asked, and a file that cannot be read.

The model tells whether a line of text is upright or on its head; where it is from stands beside its file. The lines are
written here, so that the right answers are known.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tinytorch.core.dispatch import no_grad
from tinytorch.core.op import Array
from tinytorch.core.tensor import Tensor

#: The file, as its makers publish it.
FILE = Path(__file__).with_name("ch_ppocr_mobile_v2.0_cls_mobile.onnx")
#: Lines at a time.
LINES = 6
#: Rows and columns of an image of a line.
_SIZE = (48, 192)
_TEXTS = (
    "Memory", "Bandwidth", "Attention", "Roofline", "Quantize", "A faster model", "Time by op", "Overhead", "compute",
    "Measured twice", "cache line", "one pass", "The batch", "Convolution", "Where it goes",
)  # fmt: skip


def _image(text: str) -> Array:
    """Return a text, as large as it fits, as an image (3, rows, columns) of numbers from -1 to 1."""
    rows, columns = _SIZE
    figure = Figure(figsize=(columns / 100, rows / 100), dpi=100)
    canvas: Any = FigureCanvasAgg(figure)
    written = figure.text(0.01, 0.5, text, ha="left", va="center", family="DejaVu Serif", fontsize=30)
    while (box := written.get_window_extent(canvas.get_renderer())).width > columns - 4 or box.height > rows - 2:
        written.set_fontsize(float(written.get_fontsize()) - 1)
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[..., :3].astype(np.float32)
    return (pixels / 127.5 - 1).transpose(2, 0, 1)


def lines() -> Array:
    """Return lines of text, every second one on its head."""
    upright = np.stack([_image(text) for text in _TEXTS])
    both = np.stack([upright, upright[:, :, ::-1, ::-1]], axis=1)
    return np.ascontiguousarray(both.reshape(-1, *upright.shape[1:]))


def right_answers(models: Mapping[str, Any]) -> dict[str, int]:
    """Return how many of all `lines` each model answers rightly, `LINES` of them at a time."""
    images = lines()
    expected = np.arange(len(images)) % 2
    found = {}
    for name, model in models.items():
        with no_grad():
            parts = [model(Tensor(images[at : at + LINES])).data for at in range(0, len(images), LINES)]
        found[name] = int((np.concatenate(parts).argmax(axis=1) == expected).sum())
    return found


def trees(path: Path) -> Path:
    """Write a file of a model that is no net, a scaler and a regression by trees; return its path."""
    import onnx
    from onnx import helper

    read, written = (helper.make_tensor_value_info(name, 1, ["batch", 4]) for name in ("x", "y"))
    nodes = [
        helper.make_node("Scaler", ["x"], ["scaled"], domain="ai.onnx.ml"),
        helper.make_node("TreeEnsembleRegressor", ["scaled"], ["leaves"], domain="ai.onnx.ml"),
        helper.make_node("Relu", ["leaves"], ["y"]),
    ]
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(helper.make_graph(nodes, "trees", [read], [written]), opset_imports=opsets)
    onnx.save(model, str(path))
    return path
