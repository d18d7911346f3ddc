"""The model that the page reads, the lines that it is asked, and what is found of it: counts, times, right answers.

The model tells whether a line of text is upright or on its head; where it is from stands beside its file. The lines are
written here, so that the right answers are known.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tinytorch.core.dispatch import no_grad
from tinytorch.core.module import Module
from tinytorch.core.op import Array
from tinytorch.core.tensor import Tensor
from tinytorch.perf.acceleration.plans import ModulePlan, plan, together
from tinytorch.perf.events.flops import record_forward
from tinytorch.perf.events.stream import Event
from tinytorch.perf.measuring import Counted, Measurement, Modelled, quotient
from tinytorch.perf.measuring.between_run_variance import with_between_run_spread
from tinytorch.perf.measuring.comparison import Comparison
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.measuring.memory import MemoryProfiler
from tinytorch.perf.measuring.model_io import MIB
from tinytorch.perf.measuring.values import as_measurement
from tinytorch.perf.onnx.nodes import Graph
from tinytorch.perf.onnx.runtime import File, Settings
from tinytorch.perf.onnx.runtime_profile import Group, RuntimeProfile, joined_chains, profile_file, side_by_side
from tinytorch.perf.quantization.convert import stored_bytes
from tinytorch.perf.roofline.placement import Placed

#: The file, as its makers publish it.
FILE = Path(__file__).with_name("ch_ppocr_mobile_v2.0_cls_mobile.onnx")
#: Lines at a time.
LINES = 6
_TEXTS = (
    "Memory", "Bandwidth", "Attention", "Roofline", "Quantize", "A faster model", "Time by op", "Overhead", "compute",
    "Measured twice", "cache line", "one pass", "The batch", "Convolution", "Where it goes",
)  # fmt: skip
#: Ways to run the model.
NUMPY, KERNELS, PLAN, CODES = "NumPy", "compiled kernels", "a plan", "8-bit layers"
FIRST, POINTWISE, DEPTHWISE = "first convolution", "1 × 1 convolutions", "depthwise convolutions"
_KIND_OF = {
    "batch_norm": "normalization",
    **dict.fromkeys(
        ("adaptive_avg_pool2d", "max_pool2d", "linear", "softmax", "reshape"), "pooling and the last layer"
    ),
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


def with_hard_swish(folder: str) -> Path:
    """Write the file with one node for each hard-swish in place of four into a folder, and return its path."""
    import onnx
    from onnx import helper

    model = onnx.load(str(FILE))
    nodes = model.graph.node
    makers = {node.output[0]: node for node in nodes}
    for last in [node for node in nodes if node.op_type == "Div"]:
        product = makers[last.input[0]]
        clipped = makers[product.input[1]]
        four = (makers[clipped.input[0]], clipped, product, last)
        at = list(nodes).index(four[0])
        for node in four:
            nodes.remove(node)
        nodes.insert(at, helper.make_node("HardSwish", [product.input[0]], [last.output[0]]))
    model.opset_import[0].version = 14  # the first that has it
    onnx.save(model, path := Path(folder) / "hard_swish.onnx")
    return path


def _some_lines(_: object) -> dict[str, Array]:
    return {"x": lines()[:LINES]}


def in_onnx_runtime() -> RuntimeProfile:
    """Return where the time of the file goes in ONNX Runtime, on one thread."""
    return profile_file(FILE, Settings(1), _some_lines, 1)


def longest_operators(profile: RuntimeProfile, count: int) -> list[dict[str, Any]]:
    """Return the operators of ONNX Runtime that take the most time: their nodes, time and share, and all others."""
    groups = profile.groups(lambda row: row.kind.removeprefix("com.microsoft."))
    rest = Group("all others", tuple(row for group in groups[count:] for row in group.rows))
    return [
        {
            "name": group.name.removeprefix("nchwc."),
            "nodes": len(group.rows),
            "time": profile.measured(group.seconds, f"{group.name} in ONNX Runtime"),
            "share": profile.share(group.rows, f"share of {group.name} in ONNX Runtime"),
        }
        for group in [*groups[:count], *([rest] if rest.rows else [])]
    ]


def gain_of_joining(profile: RuntimeProfile) -> Modelled:
    """Return how many times as fast the file would be if one node replaced each chain of element-by-element nodes."""
    return Modelled.by("Amdahl's law", joined_chains(profile).gain)


def beside_hard_swish(folder: str) -> dict[str, Measurement]:
    """Return the seconds of the file and of `with_hard_swish` in ONNX Runtime, in turns."""
    files = {"as published": (FILE, Settings(1)), "one node": (with_hard_swish(folder), Settings(1))}
    return dict(side_by_side(files, lambda _, declared: _some_lines(declared), 4.0).times)


def over_prediction(measured: Measurement, predicted: Modelled) -> Measurement:
    """Return the measured speedup over the predicted one."""
    return quotient(measured, as_measurement(predicted), "measured speedup over the predicted one")


def nodes_that_run(folder: str) -> dict[str, dict[str, Counted]]:
    """Return how many nodes ONNX Runtime runs of the file and of `with_hard_swish`, and how many are Reorder nodes.

    "HardSwish" is the number of such nodes in the file itself.
    """
    import onnx

    found = {}
    for name, path in (("as published", FILE), ("one node", with_hard_swish(folder))):
        declared = [node.op_type for node in onnx.load(path).graph.node]
        with File(path, Settings(1), folder, dump=True) as file:
            kinds = [node.kind for node in Graph(file.graph).nodes]
        reorders = sum(".Reorder" in kind for kind in kinds)
        found[name] = {
            "all": Counted.of(kinds, "nodes", f"nodes that ONNX Runtime runs, {name}"),
            "Reorder": Counted(reorders, "1", f"Reorder nodes that ONNX Runtime runs, {name}"),
            "HardSwish": Counted(declared.count("HardSwish"), "1", f"HardSwish nodes in the file, {name}"),
        }
    return found


def kind_of(event: Event) -> str:
    """Return which kind of operation ran; a convolution is told by the shape of its weights."""
    if event.op != "conv2d":
        return _KIND_OF.get(event.op, "element by element")
    _, channels, rows, columns = event.inputs[1].shape
    if (rows, columns) == (1, 1):
        return POINTWISE
    return DEPTHWISE if channels == 1 else FIRST


def what_was_read(model: Module, inputs: Tensor) -> dict[str, Counted]:
    """Return what became of the file's nodes, and the share of convolutions in the arithmetic of a pass."""
    import onnx

    kinds = Counter(node.op_type for node in onnx.load(str(FILE)).graph.node)
    events = record_forward(model, inputs).events
    convolutions = sum(event.flops or 0 for event in events if event.op == "conv2d")
    arithmetic = sum((event.flops or 0) + (event.elementwise or 0) for event in events)
    return {
        "nodes": Counted(kinds.total(), "nodes", "nodes of the file"),
        "constants": Counted(kinds["Constant"], "1", "nodes of the file that are constants"),
        "operations": Counted.of(events, "operations", "operations of a pass through the model"),
        "parameters": Counted(sum(each.size for each in model.parameters()), "parameters", "parameters of the model"),
        "convolutions": Counted(convolutions / arithmetic, "%", "share of convolutions in all operations"),
    }


def time_shares(kinds: Mapping[str, Placed], conditions: Conditions) -> dict[str, dict[str, Any]]:
    """Return each kind, ``placed``, with its ``share`` of the time of all and its ``part`` of the arithmetic."""
    operations = Counted(sum(one.demand.operations for one in kinds.values()), "FLOP", "operations of all kinds")
    passes = [sum(each) for each in zip(*(one.seconds.samples for one in kinds.values()), strict=True)]
    conditions = replace(conditions, part_of="the time in operations")
    found: dict[str, dict[str, Any]] = {}
    for name, placed in kinds.items():
        samples = tuple(part / whole for part, whole in zip(placed.seconds.samples, passes, strict=True))
        share = with_between_run_spread(Measurement(f"share of {name}", samples, "%", conditions))
        part = placed.arithmetic.over(operations, f"share of {name} in the arithmetic", "%")
        found[name] = {"share": share, "part": part, "placed": placed}
    return dict(sorted(found.items(), key=lambda item: -item[1]["share"].median))


def bytes_held(model: Module, small: Module, inputs: Tensor) -> dict[str, Counted]:
    """Return the bytes that are kept between passes: a plan holds the model, and what the making of one allocates."""
    planned = MemoryProfiler().profile(lambda: plan(model, inputs), calls=1)["allocated_mb"] * MIB
    floats = stored_bytes(model)
    held = {NUMPY: floats, KERNELS: floats, PLAN: floats + planned, CODES: stored_bytes(small)}
    return {name: Counted(round(size), "B", f"bytes kept between passes, {name}") for name, size in held.items()}


def techniques(
    passes: Mapping[str, Callable[[], Tensor]],
    gained: Mapping[str, Comparison],
    held: Mapping[str, Counted],
    right: Mapping[str, Counted],
) -> dict[str, dict[str, Any]]:
    """Return what each technique gains, holds and errs; ``error`` is the largest one over NumPy's largest output."""
    exact = passes[NUMPY]().data
    found: dict[str, dict[str, Any]] = {NUMPY: {"gained": None, "error": None}}
    for name, comparison in gained.items():
        error = np.abs(passes[name]().data - exact).max() / np.abs(exact).max()
        what = f"largest error over the largest number, {name}"
        found[name] = {"gained": comparison.estimate, "error": Counted(error, "%", what)}
    return {name: row | {"held": held[name], "right": right[name]} for name, row in found.items()}


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
