"""The model that the page reads, the lines that it is asked, and what is found of it: counts, times, right answers.

The model tells whether a line of text is upright or on its head; where it is from stands beside its file. The lines are
written here, so that the right answers are known.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tinytorch.chapters.your_model.prepare import photographs, prepared, prepared_in_floats
from tinytorch.core.dispatch import no_grad
from tinytorch.core.module import Module
from tinytorch.core.op import Array
from tinytorch.core.tensor import Tensor
from tinytorch.perf.acceleration.plans import ModulePlan, together
from tinytorch.perf.acceleration.techniques import Technique, Tried, forward_pass
from tinytorch.perf.events.flops import record_forward
from tinytorch.perf.events.stream import Event
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.measuring import Counted, Measurement, interleave, judge
from tinytorch.perf.measuring.between_run_variance import with_between_run_spread
from tinytorch.perf.measuring.comparison import Comparison, compare_paired
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.measuring.judge import Judgement
from tinytorch.perf.onnx import from_onnx
from tinytorch.perf.profiling.shares import recordings, shares
from tinytorch.perf.roofline.placement import Placed, place_groups

#: The file, as its makers publish it.
FILE = Path(__file__).with_name("ch_ppocr_mobile_v2.0_cls_mobile.onnx")
#: Lines at a time.
LINES = 6
_TEXTS = (
    "Memory", "Bandwidth", "Attention", "Roofline", "Quantize", "A faster model", "Time by op", "Overhead", "compute",
    "Measured twice", "cache line", "one pass", "The batch", "Convolution", "Where it goes",
)  # fmt: skip
FIRST, POINTWISE, DEPTHWISE = "first convolution", "1 × 1 convolutions", "depthwise convolutions"
_KIND_OF = {
    "batch_norm": "normalization",
    "adaptive_avg_pool2d": "pooling",
    "max_pool2d": "pooling",
    **dict.fromkeys(("linear", "softmax", "reshape"), "the last layer"),
}


def _image(text: str) -> Array:
    """Return a text, as large as it fits, as an image (3, rows, columns) of numbers from -1 to 1."""
    rows, columns = 48, 192
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


def right_answers(models: Mapping[str, Any]) -> dict[str, Counted]:
    """Return how many of all `lines` each model answers rightly, `LINES` of them at a time."""
    images = lines()
    found = {}
    with no_grad():
        for name, model in models.items():
            parts = [model(Tensor(images[at : at + LINES])).data for at in range(0, len(images), LINES)]
            right = np.concatenate(parts).argmax(axis=1) == np.arange(len(images)) % 2
            found[name] = Counted(right.sum(), "lines", f"right answers of {len(images)}, {name}")
    return found


def trees(folder: str) -> Path:
    """Write a file of a model that is no net, a scaler and a regression by trees, into a folder; return its path."""
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
    onnx.save(model, path := Path(folder) / "trees.onnx")
    return path


def in_codes(folder: str) -> Path:
    """Write the file with the weights of its convolutions in eight-bit codes into a folder, and return its path."""
    import onnx
    from onnx import helper, numpy_helper

    model = onnx.load(str(FILE))
    graph, made = model.graph, []
    constants = {node.output[0]: node for node in graph.node if node.op_type == "Constant"}
    for name in sorted({node.input[1] for node in graph.node if node.op_type == "Conv"}):
        graph.node.remove(constants[name])
        weights = numpy_helper.to_array(constants[name].attribute[0].t)
        scale = np.abs(weights).max(axis=(1, 2, 3)) / np.float32(127)
        codes = np.rint(weights / scale[:, None, None, None]).astype(np.int8)
        stored = (numpy_helper.from_array(one, name + of) for one, of in ((codes, "_codes"), (scale, "_scale")))
        graph.initializer.extend(stored)
        made.append(helper.make_node("DequantizeLinear", [name + "_codes", name + "_scale"], [name], axis=0))
    for node in reversed(made):
        graph.node.insert(0, node)
    model.opset_import[0].version = 13  # the first with a scale for each channel
    onnx.save(model, path := Path(folder) / "codes.onnx")
    return path


@dataclass(frozen=True)
class Coded:
    """Bytes of the published file over those of one in codes, and the lines that this answers rightly."""

    smaller: Counted
    right: Counted


def coded_file() -> Coded:
    """Return what the file in codes saves, and costs in answers."""
    with TemporaryDirectory() as folder:
        path = in_codes(folder)
        smaller = FILE.stat().st_size / path.stat().st_size
        right = right_answers({"the file in codes": from_onnx(path)})["the file in codes"]
    return Coded(Counted(smaller, "", "bytes of the file over those of the file in codes"), right)


@dataclass(frozen=True)
class Prepared:
    """What float32 gains where images are prepared, what the bytes predict at least, and whether it is that."""

    gained: Comparison
    predicted: Counted
    kept: Judgement


def prepared_in_turns() -> Prepared:
    """Return what float32 gains; a pixel has 1 byte, and every pass reads and writes it once."""
    images = photographs()
    both = {"double": lambda: prepared(images), "single": lambda: prepared_in_floats(images)}
    times = interleave(both, repeats=30, at_most_seconds=5.0, warmup_seconds=0.2)
    gained = compare_paired(times["double"], times["single"], matters=0.1)
    fewer = ((1 + 8) + 2 * (8 + 8) + (8 + 4)) / ((1 + 4) + (4 + 4))
    kept = judge.word_between(gained.estimate, {"less": (None, fewer), "kept": (fewer, None)})
    return Prepared(gained, Counted(fewer, "", "bytes for each pixel before, over those after"), kept)


def kind_of(event: Event) -> str:
    """Return which kind of operation ran; a convolution is told by the shape of its weights."""
    if event.op != "conv2d":
        return _KIND_OF.get(event.op, "element by element")
    _, channels, rows, columns = event.inputs[1].shape
    if (rows, columns) == (1, 1):
        return POINTWISE
    return DEPTHWISE if channels == 1 else FIRST


@dataclass(frozen=True)
class Read:
    """What became of the nodes of the file, and the share of convolutions in the arithmetic of a pass."""

    nodes: Counted
    constants: Counted
    settled: Counted
    operations: Counted
    parameters: Counted
    convolutions: Counted


def what_was_read(model: Module, inputs: Tensor) -> Read:
    """Return what became of the file's nodes; those that are settled follow from shapes, or join another."""
    import onnx

    kinds = Counter(node.op_type for node in onnx.load(str(FILE)).graph.node)
    events = record_forward(model, inputs).events
    convolutions = sum(event.flops or 0 for event in events if event.op == "conv2d")
    operations = sum((event.flops or 0) + (event.elementwise or 0) for event in events)
    settled = kinds.total() - kinds["Constant"] - len(events)
    return Read(
        Counted(kinds.total(), "nodes", "nodes of the file"),
        Counted(kinds["Constant"], "1", "nodes of the file that are constants"),
        Counted(settled, "1", "nodes that are worked out from constants and shapes, or joined to others"),
        Counted.of(events, "operations", "operations of a pass through the model"),
        Counted(sum(each.size for each in model.parameters()), "parameters", "parameters of the model"),
        Counted(convolutions / operations, "%", "share of convolutions in all operations"),
    )


def place_kinds(model: Module, inputs: Tensor, machine: Ceilings, repeats: int = 9) -> dict[str, Placed]:
    """Return where each kind of operation stands, those with most bytes first."""
    found = place_groups(kind_of, recordings(forward_pass(model, inputs), repeats), machine)
    return dict(sorted(found.items(), key=lambda item: -item[1].demand.bytes))


@dataclass(frozen=True)
class Timed:
    """A kind of operation: its share of the time, and where it stands."""

    share: Measurement
    placed: Placed


def time_kinds(
    model: Module, inputs: Tensor, kinds: Mapping[str, Placed], repeats: int = 9
) -> tuple[dict[str, Timed], Measurement]:
    """Return each kind with its share of the time, the largest first, and the share of all convolutions."""

    def is_kind(name: str) -> Callable[[Event], bool]:
        return lambda event: kind_of(event) == name

    parts = {name: is_kind(name) for name in kinds} | {"convolutions": lambda event: event.op == "conv2d"}
    taken = shares(forward_pass(model, inputs), parts, repeats)
    timed = {name: Timed(taken[name], placed) for name, placed in kinds.items()}
    return dict(sorted(timed.items(), key=lambda item: -item[1].share.median)), taken["convolutions"]


@dataclass(frozen=True)
class Answered:
    """A technique, and how many lines the model answers rightly with it."""

    technique: Technique
    right: Counted


def answered(tried: Tried, models: Mapping[str, Any]) -> dict[str, Answered]:
    """Return each technique with the right answers of the model that it made, by name."""
    right = right_answers(models)
    return {each.name: Answered(each, right[each.name]) for each in tried.techniques}


def what_remains(planned: ModulePlan, inputs: Tensor) -> tuple[Counted, Measurement]:
    """Return how many steps a plan has, and the share of the time in them that its convolutions take."""
    steps = planned.step_times(inputs)
    inside, convolutions = (
        together([step for step in steps if part in step.name], "steps of the plan").samples for part in ("", "conv2d")
    )
    samples = tuple(part / whole for part, whole in zip(convolutions, inside, strict=True))
    what, conditions = "share of convolutions in the steps of the plan", Conditions(part_of="the time in the steps")
    share = with_between_run_spread(Measurement(what, samples, "%", conditions))
    return Counted.of(steps, "steps", "steps of the plan"), share


def depthwise_intensity(window: int) -> Counted:
    """Return the intensity of a depthwise convolution: two operations for each place, over an input and a result."""
    return Counted(2 * window**2 / 8, "FLOP/B", f"intensity of a depthwise convolution, {window} × {window}")


def swish_bytes() -> Counted:
    """Return the bytes of a hard-swish of four passes over those of one: three of one array and one of two."""
    return Counted((8 + 8 + 12 + 8) / 8, "", "bytes of four passes over those of one")
