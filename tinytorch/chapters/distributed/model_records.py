"""Records of what the page says of larger machines: predictions beside measured and published times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from matplotlib.figure import Figure

from tinytorch import models
from tinytorch.chapters.distributed.explorer import EACH, RANKS, ClusterPreset, ModelPreset, scaling_curve
from tinytorch.chapters.distributed.published import PublishedResult, published_results
from tinytorch.chapters.distributed.records import ONE_CORE
from tinytorch.chapters.distributed.validation import Validated, Validation
from tinytorch.perf.distributed.cluster_model.prediction import Prediction
from tinytorch.perf.distributed.collectives.link_fit import FittedLink
from tinytorch.perf.measuring import Modelled
from tinytorch.perf.profiling import Profiler
from tinytorch.report import Column, Page, format_number
from tinytorch.report.figures import draw_line, subplots

#: What says all that this page did not measure.
_MODEL = "the model of larger machines"
_SPLIT_COLUMNS = (
    Column("split", "Data × tensor × pipeline"),
    Column("seconds", "Step", "s", modelled=True),
    Column("efficiency", "Efficiency", "%", modelled=True),
    Column("memory", "Memory of a rank", "B", modelled=True),
    Column("bubble", "Bubble", "%", modelled=True),
    Column("messages", "Messages", "%", modelled=True),
)
_VALIDATION_COLUMNS = (
    Column("name", "Split"),
    Column("predicted", "Predicted", "s", modelled=True),
    Column("measured", "Measured"),
    Column("error", "Error of the prediction"),
)
_PARTS_COLUMNS = (Column("part", "Part of the step"), Column("seconds", "Time", "s", modelled=True))
_PUBLISHED_COLUMNS = (
    Column("name", "Run"),
    Column("published", "Published", quoted=True),
    Column("predicted", "Predicted", modelled=True),
    Column("error", "Error", "%", modelled=True),
    Column("study", "Published by"),
)


#: Parts of a step that are messages.
_MESSAGES = ("tensor", "handing", "gradients")
#: Sequences in the batch that is validated, and their shape.
EXAMPLES, _SHAPE = 32, (1, 20)
#: Splits in the table of a cluster.
_SHOWN = 6


def record_validation(page: Page, checked: Validation | None, near: FittedLink | None) -> None:
    """Show each split that ran beside its prediction, and record the largest error; None on a machine with one core.

    Args:
        near: the link that the predictions were made with.
    """
    if checked is None or near is None:
        for table in ("pipeline-parts", "validation"):
            page.absent(table, reason=ONE_CORE, instead_of="table")
        keys = ("worst-error", "worst-size", "link-alpha", "link-beta", "gpt-rate")
        page.absent("pipeline-bubble", "pipeline-handing", "pipeline-measured", reason=ONE_CORE)
        page.absent(*keys, reason=ONE_CORE)
        return
    _record_pipeline(page, next(row for row in checked.rows if row.predicted.split.pipeline == 2))
    rows = [
        {
            "name": row.name,
            "predicted": Modelled(row.predicted.seconds, "s", "a step", _MODEL),
            "measured": row.measured,
            "error": row.error,
        }
        for row in checked.rows
    ]
    caption = (
        f"A step of the GPT on a batch of {EXAMPLES}: what the model says, from times of one rank and the fitted link, "
        "and what ranks then took."
    )
    page.table("validation", rows, _VALIDATION_COLUMNS, caption=caption)
    error = checked.worst.error
    page.number("worst-error", error)
    what = "largest error of a prediction of a step on this machine, by the median's magnitude"
    page.number("worst-size", error.scaled(-1 if error.median < 0 else 1, name=what))
    page.number("link-alpha", near.alpha)
    page.number("link-beta", near.beta)
    arithmetic = 3 * EXAMPLES * Profiler().count_flops(models.gpt(), _SHAPE)
    name = f"contractions of a step of the GPT on {EXAMPLES} sequences, on one rank"
    page.number("gpt-rate", checked.source.step.per(arithmetic, "FLOP/s", name))


def _record_pipeline(page: Page, row: Validated) -> None:
    """Show the parts that the model adds up to a step of a pipeline on two ranks, and record what it measured."""
    found = row.predicted
    micro = found.split.micro
    parts = {
        f"work of the last stage, {micro} turns": found.computing,
        "bubble, a turn of the first stage": found.bubble,
        "handing on, and the gradient that both ends sum": found.handing,
        "update of a stage's weights": found.updating,
        "together": found.seconds,
    }
    page.table(
        "pipeline-parts",
        [{"part": part, "seconds": Modelled(seconds, "s", "a step", _MODEL)} for part, seconds in parts.items()],
        _PARTS_COLUMNS,
        caption=f"What the model adds up to a step of the GPT in a pipeline of 2 stages and {micro} micro-batches. The "
        "last stage also makes the logits, from the matrix of the tokens that the first one begins with. Modelled.",
    )
    what = "bubble over bubble and work of the last stage, in the pipeline of two stages"
    page.number(
        "pipeline-bubble",
        Modelled(found.bubble / (found.bubble + found.computing), "%", what, _MODEL),
    )
    what = "messages and the sum of the shared gradient over the whole step, in the pipeline of two stages"
    page.number("pipeline-handing", Modelled(found.handing / found.seconds, "%", what, _MODEL))
    page.number("pipeline-measured", row.measured)


def record_published(page: Page) -> None:
    """Show how far the model is from published results, by study, and record the errors of speeds."""
    studies: dict[tuple[str, str, str], list[float]] = {}
    for one in published_results():
        if not one.given:
            studies.setdefault((one.study, one.quantity, one.assumed), []).append(abs(one.error))
    page.table(
        "studies",
        [
            {"study": study, "what": what, "assumed": assumed}
            | {
                "runs": len(off),
                "middle": Modelled(median(off), "%", "median error", _MODEL),
                "worst": Modelled(max(off), "%", "largest error", _MODEL),
            }
            for (study, what, assumed), off in studies.items()
        ],
        [
            Column("study", "Published by"),
            Column("what", "What"),
            Column("runs", "Predictions", "1"),
            Column("middle", "Median error", "%", modelled=True),
            Column("worst", "Largest error", "%", modelled=True),
            Column("assumed", "Assumed"),
        ],
        caption="How far the model is from published scaling results, by study, upwards or downwards. The first is one "
        "result, predicted with nothing hidden and with all that can be.",
    )
    wrong = [off for each in studies.values() for off in each]
    what = "largest error of a prediction of a published speed, by magnitude"
    page.number("published-worst", Modelled(max(wrong), "%", what, _MODEL))
    what = "median error of the predictions of published speeds, by magnitude"
    page.number("published-middle", Modelled(median(wrong), "%", what, _MODEL))


def record_published_runs(page: Page) -> None:
    """Show every published result beside the model's."""
    caption = (
        "Published scaling results beside what the model says of the same runs, with links from papers and data "
        "sheets. Rows without an error are those that the others of the study are predicted from."
    )
    page.table("published", [_published_row(one) for one in published_results()], _PUBLISHED_COLUMNS, caption=caption)


def _published_row(one: PublishedResult) -> dict[str, object]:
    return {
        "name": one.name,
        "published": one.printed,
        "predicted": format_number(one.predicted, one.unit).text,
        "error": None if one.given else Modelled(one.error, "%", "error of the prediction", _MODEL),
        "study": one.study,
    }


def record_splits(
    page: Page, cluster: ClusterPreset, model: ModelPreset, best: Sequence[Prediction], one: Prediction
) -> None:
    """Show the fastest splits of a model over a cluster, and the efficiency of the best by the number of ranks.

    Args:
        best: splits of `explorer.RANKS` ranks that fit, the fastest first.
        one: the prediction for one rank, whose memory may be larger than any: efficiency is against it.
    """
    rows = [
        {
            "split": f"{each.split.data} × {each.split.tensor} × {each.split.pipeline}",
            "seconds": Modelled(each.seconds, "s", "a step", _MODEL),
            "efficiency": Modelled(each.efficiency(one), "%", "efficiency", _MODEL),
            "memory": Modelled(each.memory.total, "B", "memory of a rank", _MODEL),
            "bubble": Modelled(each.bubble / each.seconds, "%", "time in the bubble", _MODEL),
            "messages": Modelled(
                sum(getattr(each, part) for part in _MESSAGES) / each.seconds,
                "%",
                "time of messages",
                _MODEL,
            ),
        }
        for each in best[:_SHOWN]
    ]
    caption = (
        f"The six fastest splits of a {model.name} parameters over {RANKS} ranks of a cluster with {cluster.name}, "
        "where the optimizer's state is shared out. Efficiency is against one rank that had the memory for all of it. "
        "Modelled: none of this ran here."
    )
    page.table("splits", rows, _SPLIT_COLUMNS, caption=caption)
    grid = [2**power for power in range(3, 13)]
    curves = {
        "the same batch": scaling_curve(one.workload, cluster, grid),
        "four sequences a rank": scaling_curve(one.workload, cluster, grid, examples_per_rank=EACH),
    }
    page.figure(
        "cluster-scaling",
        efficiency_figure(curves, one),
        caption="The efficiency of the best split against one rank that had the memory for all of it, by the number of "
        "ranks, if the batch stays or grows with them. Modelled.",
        alt="Two dashed lines of modelled efficiency over 8 to 4,096 ranks.",
    )
    page.number(
        "best-seconds",
        Modelled(best[0].seconds, "s", "modelled step of the best split", _MODEL),
    )
    what = "modelled step of the second-best split over that of the best"
    page.number("second-over-best", Modelled(best[1].seconds / best[0].seconds, "", what, _MODEL))


def efficiency_figure(curves: Mapping[str, Sequence[Prediction | None]], one: Prediction) -> Figure:
    """Return the modelled efficiency over the number of ranks, a line for each of ``curves`` by name.

    Args:
        curves: what `explorer.scaling_curve` returned; where nothing fits there is no point.
        one: the prediction for one rank, whose memory may be larger than any.

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
        shares = [Modelled(point.efficiency(one), "%", name, _MODEL) for point in points]
        draw_line(
            ax,
            [point.split.ranks for point in points],
            shares,
            quantity="efficiency",
            variant=variant,
            label=name,
        )
    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    ax.set_ylim(0, 105)
    ax.set_xlabel("ranks, unitless")
    ax.legend()
    return figure
