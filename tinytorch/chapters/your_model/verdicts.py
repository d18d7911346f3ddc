"""What the page records of its model: what was read, counts, time and verdict by kind, what helped, what remains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from tinytorch.chapters.roofline.figure import asked_table, roofline_figure
from tinytorch.chapters.your_model.subject import FILE, LINES, lines
from tinytorch.core.module import Module
from tinytorch.core.tensor import Tensor
from tinytorch.perf.acceleration.plans import Plan, together
from tinytorch.perf.acceleration.techniques import BASELINE, CODES, FUSED, KERNELS, Tried, forward_pass
from tinytorch.perf.events.flops import record_forward
from tinytorch.perf.events.stream import Event
from tinytorch.perf.machine import Ceilings, ceilings
from tinytorch.perf.measuring import Conditions, Counted, Measurement, Modelled, limit_blas_threads
from tinytorch.perf.measuring.between_run_variance import with_between_run_spread
from tinytorch.perf.profiling.breakdown import predicted_speedup
from tinytorch.perf.profiling.shares import recordings, shares
from tinytorch.perf.roofline.bounds import share_of
from tinytorch.perf.roofline.placement import Placed, place_groups
from tinytorch.report import Column, Page

_KINDS = (
    Column("kind", "Kind of operation"),
    Column("share", "Of the time"),
    Column("bound", "Verdict", judged=True),
    Column("of_roof", "Of its roof"),
    Column("rate", "Rate"),
    Column("intensity", "Intensity (FLOP/B)", "1"),
)
_TECHNIQUES = (
    Column("technique", "Technique"),
    Column("gained", "Times as fast"),
    Column("held", "Held", "B"),
    Column("error", "Error", "%"),
    Column("right", "Right answers", "lines"),
    Column("built", "Made in"),
)
FIRST, POINTWISE, DEPTHWISE = "first convolution", "1 × 1 convolutions", "depthwise convolutions"
_CONVOLUTIONS = (FIRST, POINTWISE, DEPTHWISE)
_KIND_OF = {
    "batch_norm": "normalization",
    "adaptive_avg_pool2d": "pooling",
    "max_pool2d": "pooling",
    **dict.fromkeys(("linear", "softmax", "reshape"), "the last layer"),
}
_EACH = "element by element"


def begin() -> tuple[Page, Ceilings]:
    """Return the page, and the ceilings of one thread, to which BLAS is held."""
    limit_blas_threads(1)
    return Page("your_model"), ceilings(threads=1)


def kind_of(event: Event) -> str:
    """Return which kind of operation ran; a convolution is told by the shape of its weights."""
    if event.op != "conv2d":
        return _KIND_OF.get(event.op, _EACH)
    _, channels, rows, columns = event.inputs[1].shape
    if (rows, columns) == (1, 1):
        return POINTWISE
    return DEPTHWISE if channels == 1 else FIRST


def record_read(page: Page, model: Module, inputs: Tensor) -> None:
    """Record how many nodes the file has and what became of them, and what one pass does."""
    import onnx

    kinds = Counter(node.op_type for node in onnx.load(str(FILE)).graph.node)
    events = record_forward(model, inputs).events
    nodes, run = sum(kinds.values()), len(events)
    page.number("nodes", nodes, unit="nodes", what="nodes of the file")
    page.number("constants", kinds["Constant"], unit="1", what="nodes of the file that are constants")
    page.number("operations", run, unit="operations", what="operations of a pass through the model")
    what = "nodes that are worked out from constants and shapes, or joined to others"
    page.number("settled", nodes - kinds["Constant"] - run, unit="1", what=what)
    parameters = sum(each.size for each in model.parameters())
    page.number("parameters", parameters, unit="parameters", what="parameters of the model")
    first = next(event for event in events if kind_of(event) == FIRST)
    page.number("first-flops", first.flops or 0, unit="FLOP", what=f"first convolution, {LINES} lines")
    page.number("first-bytes", first.traffic, unit="B", what=f"compulsory bytes of it, {LINES} lines")
    convolutions = sum(event.flops or 0 for event in events if event.op == "conv2d")
    operations = sum((event.flops or 0) + (event.elementwise or 0) for event in events)
    page.number("conv-operations", Counted(convolutions / operations, "%", "share of convolutions in all operations"))


def place_kinds(model: Module, inputs: Tensor, machine: Ceilings, repeats: int = 9) -> dict[str, Placed]:
    """Return where each kind of operation stands, those with most bytes first."""
    found = place_groups(kind_of, recordings(forward_pass(model, inputs), repeats), machine)
    return dict(sorted(found.items(), key=lambda item: -item[1].demand.bytes))


def show_counts(page: Page, kinds: Mapping[str, Placed]) -> None:
    """Show what each kind asks for, before any time."""
    asked_table(
        page,
        "counts",
        list(kinds.values()),
        caption=f"A pass of {LINES} lines before it is timed: arithmetic, bytes, the level that the bytes come from, "
        "its bandwidth, and the least time, added up over the operations of a kind.",
    )
    for key, name in (("pointwise", POINTWISE), ("depthwise", DEPTHWISE), ("each", _EACH)):
        page.number(f"intensity-{key}", Counted(kinds[name].intensity, "FLOP/B", f"intensity, {name}"))


def record_pass(page: Page, whole: Placed) -> None:
    """Record what arithmetic, bytes and calls alone would take of a pass, what it took, and what bounds it."""
    page.number("alone-arithmetic", Modelled.by("the roofline", whole.verdict.compute.seconds))
    page.number("alone-bytes", Modelled.by("the roofline", whole.verdict.memory.seconds))
    page.number("alone-calls", Modelled.by("the least cost of each call", whole.verdict.overhead.seconds))
    page.number("time", whole.seconds)
    page.number("of-roof", whole.of_roof)
    page.word("bound", whole.verdict.said, because=whole.verdict.because, numbers=["time"])


def record_kinds(
    page: Page, run: Callable[[], Any], kinds: Mapping[str, Placed], machine: Ceilings, repeats: int = 9
) -> None:
    """Show the time of each kind, its share and its verdict, and draw them under the roofs."""

    def is_kind(name: str) -> Callable[[Event], bool]:
        return lambda event: kind_of(event) == name

    parts = {name: is_kind(name) for name in kinds}
    taken = shares(run, {**parts, "convolutions": lambda event: kind_of(event) in _CONVOLUTIONS}, repeats)
    page.number("conv-share", taken["convolutions"])
    for key, name in (("pointwise", POINTWISE), ("depthwise", DEPTHWISE), ("each", _EACH)):
        verdict = kinds[name].verdict
        page.number(f"{key}-share", taken[name])
        page.number(f"of-roof-{key}", kinds[name].of_roof)
        # A recording does not say how much of a core it had; the share, taken beside it, does.
        numbers = [f"of-roof-{key}", f"{key}-share"]
        page.word(f"bound-{key}", verdict.said, because=verdict.because, numbers=numbers)
    page.table(
        "kinds",
        [
            {
                "kind": name,
                "share": taken[name],
                "bound": one.verdict.said,
                "of_roof": one.of_roof,
                "rate": one.attained,
                "intensity": Counted(one.intensity, "1", "operations for each byte"),
            }
            for name, one in sorted(kinds.items(), key=lambda item: -taken[item[0]].median)
        ],
        _KINDS,
        caption=f"The same pass of {LINES} lines, timed by NumPy on one thread: each kind's share of the time of all "
        "operations, its verdict, the share of its roof that it reached, and its rate.",
    )
    page.figure(
        "roofline",
        roofline_figure(list(kinds.values()), machine),
        caption="The kinds of operations under the roofs of this machine, by NumPy.",
        alt="Log-log plot of rate over arithmetic intensity: sloped lines for caches and memory meet flat lines; a "
        "numbered point for each kind of operation lies below them.",
    )


def record_techniques(page: Page, tried: Tried, right: Mapping[str, int]) -> None:
    """Show what each technique gains, holds, errs and answers, and which is the fastest."""
    page.table(
        "techniques",
        [
            {
                "technique": name,
                "gained": tried.gained[name].estimate if name in tried.gained else None,
                "held": tried.held[name],
                "error": None if name == BASELINE else tried.errors[name],
                "right": right[name],
                "built": tried.built.get(name),
            }
            for name in tried.times
        ],
        _TECHNIQUES,
        caption=f"A pass of {LINES} lines with each technique, all on one thread and in turns: the speedup over NumPy, "
        "the bytes kept between passes, the largest difference from NumPy's output over its largest number, right "
        "answers, and the time to make what runs.",
    )
    for key, name in (("kernels", KERNELS), ("plan", FUSED), ("codes", CODES)):
        page.compare(f"{key}-gain", tried.gained[name])
    page.number("codes-saved", tried.held[BASELINE].over(tried.held[CODES], "bytes over those of 8-bit layers"))
    page.number("plan-held", tried.held[FUSED].over(tried.held[BASELINE], "bytes that a plan keeps, over NumPy's"))
    page.number("plan-error", tried.errors[FUSED], "error of a plan")
    page.word(
        "fastest",
        "none" if tried.fastest == (BASELINE,) else tried.fastest_named,
        because="of what is proven faster than NumPy, nothing else is proven faster than this",
        numbers=["kernels-gain", "plan-gain", "codes-gain"],
    )


def record_answers(page: Page, right: Mapping[str, int]) -> None:
    """Record how many lines there are, and how many the model as it was read answers rightly."""
    page.number("lines", len(lines()), unit="lines", what="lines of text, half of them on their heads")
    page.number("right", right[BASELINE], unit="1", what="right answers of the model as it was read")
    page.number("right-codes", right[CODES], unit="lines", what="right answers with 8-bit layers")


def record_remains(page: Page, planned: Plan, inputs: Tensor, whole: Placed, taken: Measurement) -> None:
    """Record where the time of a plan goes, how near it is to the least time, and the answers to the questions.

    Args:
        page: where to.
        planned: the plan.
        inputs: of a pass.
        whole: the pass by NumPy.
        taken: seconds of the plan.
    """
    steps = planned.step_times(inputs)
    inside, convolutions = (
        together([step for step in steps if part in step.name], "steps of the plan").samples for part in ("", "conv2d")
    )
    shares = tuple(part / whole for part, whole in zip(convolutions, inside, strict=True))
    what = "share of convolutions in the steps of the plan"
    share = with_between_run_spread(Measurement(what, shares, "%", Conditions(part_of="the time in the steps")))
    page.number("plan-steps", len(steps), unit="steps", what="steps of the plan")
    page.number("plan-conv", share)
    page.number("plan-of-roof", share_of(whole.roof, taken, "share of its roof that the plan reaches"))
    page.number(
        "q-depthwise",
        Counted(2 * 25 / 8, "FLOP/B", "5 × 5 depthwise: two operations for each place, over an input and a result"),
    )
    page.number("q-swish", Counted((8 + 8 + 12 + 8) / 8, "", "bytes of four passes over those of one"))
    limit = predicted_speedup(share, None, "Amdahl's limit for the convolutions of the plan")
    page.number("q-limit", Modelled.by("Amdahl's law", limit))
