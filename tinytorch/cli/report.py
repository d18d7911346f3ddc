"""``tinytorch report``: files of results as a page, or as Markdown."""

import argparse
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from tinytorch.cli.usage import Parser, UsageError, check_folder
from tinytorch.perf.benchmarking import load_results
from tinytorch.perf.benchmarking.pareto import pareto_front, plot_performance_comparison
from tinytorch.perf.benchmarking.performance import Performance, compare_with_first
from tinytorch.perf.benchmarking.results import Results
from tinytorch.perf.measuring.atomic_io import write_whole
from tinytorch.report import tables
from tinytorch.report.standalone import standalone_page
from tinytorch.report.tables import Column

Row = dict[str, Any]


def add(report: Parser) -> None:
    """Add the command's options to its parser."""
    report.add_argument("files", nargs="+", metavar="FILE", help="results of `tinytorch bench --json`")
    report.add_argument("--html", metavar="FILE", help="write the report to a self-contained HTML file")
    report.add_argument("--markdown", metavar="FILE", help="write the report as Markdown")
    report.set_defaults(run=_run)


def _run(chosen: argparse.Namespace) -> None:
    if not chosen.html and not chosen.markdown:
        raise UsageError("give --html FILE or --markdown FILE, or both")
    for option in ("html", "markdown"):
        check_folder(option, getattr(chosen, option))
    results = [load_results(path) for path in chosen.files]
    if chosen.html:
        write_whole(chosen.html, html_report(results))
    if chosen.markdown:
        write_whole(chosen.markdown, markdown_report(results))


def performance_rows(performances: Mapping[str, Performance]) -> tuple[list[Row], list[Column]]:
    """Return rows and columns of all that was measured of each variant, and its comparison with the first.

    What was not measured is a dash.
    """
    batches = sorted({size for one in performances.values() for size in one.batches})
    changes = compare_with_first(performances) if len(performances) > 1 else {}
    columns = [Column("name", "variant"), Column("time", f"time at {batches[0]}")]
    columns += [Column(f"rate-{size}", f"throughput at {size}") for size in batches]
    columns += [Column("memory", "peak memory"), Column("size", "model"), Column("accuracy", "accuracy")]
    if changes:
        columns += [Column("speedup", "speedup"), Column("verdict", "it is")]
    rows = []
    for name, one in performances.items():
        change = changes.get(name)
        rates = {f"rate-{size}": one.throughput.get(size) for size in batches}
        row: Row = {"name": name, "time": one.time, **rates, "memory": one.memory, "size": one.size}
        row |= {"accuracy": one.accuracy, "speedup": None, "verdict": "the baseline"}
        rows.append(row | {"speedup": change.speedup.estimate, "verdict": str(change.speedup)} if change else row)
    return rows, columns


def markdown_report(results: Sequence[Results]) -> str:
    """Return the report of one run or several in Markdown.

    Raises:
        ValueError: if there are none, or one has measured nothing.
    """
    parts = ["# Benchmark"]
    for one in _checked(results):
        parts += [f"## {_heading(one)}", *(f"- {line}" for line in conditions(one)), ""]
        parts += [tables.to_markdown(*performance_rows(one.performances)), "", *_front_sentences(one)]
    return "\n".join(parts) + "\n"


def html_report(results: Sequence[Results]) -> str:
    """Return the report of one run or several as one page of HTML, which asks nothing of any other file or host.

    Raises:
        ValueError: as `markdown_report` does.
    """
    sections = [_section(one, f"run-{index}") for index, one in enumerate(_checked(results))]
    return standalone_page("Benchmark", "\n".join(sections))


def _section(one: Results, key: str) -> str:
    caption = "Medians and their 95 % intervals; a speedup above 1 is faster than the first variant."
    lines = "".join(f"<li>{escape(line)}</li>" for line in conditions(one))
    front = "".join(f"<p>{escape(sentence)}</p>" for sentence in _front_sentences(one))
    table = tables.to_html(*performance_rows(one.performances), caption=caption, key=key)
    return f"<h2>{escape(_heading(one))}</h2>\n<ul>{lines}</ul>\n{table}\n{front}\n{_figure(one.performances, key)}"


def _figure(performances: Mapping[str, Performance], key: str) -> str:
    from tinytorch.report.figures import INK, settle  # with what draws, which takes a second to load
    from tinytorch.report.layouts import page_svg

    figure = plot_performance_comparison(performances, ink=INK)
    settle(figure)
    names = ", ".join(performances)
    alt = f"Bars with error bars of time, peak memory and accuracy of {names}; the table above holds the numbers."
    svg = page_svg(figure, key=key, alt=alt)
    return f"<figure>{svg}<figcaption>Time, peak memory and accuracy with 95 % intervals.</figcaption></figure>"


def _checked(results: Sequence[Results]) -> Sequence[Results]:
    if not results:
        raise ValueError("results must hold at least one run")
    for one in results:
        if not one.performances:
            raise ValueError(f"the run of {one.plan.subject} of {one.created} has measured nothing: resume it first")
    return results


def _heading(one: Results) -> str:
    return f"{one.plan.subject}, {one.created}"


def conditions(one: Results) -> list[str]:
    """Return machine, libraries, code and plan in words, a line each."""
    made, plan = one.identity, one.plan
    blas = ", ".join(
        " ".join(each[part] for part in ("name", "version", "core") if each[part]) for each in made["blas"]
    )
    code = f"{one.code.get('name', 'code')} {one.code.get('version', '')}".strip()
    if one.code.get("commit"):
        code += f", commit {one.code['commit'][:12]}" + (", changed since" if one.code.get("changed") else "")
    lines = [
        f"{made['cpu']}, {made['cores_usable']} of {made['cores_logical']} cores, {made['system']}",
        f"Python {made['python']}, NumPy {made['numpy']}, BLAS {blas}, {plan.threads} thread(s)",
        f"{code}; {one.done} of {plan.processes} processes of up to {plan.repeats} samples, seed {plan.seed}",
        f"an item is one example of: {next(iter(one.performances.values())).task}",
    ]
    return lines if one.complete else [*lines, "this run is not complete"]


def _front_sentences(one: Results) -> list[str]:
    """Return the Pareto front in words: who is on it, who is dominated and by whom, and what cannot be told."""
    front = pareto_front(one.performances)
    sentences = [f"No other variant is proven better than: {', '.join(front.front)}."]
    for said, beaten in (
        ("Dominated in time, memory and accuracy", front.dominated),
        ("Dominated by the medians alone, and not by the intervals", front.undecided),
    ):
        if beaten:
            named = "; ".join(f"{name} by {', '.join(by)}" for name, by in beaten.items())
            sentences.append(f"{said}: {named}.")
    return sentences
