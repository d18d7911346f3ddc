"""Charts of typed rows: lines, bars, arrows, dots and histograms, each with intervals, units and names.

A row is any object, or a mapping: who draws names the attribute that is on an axis, as a table names those of its
columns (``tinytorch.report.rows``). What the machine could not measure gives no chart: `Unmeasured` comes back.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tinytorch.perf.measuring import Measurement, Unmeasured
from tinytorch.perf.measuring.values import Value, as_measurement
from tinytorch.report.colors import ASSIGNED, VARIANTS, color
from tinytorch.report.figures import (
    INK,
    INTERVAL,
    Series,
    draw_bars,
    draw_line,
    has_a_value,
    name_point,
    plain_number,
    remember,
    subplots,
)
from tinytorch.report.numbers import common_scale, interval_of
from tinytorch.report.rows import Rows, listed, value_at

#: Positions of which each has a tick of its own.
_MOST_TICKS = 10
#: Inches of a panel, of a bar, and of what surrounds bars.
_PANEL, _BAR, _AROUND_BARS = 2.4, 0.32, 0.9
#: Bins of a histogram, of equal width on its axis.
_BINS = 48
#: The share of an axis from which on an arrow has room for its factor.
_LONG = 0.08
#: A mark: where a line crosses the axes, by the words beside it.
Marks = Mapping[str, float | Value]


def _number(value: Any) -> float:
    return as_measurement(value).median if isinstance(value, Value) else float(value)


def _grouped(rows: Iterable[Any], attribute: str | None) -> dict[str, list[Any]]:
    """Return the rows by the text of an attribute, in the order of their first; all together without one."""
    groups: dict[str, list[Any]] = {}
    for row in rows:
        groups.setdefault(str(value_at(row, attribute)) if attribute else "", []).append(row)
    return groups


def _looks(names: Sequence[str], variants: Mapping[str, str] | str | None) -> dict[str, str]:
    """Return each series' variant: the chosen one, that for all, the one of its own name, or the next that is left."""
    if isinstance(variants, str):
        return dict.fromkeys(names, variants)
    if unknown := sorted((variants or {}).keys() - {*names}):
        raise ValueError(f"variants must name series that are drawn, {', '.join(names)}, not {', '.join(unknown)}")
    chosen = {name: name.lower() for name in names if name.lower() in VARIANTS} | dict(variants or {})
    used = {*map(color, chosen.values())}
    left = [each for each in ASSIGNED if color(each) not in used] or ASSIGNED
    for at, name in enumerate(name for name in names if name not in chosen):
        chosen[name] = left[at % len(left)]
    return chosen


def _with_unit(label: str, values: Sequence[Any]) -> tuple[str, float]:
    """Return the label with the unit of what is on the axis, and how many base units one step of it is."""
    known = [as_measurement(value) for value in values if isinstance(value, Value)]
    units = {each.unit for each in known} - {"", "1"}
    if not units:
        return (label if label.rstrip().endswith(")") else f"{label} (count)"), 1.0
    if len(units) > 1:
        raise ValueError(f"values on one axis must share one unit, not {', '.join(sorted(units))}")
    scale = common_scale([each.median for each in known], units.pop())
    return f"{label} ({scale.symbol})", scale.factor


def _set_scales(ax: Axes, log: str, positions: Sequence[float]) -> None:
    """Make the axes that ``log`` names logarithmic, the horizontal one in powers of two where all positions are."""
    if "x" in log:
        powers = all(at > 0 and float(np.log2(at)).is_integer() for at in positions)
        ax.set_xscale("log", base=2 if powers else 10)
    distinct = sorted(set(positions))
    if len(distinct) <= _MOST_TICKS:
        ax.set_xticks(distinct, [plain_number(at) for at in distinct])
        ax.set_xticks([], minor=True)
    if "y" in log:
        ax.set_yscale("log")


def _mark(ax: Axes, level: Marks, upright: Marks) -> None:
    """Draw lines across the axes at these heights and at these positions, with their names beside them."""
    for words, at in level.items():
        ax.axhline(_number(at), color=color("reference"), linewidth=1, linestyle=":")
        if words:
            name_point(ax, (0.5, _number(at)), words, ax.get_yaxis_transform())
    for words, at in upright.items():
        ax.axvline(_number(at), color=color("reference"), linewidth=1, linestyle=":")
        name_point(ax, (_number(at), 0.95), words, ax.get_xaxis_transform())


def _check_log(log: str) -> None:
    if log not in ("", "x", "y", "xy"):
        raise ValueError(f"log must name the axes that are logarithmic, '', 'x', 'y' or 'xy', not {log!r}")


def lines(
    rows: Rows | Unmeasured,
    *,
    x: str,
    y: str | Mapping[str, str],
    xlabel: str,
    ylabel: str,
    each: str | None = None,
    panels: str | None = None,
    variants: Mapping[str, str] | str | None = None,
    log: str = "",
    level: Marks | None = None,
    upright: Marks | None = None,
    height: float | None = None,
) -> Figure | Unmeasured:
    """Return lines over numbers, or over names as a slope chart does, each point with its interval.

    Args:
        rows: a row for each point.
        x: attribute of the position: a number, a value, or a name.
        y: attribute of the height, a value with its unit; or several, each with what it adds to the line's name:
            ``{"found": "", "predicted": "predicted"}``. What is `Modelled` is dashed.
        xlabel, ylabel: what is on the axes; units come from the values.
        each: attribute that tells the lines apart, whose text is their name; None for one line.
        panels: attribute by which there are panels below one another; where these show different quantities, its text
            names each, and ``ylabel`` is empty.
        variants: the colour of all lines, or of each by its name, which without ``each`` is its words of ``y``: a hue
            or a name of ``tinytorch.report.colors``; those that are not named take that of their own name, such as
            ``linear``, or the next that is left.
        log: which axes are logarithmic: ``"x"``, ``"y"``, ``"xy"``. One that is not begins at zero.
        level, upright: heights, and positions, at which a dotted line has these words beside it; ``""`` for none.
        height: of the figure in inches; None for what its panels take.

    Raises:
        ValueError: if there are no rows, a row lacks an attribute, or values on an axis differ in their unit.

    Examples:
        >>> from tinytorch.perf.measuring import Counted
        >>> from tinytorch.report.charts import lines
        >>> rows = [{"width": 2**n, "stored": Counted(4**n, "B", "a matrix")} for n in range(4)]
        >>> chart = lines(rows, x="width", y="stored", xlabel="width", ylabel="stored", log="xy")
        >>> chart.axes[0].get_xlabel(), chart.axes[0].get_ylabel()
        ('width (count)', 'stored (B)')
    """
    if isinstance(rows, Unmeasured):
        return rows
    _check_log(log)
    kinds = {y: ""} if isinstance(y, str) else dict(y)
    every = listed(rows)
    by_panel = _grouped(every, panels)
    # Without groups, colours that have names are those of the heights, by their words.
    by_words = each is None and isinstance(variants, Mapping)
    looks = _looks([*kinds.values()] if by_words else [*_grouped(every, each)], variants)
    figure, axes = subplots(len(by_panel), 1, height=height or _PANEL * len(by_panel) + 0.6, sharex=True, squeeze=False)
    positions = [value_at(row, x) for row in every]
    named = any(isinstance(at, str) for at in positions)
    label, factor = (xlabel, 1.0) if named else _with_unit(xlabel, positions)
    order = {name: at for at, name in enumerate(dict.fromkeys(map(str, positions)))}
    for ax, (panel, inside) in zip(axes[:, 0], by_panel.items(), strict=True):
        for name, points in _grouped(inside, each).items():
            at = [order[str(one)] if named else _number(one) / factor for one in (value_at(row, x) for row in points)]
            for attribute, words in kinds.items():
                shown = ", ".join(filter(None, (name, words)))
                found = [value_at(row, attribute) for row in points]
                kept = [(place, one) for place, one in zip(at, found, strict=True) if not isinstance(one, Unmeasured)]
                if kept:
                    quantity = ": ".join(filter(None, (panel, ylabel)))
                    look = looks[words if by_words else name]
                    draw_line(ax, *zip(*kept, strict=True), quantity=quantity, variant=look, label=shown or "_")
        _mark(ax, level or {}, {words: _number(at) / factor for words, at in (upright or {}).items()})
        if named:
            ax.set_xticks([*order.values()], [*order])
            if "y" in log:
                ax.set_yscale("log")
        else:
            _set_scales(ax, log, [_number(at) / factor for at in positions])
        if "y" not in log:
            ax.set_ylim(bottom=min(0.0, ax.get_ylim()[0]))
    axes[-1, 0].set_xlabel(label if not named or label.endswith(")") else f"{label} (count)")
    of_panels = [{*ax.get_legend_handles_labels()[1]} for ax in axes[:, 0]]
    if len(set().union(*of_panels)) > 1:  # a line that is alone needs no name
        for above, ax in enumerate(axes[:, 0]):
            if of_panels[above].difference(*of_panels[:above]):  # names of lines that no panel above has
                ax.legend()
    return figure


def bars(
    rows: Rows | Unmeasured,
    *,
    name: str,
    value: str,
    xlabel: str,
    variants: Mapping[str, str] | str | None = "teal",
    each: str | None = None,
) -> Figure | Unmeasured:
    """Return a horizontal bar for each row, from the top down, with its interval.

    Args:
        rows: a row for each bar.
        name: attribute that names the bar.
        value: attribute of its length, a value with its unit. What is `Modelled` is hollow.
        xlabel: what is on the axis.
        variants: the colour of all bars, or of each by its name, or by its ``each``; None for those of that name.
        each: attribute by which bars have colours; their names if None.

    Raises:
        ValueError: if there are no rows, a row lacks an attribute, or values differ in their unit.

    Examples:
        >>> from tinytorch.perf.measuring import Counted
        >>> from tinytorch.report.charts import bars
        >>> stored = {"float32": Counted(4096, "B", "weights"), "8 bits": Counted(1024, "B", "weights")}
        >>> chart = bars(stored, name="name", value="row", xlabel="stored", variants={"8 bits": "orange"})
        >>> chart.axes[0].get_xlabel()
        'stored (KiB)'
    """
    if isinstance(rows, Unmeasured):
        return rows
    every = listed(rows)
    names = [str(value_at(row, name)) for row in every]
    kinds = [str(value_at(row, each)) for row in every] if each else names
    looks = _looks([*dict.fromkeys(kinds)], variants)
    figure, ax = subplots(height=_BAR * len(every) + _AROUND_BARS)
    values = [value_at(row, value) for row in every]
    draw_bars(ax, names, values, quantity=xlabel, variants=[looks[kind] for kind in kinds])
    return figure


def _reach(value: Value, factor: float) -> tuple[float, list[list[float]]]:
    """Return the median and the distances to the ends of its interval, in steps of an axis."""
    made = as_measurement(value)
    interval = interval_of(made)
    ends = (made.median,) * 2 if interval is None else (interval.low, interval.high)
    return made.median / factor, [[max(made.median - ends[0], 0) / factor], [max(ends[1] - made.median, 0) / factor]]


def _marked(value: Value) -> dict[str, Any]:
    """Return the marker of a point, which is hollow where the interval is wider than its value."""
    hollow = {} if has_a_value(as_measurement(value)) else {"markerfacecolor": "none"}
    return {"marker": "o", "markersize": 4.5, **hollow}


def arrows(
    rows: Rows | Unmeasured,
    *,
    name: str,
    values: Mapping[str, str],
    begin: float | None = None,
    upto: int | None = None,
    beside: Mapping[str, Any] | None = None,
) -> Figure | Unmeasured:
    """Return an arrow for each row from where the one above it ends, on logarithmic axes; the last one stands out.

    Above an arrow that is long enough stands the factor between the two medians.

    Args:
        rows: a row for each step.
        name: attribute that names it.
        values: attributes of where it leads, each with what is on the axis of its panel; units come from the values.
        begin: where the first arrow begins; it is a point alone by default.
        upto: how many rows are drawn; the axes have room for all, so that a chart can grow from figure to figure.
        beside: further rows by what they are called, at whose values a dotted line crosses the axes.

    Raises:
        ValueError: if there are no rows, a row lacks an attribute, or values on an axis differ in their unit.

    Examples:
        >>> from tinytorch.perf.measuring import Counted
        >>> from tinytorch.report.charts import arrows
        >>> held = {"float32": Counted(4096, "B", "weights"), "8 bits": Counted(1024, "B", "weights")}
        >>> chart = arrows(held, name="name", values={"row": "stored"})
        >>> chart.axes[0].get_xlabel()
        'stored (KiB)'
    """
    if isinstance(rows, Unmeasured):
        return rows
    every = listed(rows)
    shown = every[:upto]
    figure, axes = subplots(len(values), 1, height=(_BAR * len(shown) + _AROUND_BARS) * len(values), squeeze=False)
    for ax, (attribute, quantity) in zip(axes[:, 0], values.items(), strict=True):
        others = {words: value_at(row, attribute) for words, row in (beside or {}).items()}
        found = [value_at(row, attribute) for row in every]
        label, factor = _with_unit(quantity, [*found, *others.values()])
        least, most = (f(_number(value) for value in (*found, *others.values())) / factor for f in (min, max))
        first, last = min(least, begin or least) / 2, most * 2
        before = begin
        for at, (row, value) in enumerate(zip(shown, found, strict=False)):
            look, words = "highlight" if row is shown[-1] else "measured", str(value_at(row, name))
            end, reach = _reach(value, factor)
            ax.errorbar([end], [words], xerr=reach, color=color(look), ecolor=INK, **_marked(value), **INTERVAL)
            if before is not None:
                arrow = {"arrowstyle": "-|>", "color": color(look), "linewidth": 2, "shrinkA": 0, "shrinkB": 3}
                ax.annotate("", (end, at), (before, at), arrowprops=arrow)
                if has_a_value(as_measurement(value)) and abs(math.log(end / before)) > _LONG * math.log(last / first):
                    gain = plain_number(float(f"{max(end / before, before / end):.2g}"))
                    gain = f"×{gain}" if end > before else f"÷{gain}"
                    ax.text(math.sqrt(before * end), at - 0.15, gain, ha="center", va="bottom", fontsize=9.5, color=INK)
            remember(ax, Series(words, look, (words,), (value,)))
            before = end
        ax.set_xscale("log")
        ax.set_xlim(first, last)
        ax.set_ylim(len(shown) - 0.5, -0.5 - bool(others))
        ax.set_xlabel(label)
        _mark(ax, {}, {words: _number(value) / factor for words, value in others.items()})
    return figure


def dots(
    rows: Rows | Unmeasured,
    *,
    x: str,
    y: str,
    name: str,
    xlabel: str,
    ylabel: str,
    panels: str | None = None,
    front: str | None = None,
    log: str = "",
) -> Figure | Unmeasured:
    """Return points with intervals on both axes and their names beside them, such as time against accuracy.

    Args:
        rows: a row for each point.
        x, y: attributes of its place, values with their units.
        name: attribute that names it.
        xlabel, ylabel: what is on the axes; units come from the values.
        panels: attribute by which there are panels below one another.
        front: attribute that says which points no other beats; a stepped line joins them, and the others are grey.
        log: which axes are logarithmic: ``"x"``, ``"y"``, ``"xy"``.

    Raises:
        ValueError: if there are no rows, a row lacks an attribute, or values on an axis differ in their unit.

    Examples:
        >>> from tinytorch.perf.measuring import Counted
        >>> from tinytorch.report.charts import dots
        >>> right = Counted(0.9, "%", "share right")
        >>> rows = [{"way": "8 bits", "stored": Counted(1024, "B", "weights"), "right": right}]
        >>> chart = dots(rows, x="stored", y="right", name="way", xlabel="stored", ylabel="right")
        >>> chart.axes[0].get_ylabel()
        'right (%)'
    """
    if isinstance(rows, Unmeasured):
        return rows
    _check_log(log)
    every = listed(rows)
    by_panel = _grouped(every, panels)
    figure, axes = subplots(len(by_panel), 1, height=1.3 * _PANEL * len(by_panel), squeeze=False)
    for ax, (panel, inside) in zip(axes[:, 0], by_panel.items(), strict=True):
        across, x_factor = _with_unit(xlabel, [value_at(row, x) for row in inside])
        upwards, y_factor = _with_unit(ylabel, [value_at(row, y) for row in inside])
        best = []
        for row in inside:
            height, words = value_at(row, y), str(value_at(row, name))
            (at, x_reach), (up, y_reach) = _reach(value_at(row, x), x_factor), _reach(height, y_factor)
            look = "measured" if front is None or value_at(row, front) else "baseline"
            ax.errorbar([at], [up], xerr=x_reach, yerr=y_reach, color=color(look), **_marked(height), **INTERVAL)
            name_point(ax, (at, up), textwrap.fill(words, 20))
            remember(ax, Series(words, look, (at,), (height,)))
            if front is not None and look == "measured":
                best.append((at, up))
        if best:
            edge = np.array(sorted(best))
            heights = np.maximum.accumulate(edge[:, 1])
            ax.step(edge[:, 0], heights, where="post", color=color("measured"), linewidth=4, alpha=0.3)
        if "x" in log:
            ax.set_xscale("log")
        if "y" in log:
            ax.set_yscale("log")
        ax.margins(0.12)
        ax.set_xlabel(across)
        ax.set_ylabel(f"{panel}: {upwards}" if panel else upwards)
    return figure


def histogram(
    measured: Measurement | Unmeasured, *, xlabel: str, ylabel: str, names: tuple[str, str, str], log: str = ""
) -> Figure | Unmeasured:
    """Return a histogram of samples with their median, mean and 99th percentile; the last bar counts all larger ones.

    Args:
        measured: what was sampled.
        xlabel: what the samples are; the unit comes from the measurement.
        ylabel: what a bar counts, such as "calls".
        names: what to call the median, the mean and the 99th percentile.
        log: ``"x"`` where the axis of values is logarithmic.

    Examples:
        >>> from tinytorch.perf.measuring import Measurement
        >>> from tinytorch.report.charts import histogram
        >>> calls = Measurement("a call", tuple(k * 1e-3 for k in range(1, 501)), "s")
        >>> chart = histogram(calls, xlabel="time", ylabel="calls", names=("median", "mean", "p99"))
        >>> chart.axes[0].get_xlabel()
        'time (ms)'
    """
    if isinstance(measured, Unmeasured):
        return measured
    figure, ax = subplots(height=2.8)
    label, factor = _with_unit(xlabel, [measured])
    samples = np.array(measured.samples) / factor
    tail, spread = measured.percentile(99) / factor, np.geomspace if log else np.linspace
    most = min(samples.max(), 2 * tail)
    ax.hist(samples.clip(max=most), spread(samples.min(), most, _BINS + 1), color=color("measured"))
    if log:
        ax.set_xscale("log")
    found = (measured.median / factor, float(samples.mean()), tail)
    _mark(ax, {}, dict(zip(names, found, strict=True)))
    ax.set_xlabel(label)
    ax.set_ylabel(f"{ylabel} (count)")
    return figure
