"""Records of the suite of all variants: tables, the course's own table as claims, Pareto fronts, products of gains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from tinytorch.chapters.benchmarking.runs import share
from tinytorch.chapters.sources import COURSE_BENCHMARKING, COURSE_BENCHMARKING_TABLE_URL
from tinytorch.perf.benchmarking import Change, ParetoFront, Performance, plot_performance_comparison
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.judge import REFUTED, SUPPORTED
from tinytorch.perf.quantization.tradeoff import accuracy_change
from tinytorch.report import Column, Page, color, line, subplots, verdict_between_all, verdict_of_all
from tinytorch.report.figures import INK

#: By model of the zoo: what was measured of each variant, by name, and what each changed against the baseline.
Results = Mapping[str, Mapping[str, Performance]]
Changes = Mapping[str, Mapping[str, Change]]

_BATCH = 64
SUITE_COLUMNS = (
    Column("many", "Rate"),
    Column("speed", "Speedup"),
    Column("verdict", "Verdict", judged=True),
    Column("memory", "Peak memory", "B"),
    Column("bytes", "Model", "B"),
    Column("right", "Right"),
)
FRONT_COLUMNS = (
    Column("model", "Model"),
    Column("front", "On the front"),
    Column("out", "Beaten"),
    Column("open", "On it only because noise cannot tell"),
)
#: Of a variant's bars; others have NumPy's.
_COLORS = {
    "baseline": "baseline",
    "quantized": "quantized",
    "pruned": "pruned",
    "structured": "pruned",
    "distilled": "distilled",
    "cached": "cached",
    "accelerated": "compiled",
}
#: How far below a factor of the course's table a measured one may lie and still count as it.
TOLERANCE = 0.1
#: Points between a name and the next below it, as a share of the axis.
_STEP = 0.115


def record_suite(page: Page, results: Results, changes: Changes) -> None:
    """Record all variants of each model, and what each changed, the baselines excepted."""
    for model, measured in results.items():
        changed = changes[model]
        rows = [
            {
                "variant": name,
                "many": one.throughput[_BATCH],
                "memory": one.peak_memory.median,
                "bytes": one.model_bytes,
                "right": accuracy(one),
                "speed": changed[name].speedups[_BATCH].ratio if name in changed else None,
                "verdict": page.noise.verdict(changed[name].speedups[_BATCH])[0] if name in changed else None,
            }
            for name, one in measured.items()
        ]
        page.table(
            f"suite-{model}",
            rows,
            [Column("variant", model.upper()), *SUITE_COLUMNS],
            caption=f"All variants of the {model.upper()} in batches of 64, from one run in turns; speedups with "
            "intervals that hold together.",
        )
        for name, change in changed.items():
            _record_change(page, model, name, change)


def _record_change(page: Page, model: str, name: str, change: Change) -> None:
    assert change.accuracy is not None
    page.number(f"{model}-{name}-speed", change.speedups[_BATCH].ratio)
    what = f"bytes of the {model.upper()} over those of its {name} variant"
    page.number(f"{model}-{name}-size", change.size.ratio.median, unit="", what=what)
    what = f"share right of the {name} {model.upper()} less that of the baseline"
    page.number(f"{model}-{name}-accuracy", accuracy_change(change.accuracy, what))


def accuracy(one: Performance) -> Measurement:
    """Return the share of the test set that it gets right.

    Raises:
        ValueError: if it was measured without answers.
    """
    if one.correct is None:
        raise ValueError(f"performances must have an accuracy, but {one.name!r} has none")
    return share(one.correct, f"accuracy of {one.name}")


def record_dashboard(page: Page, variants: Mapping[str, Performance]) -> None:
    """Record time, memory and accuracy of the GPT's variants as bars."""
    figure, axes = subplots(3, 1, height=8.2)
    colors = {name: color(_COLORS.get(name, "numpy")) for name in variants}
    plot_performance_comparison(variants, axes, colors, ink=INK)
    page.figure(
        "dashboard",
        figure,
        caption="The GPT's variants: time of one sequence of ten tokens, peak memory of 64, and sequences that are "
        "right, with their intervals.",
        alt="Three bar charts of time, peak memory and accuracy, with a bar and an error bar for each variant of the "
        "GPT.",
    )


def record_course_table(page: Page, changes: Changes) -> None:
    """Record each row of the course's table as a claim on all models that have the variant."""

    def verdict(variant: str, *, faster: float, smaller: float, accuracy: float) -> str:
        having = [changed[variant] for changed in changes.values() if variant in changed]
        return verdict_of_all(
            table_row_verdicts(having, faster=faster, smaller=smaller, accuracy=accuracy, batch=_BATCH)
        )

    page.claim(
        "course-quantized",
        statement="A quantized model is 4 times as fast, 4 times smaller, and loses half a point of accuracy.",
        source=COURSE_BENCHMARKING,
        source_url=COURSE_BENCHMARKING_TABLE_URL,
        verdict=verdict("quantized", faster=4, smaller=4, accuracy=-0.005),
        evidence="In batches of 64 the MLP became {mlp-quantized-speed} as fast and {mlp-quantized-size} smaller. "
        "The CNN became {cnn-quantized-speed} as fast and {cnn-quantized-size} smaller. "
        "The GPT became {gpt-quantized-speed} as fast and {gpt-quantized-size} smaller. "
        "The accuracy of the MLP changed by {mlp-quantized-accuracy}, that of the CNN by {cnn-quantized-accuracy}. "
        "That of the GPT changed by {gpt-quantized-accuracy}. A tenth less than each factor is allowed.",
    )
    page.claim(
        "course-pruned",
        statement="A pruned model is 3.3 times as fast, 10 times smaller, and loses 1.2 points of accuracy.",
        source=COURSE_BENCHMARKING,
        source_url=COURSE_BENCHMARKING_TABLE_URL,
        verdict=verdict("pruned", faster=100 / 30, smaller=10, accuracy=-0.012),
        evidence="With nine of ten weights removed, the MLP became {mlp-pruned-speed} as fast and {mlp-pruned-size} "
        "smaller. The CNN became {cnn-pruned-speed} as fast and {cnn-pruned-size} smaller. "
        "The GPT became {gpt-pruned-speed} as fast and {gpt-pruned-size} smaller. "
        "The accuracy of the MLP changed by {mlp-pruned-accuracy}, that of the CNN by {cnn-pruned-accuracy}. "
        "That of the GPT changed by {gpt-pruned-accuracy}.",
    )
    page.claim(
        "course-cached",
        statement="A cached transformer is 5 times as fast at the same accuracy.",
        source=COURSE_BENCHMARKING,
        source_url=COURSE_BENCHMARKING_TABLE_URL,
        verdict=verdict("cached", faster=5, smaller=0, accuracy=-0.005),
        evidence="Writing ten tokens for 64 sequences, the GPT with a cache was {gpt-cached-speed} as fast, and its "
        "accuracy changed by {gpt-cached-accuracy}; half a point less counts as the same. The chapter on memoization "
        "measures the factor by the length of the text.",
    )


def table_row_verdicts(
    changes: Sequence[Change], *, faster: float, smaller: float, accuracy: float, batch: int
) -> tuple[str, str, str]:
    """Return for each number of a row of the course's table the verdict on whether all ``changes`` are as good.

    The limits are nine tenths of ``faster`` and ``smaller``, and for ``accuracy`` the difference of shares, such as
    -0.005. Bytes are counted.

    Raises:
        ValueError: if a change was measured without answers.
    """
    losses = [accuracy_change(one.accuracy, "change of accuracy") for one in changes if one.accuracy is not None]
    if len(losses) < len(changes):
        raise ValueError("changes must have an accuracy each")
    fewer = all(one.size.ratio.median >= (1 - TOLERANCE) * smaller for one in changes)
    return (
        verdict_between_all((one.speedups[batch].ratio for one in changes), low=(1 - TOLERANCE) * faster),
        SUPPORTED if fewer else REFUTED,
        verdict_between_all(losses, low=accuracy),
    )


def record_fronts(page: Page, results: Results, fronts: Mapping[str, ParetoFront]) -> None:
    """Record the Pareto front of each model as a figure, and who is beaten by whom."""
    figure, axes = subplots(3, 1, height=8.4)
    for ax, (model, measured) in zip(axes, results.items(), strict=True):
        draw_front(ax, list(measured.values()), fronts[model], _BATCH)
        ax.set_ylabel(f"right, {model.upper()} (%)")
    page.figure(
        "fronts",
        figure,
        caption="Time of a batch of 64 against accuracy, for the MLP, the CNN and the GPT, with intervals of both. "
        "Names in brackets are beaten in time, memory and accuracy by another.",
        alt="Three scatter plots, one for each model, of accuracy over time on a logarithmic axis, with error bars and "
        "the names of all variants at the right edge.",
    )
    rows = [
        {
            "model": model.upper(),
            "front": ", ".join(front.front),
            "out": "; ".join(f"{name} by {', '.join(by)}" for name, by in front.dominated.items()) or "none",
            "open": ", ".join(front.undecided) or "none",
        }
        for model, front in fronts.items()
    ]
    caption = "The Pareto front of time at a batch of 64, peak memory and accuracy."
    page.table("dominated", rows, FRONT_COLUMNS, caption=caption)
    size = sum(len(front.front) for front in fronts.values())
    page.number("front-size", size, unit="1", what="variants on the fronts of the three models", derived=True)
    every = sum(len(measured) for measured in results.values())
    page.number("all-variants", every, unit="1", what="variants of the three models")


def draw_front(ax: Axes, performances: Sequence[Performance], front: ParetoFront, batch: int) -> None:
    """Draw each variant at its time and accuracy, those on the front filled, and name them at the right edge.

    Args:
        ax: where to draw.
        performances: of one suite, each with an accuracy.
        front: of the same suite.
        batch: whose times are shown.

    Raises:
        ValueError: if one has no accuracy, or that batch size was not measured.
    """
    places = []
    for one in performances:
        seconds, right = one.seconds(batch), accuracy(one)
        x, within = seconds.median * 1e3, seconds.interval
        beaten = one.name not in front.front
        line(ax, [x], [right], quantity="accuracy", variant="baseline" if beaten else "measured", label=one.name)
        ends = [[max(0.0, x - within.low * 1e3)], [max(0.0, within.high * 1e3 - x)]]
        y = right.median * 100
        ax.errorbar([x], [y], xerr=ends, fmt="none", ecolor=INK, elinewidth=1.0, capsize=2)
        places.append((y, x, one.name, beaten))
    ax.set_xscale("log")
    ax.set_xlabel("time of a call (ms)")
    _name(ax, places)


def _name(ax: Axes, places: list[tuple[float, float, str, bool]]) -> None:
    """Write the names in a column right of the axes, in the order of the points' heights, with a thin line to each."""
    top = 0.5 + _STEP * (len(places) - 1) / 2
    for index, (y, x, name, beaten) in enumerate(sorted(places, reverse=True)):
        ax.annotate(
            f"({name})" if beaten else name,
            xy=(x, y),
            xycoords="data",
            xytext=(1.03, top - index * _STEP),
            textcoords="axes fraction",
            fontsize=9.5,
            va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": INK, "linewidth": 0.4, "alpha": 0.5},
        )


def record_products(page: Page, kept: Mapping[str, Measurement]) -> None:
    """Record how much of the product of its parts' speedups each model's combination ``kept``, and the claim on all."""
    for model, measured in kept.items():
        page.number(f"{model}-kept", measured)
    page.claim(
        "gains-multiply",
        statement="Optimizations do not interfere: when they are combined, their gains multiply.",
        source="After S. Han et al., Deep Compression, 2016, whose stages work together, in bytes",
        source_url="https://arxiv.org/abs/1510.00149",
        verdict=verdict_between_all(kept.values(), 0.9, 1.1),
        evidence="In time, the MLP's combination ran {mlp-combined-speed} as fast, which is {mlp-kept} of the product "
        "of its parts' speedups. The CNN's ran {cnn-combined-speed} as fast, {cnn-kept} of the product. "
        "The GPT's ran {gpt-combined-speed} as fast, {gpt-kept} of the product. "
        "Within a tenth of the product would support it for all three.",
    )
