"""The page of a benchmark's history: each variant's times over the runs, and the changes that are proven."""

from __future__ import annotations

from html import escape

from tinytorch.chapters.benchmarking.report import conditions, html_page
from tinytorch.perf.benchmarking.change_points import LEVEL
from tinytorch.perf.benchmarking.history import Histories, History, Series, moved_words
from tinytorch.report import tables
from tinytorch.report.figures import INK, line, settle, subplots
from tinytorch.report.svg import page_svg
from tinytorch.report.tables import Column


def html_history(made: Histories) -> str:
    """Return the page as HTML that asks nothing of any other file or host."""
    sections = [_section(one, f"history-{index}") for index, one in enumerate(made.histories)]
    return html_page("Benchmark history", "\n".join(sections) or "<p>No run has measured anything.</p>")


def _section(history: History, key: str) -> str:
    lines = "".join(f"<li>{escape(words)}</li>" for words in conditions(history.runs[-1])[:2])
    parts = [f"<h2>{escape(history.subject)}, {len(history.runs)} runs</h2>", f"<ul>{lines}</ul>", _changes(history)]
    parts += [_series(history, one, f"{key}-{index}") for index, one in enumerate(history.series)]
    return "\n".join(parts)


def _changes(history: History) -> str:
    told = [
        f"<li>{escape(one.variant)} at batch {one.batch} {escape(moved_words(moved))}.</li>"
        for one in history.series
        for moved in one.moved
    ]
    found = f"<ul>{''.join(told)}</ul>" if told else "<p>No change is proven.</p>"
    return f"{found}\n<p>In a series without any change, one is told with a chance of {LEVEL:.0%}.</p>"


def _series(history: History, one: Series, key: str) -> str:
    having = [run for run in history.runs if one.variant in run.performances]
    having = [run for run in having if one.batch in run.performances[one.variant].times]
    marked = {moved.at: moved for moved in one.moved}
    rows = [
        {
            "when": run.created,
            "commit": (run.code.get("commit") or "unknown")[:12],
            "time": seconds,
            "change": moved_words(marked[index]) if index in marked else "",
        }
        for index, (run, seconds) in enumerate(zip(having, one.seconds, strict=True))
    ]
    columns = [Column("when", "run"), Column("commit", "commit"), Column("time", "time"), Column("change", "change")]
    caption = f"{one.variant} at batch {one.batch}: time of one call with its 95 % interval."
    table = tables.to_html(rows, columns, caption=caption, key=key)
    title = f"{one.variant}, batch {one.batch}"
    return f"<h3>{escape(title)}</h3>\n{_figure(one, key)}\n<details><summary>The numbers</summary>{table}</details>"


def _figure(one: Series, key: str) -> str:
    figure, ax = subplots(height=2.2)
    line(ax, [*range(1, len(one.seconds) + 1)], one.seconds, quantity="time", variant="measured")
    for moved in one.moved:
        ax.axvline(moved.at + 0.5, color=INK, linestyle="--", linewidth=1)
    ax.set_xlabel("run (number)")
    ax.set_ylim(bottom=0)
    settle(figure)
    changes = "; ".join(moved_words(moved) for moved in one.moved) or "no change is proven"
    alt = f"Time of {one.variant} at batch {one.batch} over {len(one.seconds)} runs: {changes}."
    return f"<figure>{page_svg(figure, key=key, alt=alt, ink=INK)}</figure>"
