"""What a model of larger machines says, as tables and figures: modelled and published numbers look as what they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from tinytorch.perf.distributed.larger.prediction import Prediction
from tinytorch.perf.distributed.larger.published_scaling import PublishedResult
from tinytorch.perf.distributed.larger.validation import Validation
from tinytorch.perf.measuring import Measurement
from tinytorch.report.figures import line, subplots
from tinytorch.report.numbers import format_number
from tinytorch.report.page import Page
from tinytorch.report.shown import Shown
from tinytorch.report.tables import Column

_SPLIT_COLUMNS = (
    Column("split", "Data × tensor × pipeline"),
    Column("micro", "Micro-batches", "1"),
    Column("seconds", "Step", "s", modelled=True),
    Column("efficiency", "Efficiency", "%", modelled=True),
    Column("memory", "Memory of a rank", "B", modelled=True),
    Column("bubble", "Bubble", "%", modelled=True),
    Column("tensor", "Sums of activations", "%", modelled=True),
    Column("handing", "Hand-over", "%", modelled=True),
    Column("gradients", "Gradients", "%", modelled=True),
)
_VALIDATION_COLUMNS = (
    Column("name", "Split"),
    Column("predicted", "Predicted", "s", modelled=True),
    Column("measured", "Measured"),
    Column("error", "Error of the prediction"),
    Column("state", "Optimizer state predicted", "B", modelled=True),
    Column("kept", "State kept", "B"),
)
_PUBLISHED_COLUMNS = (
    Column("name", "Run"),
    Column("published", "Published", quoted=True),
    Column("predicted", "Predicted", modelled=True),
    Column("error", "Error", "%", modelled=True),
    Column("quantity", "Of what"),
    Column("study", "Published by"),
    Column("assumed", "Assumed"),
)


def _split_name(prediction: Prediction) -> str:
    split = prediction.split
    return f"{split.data} × {split.tensor} × {split.pipeline}"


def splits_table(page: Page, key: str, found: Sequence[Prediction], one: Prediction, *, caption: str) -> Shown:
    """Show and record the splits in ``found``: the step, where it goes, and the memory of a rank.

    Args:
        one: the prediction for one rank, whose memory may be larger than any: efficiency is against it.

    Raises:
        ValueError: if ``found`` is empty or the key is taken.
    """
    rows = [
        {
            "split": _split_name(prediction),
            "micro": prediction.split.micro,
            "seconds": prediction.seconds,
            "efficiency": prediction.efficiency(one),
            **{part: getattr(prediction, part) / prediction.seconds for part in _PARTS},
            "memory": prediction.memory.total,
        }
        for prediction in found
    ]
    return page.table(key, rows, _SPLIT_COLUMNS, caption=caption)


_PARTS = ("bubble", "tensor", "handing", "gradients")


def scaling_figure(curves: Mapping[str, Sequence[Prediction | None]], one: Prediction) -> Figure:
    """Return the modelled efficiency over the number of ranks, a line for each of ``curves`` by name.

    Args:
        curves: what `splits.scaling_curve` returned; where nothing fits there is no point.
        one: as in `splits_table`.

    Raises:
        ValueError: if a curve has no point, or there are more than two.
    """
    looks = ("modelled", "reference")
    if len(curves) > len(looks):
        raise ValueError(f"curves must be at most {len(looks)}, not {len(curves)}")
    figure, ax = subplots()
    for (name, curve), variant in zip(curves.items(), looks, strict=False):
        points = [prediction for prediction in curve if prediction is not None]
        if not points:
            raise ValueError(f"curve {name!r} must have a point, but nothing fits")
        shares = [Measurement(name, (point.efficiency(one),), "%") for point in points]
        line(
            ax,
            [point.split.ranks for point in points],
            shares,
            quantity="efficiency",
            variant=variant,
            label=name,
            modelled=True,
        )
    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    ax.set_ylim(0, 105)
    ax.set_xlabel("ranks, unitless")
    ax.legend()
    return figure


def validation_table(page: Page, key: str, validation: Validation, *, caption: str) -> Shown:
    """Show and record each split that ran, its prediction beside it, and the error of that; and the optimizer's bytes.

    Raises:
        ValueError: if the key is taken.
    """
    rows = [
        {
            "name": row.name,
            "predicted": row.predicted.seconds,
            "measured": row.measured,
            "error": row.error,
            "state": row.predicted.memory.state,
            "kept": row.state_bytes,
        }
        for row in validation.rows
    ]
    return page.table(key, rows, _VALIDATION_COLUMNS, caption=caption)


def published_table(page: Page, key: str, results: Sequence[PublishedResult], *, caption: str) -> Shown:
    """Show and record published results beside the model's.

    Raises:
        ValueError: if ``results`` is empty or the key is taken.
    """
    rows = [
        {
            "name": one.name,
            "published": one.printed,
            "predicted": format_number(one.predicted, one.unit).text,
            "error": None if one.given else one.error,
            "quantity": one.quantity,
            "assumed": one.assumed,
            "study": one.study,
        }
        for one in results
    ]
    return page.table(key, rows, _PUBLISHED_COLUMNS, caption=caption)
