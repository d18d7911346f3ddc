"""The report of one program or model as one page of HTML: where its time goes, drawn and judged, and what helps."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from html import escape
from typing import Any

from matplotlib.figure import Figure

from tinytorch.cli.program_tables import NEVER_SEEN, recorded_by_torch, seen_from_outside, table_html
from tinytorch.core.module import Module
from tinytorch.perf.events.array_life import CATEGORIES, MemoryProfile
from tinytorch.perf.events.call_tree import Frame, call_tree
from tinytorch.perf.events.stream import OpKey, Profile
from tinytorch.perf.events.trace import NOT_NAMED
from tinytorch.perf.machine import Ceilings, identity
from tinytorch.perf.profiling import Profiler
from tinytorch.perf.profiling.breakdown import BETWEEN, MODULES, REGION
from tinytorch.perf.profiling.inside import Inside
from tinytorch.perf.profiling.program import ProgramProfile
from tinytorch.perf.roofline.bounds import Bottleneck
from tinytorch.perf.roofline.placement import Placed, place_ops
from tinytorch.report import tables
from tinytorch.report.colors import color
from tinytorch.report.figures import settle, subplots
from tinytorch.report.flame_graph import SCRIPT, STYLE, Box, boxes_html, flame_boxes, interval_boxes, timeline_boxes
from tinytorch.report.layouts import both_layouts
from tinytorch.report.numbers import format_measurement, format_number
from tinytorch.report.provenance import Fact, identity_rows
from tinytorch.report.roofline_figure import roofline_figure
from tinytorch.report.standalone import standalone_page
from tinytorch.report.tables import Column

Row = dict[str, Any]

#: Rows of the table of operations, and points of the roofline: those that take the most time.
_OPS, _POINTS = 25, 8
#: What helps where something limits.
REMEDIES: dict[Bottleneck, str] = {
    Bottleneck.COMPUTE: "arithmetic limits it: better instructions (vectors, 8-bit products), less arithmetic (a "
    "smaller model), more cores",
    Bottleneck.MEMORY: "bytes limit it: larger batches, smaller numbers, blocks that stay in a cache",
    Bottleneck.OVERHEAD: "calls limit it: fewer and larger operations, batches, compiled code",
    Bottleneck.BELOW: "what is not counted limits it, such as several passes over the data: one pass in place of "
    "several (fusion), cheaper instructions, compiled code",
    Bottleneck.OPEN: "the largest bounds weigh about the same: what helps against each of them helps in part",
}


def html_report(
    name: str,
    profiler: Profiler | None,
    ceilings: Ceilings | None,
    program: ProgramProfile | None = None,
    facts: Sequence[Fact] = (),
    model: Module | None = None,
) -> str:
    """Return the page: it needs no other file and asks no other host for anything.

    Args:
        name: what ran.
        profiler: that recorded it; memory that was joined is shown. None of a program that did not run from inside.
        ceilings: of this machine for the threads that ran, for roofline and verdicts; None if they are not known.
        program: what else was seen of it, if it is one: lines, threads, PyTorch's operations.
        facts: what ran and what it took as a whole, if it is a model.
        model: whose parameters are counted by module.
    """
    inside = program.inside if program is not None else None
    ops = profiler if profiler is not None and (program is None or (inside is not None and inside.ran_ops)) else None
    placed = _placed(ops.run, ceilings) if ops is not None else {}
    of_ops = "" if program is None else " of operations"
    if program is None:
        said = ops.notes() if ops is not None else []
    else:
        ended = [f"It ended with exit code {program.exit_code}."] if program.exit_code else []
        said = [*ended, *program.notes]
    parts = [paragraphs(said)]
    if facts:
        parts.insert(0, section("The model", facts_table(facts, "What ran, and what it took as a whole.", "model")))
    if program is not None:
        parts += _program(program)
    if program is not None and inside is not None and program.lines is not None:
        apart = "What follows was recorded from inside, by a run of its own: recording is a part of its times."
        parts.append(section("From inside", paragraphs([apart, *inside.remarks])))
        parts += _torch(inside) if inside.torch_rows else []
    if ops is not None:
        recorded = "The median of several recorded runs." if facts else "One run."
        parts += [
            section("What takes the most", paragraphs([_largest(ops, placed)])),
            section("Operations", _operations(ops, recorded)),
            section("Modules and regions", _layers(ops, model)),
        ]
        if program is None:
            parts.append(section("Flame graph", _flames(call_tree(ops.run))))
        parts.append(section(f"Timeline{of_ops}", _timelines([("operations", timeline_boxes(ops.run))], "ops")))
    if profiler is not None and (program is None or profiler.has_memory):
        parts.append(section("Memory over time" if program is None else "Memory of arrays", _memory(profiler)))
    if ops is not None:
        parts += [
            section("Roofline", roofline([*placed.values()], ceilings)),
            section("What each verdict calls for", _remedies([*placed.values()])),
        ]
    parts.append(section("The machine", machine_table(ceilings)))
    return standalone_page(f"Profile of {name}", "\n".join(parts), style=STYLE, script=SCRIPT)


def _program(program: ProgramProfile) -> list[str]:
    """Return the sections on what was seen from outside, or on calls where nothing may be seen."""
    lines = program.lines
    tabled = [section(table.title, table_html(table, _OPS)) for table in seen_from_outside(program)]
    if lines is None:
        return tabled
    if not lines.effective_looks:
        return [section("Lines", paragraphs([NEVER_SEEN]))]
    first = lines.samples[0]
    drawn = [
        (lines.name(track), interval_boxes(lines.intervals(track, one.stacks), lines.begin, first.end))
        for one in lines.samples
        for track in one.tracks
    ]
    return [
        *tabled,
        section("Flame graph", _flames(lines.tree())),
        section("Timeline", _timelines(drawn, "lines")),
        *([section("Memory over time", _resident(first.start, first.resident))] if first.resident else []),
    ]


def _torch(inside: Inside) -> list[str]:
    """Return the sections on PyTorch's operations."""
    table, calls = recorded_by_torch(inside), inside.torch_calls
    drawn = interval_boxes(
        ((call.start, call.end, 0, call.op, "op") for call in calls), inside.start, max(call.end for call in calls)
    )
    return [
        section(table.title, table_html(table, _OPS)),
        section(f"Timeline of {table.title}", _timelines([("operations of PyTorch", drawn)], "torch")),
    ]


def section(title: str, body: str) -> str:
    """Return a section of the page with its heading."""
    return f"<section>\n<h2>{escape(title)}</h2>\n{body}\n</section>"


#: What stands between backticks, and how a page shows it.
_CODE, _AS_CODE = re.compile("`([^`]+)`"), r"<code>\1</code>"


def paragraphs(sentences: Sequence[str]) -> str:
    """Return each sentence as a paragraph; text between backticks is shown as code."""
    return "\n".join(f"<p>{_CODE.sub(_AS_CODE, escape(sentence))}</p>" for sentence in sentences)


def facts_table(facts: Sequence[Fact], caption: str, key: str) -> str:
    """Return facts as a table of two columns."""
    columns = [Column("what", "what"), Column("value", "value")]
    return tables.to_html([fact._asdict() for fact in facts], columns, caption=caption, key=key)


#: What helps against time that no operation takes.
_BETWEEN: dict[str, str] = {
    MODULES: "Python between the operations limits it: larger batches, fewer and larger modules, or a plan "
    "(`tinytorch.perf.acceleration.plan`), which runs the same operations without it",
    NOT_NAMED: 'it has no name: put `with region("..."):` around what may take it, to see what it is',
}


def _largest(profiler: Profiler, placed: Mapping[OpKey, Placed]) -> str:
    """Return what takes the most time, what bounds it, and what to do next, in a few sentences."""
    rows = profiler.attribution()
    if not rows:
        return "Nothing ran."
    row = rows[0]
    name = row.op if row.phase in ("forward", BETWEEN) else f"{row.op}, {row.phase}"
    said = f"{name}: {format_number(row.share or 0.0, '%').text} of the run."
    if row.phase == BETWEEN:
        own = "it is no operation of the package: shorten it, or profile it as a script to see its lines"
        return f"{said} What to do next: {_BETWEEN.get(row.op, own)}."
    found = placed.get((row.op, row.phase, row.implementation))
    if found is None:
        return f"{said} What bounds it is not known, without what this machine can do or without counted arithmetic."
    verdict = found.verdict
    bound = f"It is {verdict.sentence_word}: {verdict.because}."
    return f"{said} {bound} What to do next: {REMEDIES[verdict.bottleneck]}."


def _operations(profiler: Profiler, recorded: str) -> str:
    rows = profiler.attribution()
    columns = [
        Column("op", "operation"),
        Column("phase", "phase"),
        Column("share", "share of the run", "%"),
        Column("self_seconds", "own time", "s"),
        Column("calls", "calls", "1"),
        Column("rate", "rate", "FLOP/s"),
        Column("waiting_seconds", "waiting", "s"),
        Column("bound", "verdict"),
    ]
    left = sum(row.share or 0 for row in rows[_OPS:])
    others = f"; these are the longest, and those left out take {format_number(left, '%').text}" if rows[_OPS:] else ""
    caption = (
        f'{recorded} Rows with the phase "{BETWEEN}" are regions, the Python of modules, the garbage collector, '
        f"and what has no name. All rows sum to the run{others}."
    )
    rates = ({"rate": row.gflops_per_second and row.gflops_per_second * 1e9} for row in rows)
    shown = [asdict(row) | rate for row, rate in zip(rows[:_OPS], rates, strict=False)]
    return tables.to_html(shown, columns, caption=caption, key="operations")


def _layers(profiler: Profiler, model: Module | None) -> str:
    sizes = {} if model is None else {name: each.size for name, each in model.named_parameters()}
    rows: list[Row] = []
    for row in profiler.by_layer():
        within = row.path.partition(".")[2]  # behind the class of the model
        own = [size for name, size in sizes.items() if not within or f"{name}.".startswith(f"{within}.")]
        shown = {"path": "\u2003" * row.depth + (row.path or "outside of modules")}
        rows.append(asdict(row) | shown | {"parameters": sum(own) if row.module not in ("", REGION) else None})
    columns = [
        Column("path", "module or region"),
        Column("module", "class"),
        Column("share", "share of the run", "%"),
        Column("total_seconds", "time in operations", "s"),
        Column("between_seconds", "time between them", "s"),
        Column("calls", "calls", "1"),
        *([Column("parameters", "parameters", "1")] if sizes else []),
        Column("flops", "FLOPs", "FLOP"),
        Column("bound", "verdict"),
    ]
    caption = "Modules with those in them, and regions: the rows that are not indented sum to the run."
    return tables.to_html(rows, columns, caption=caption, key="layers")


def _flames(root: Frame) -> str:
    how = "Width is time; what runs in a frame stands below it. A click or Enter zooms, Escape leaves, arrows walk"
    drawn = boxes_html(flame_boxes(root), key="flames", label="Flame graph of the run")
    return f"<p>{how}, and / searches.</p>\n{drawn}"


def _timelines(drawn: Sequence[tuple[str, Sequence[Box]]], key: str) -> str:
    """Return timelines, each with its name if there are several."""
    shown = [(label, boxes) for label, boxes in drawn if boxes]
    if not shown:
        return paragraphs(["Nothing ran that took a visible part of the time."])
    how = "From left to right as it ran; what is too short to be seen is left out."
    parts = [
        (f"<h3>{escape(label)}</h3>\n" if len(shown) > 1 else "")
        + boxes_html(boxes, key=f"timeline-{key}-{number}", label=f"Timeline: {label}")
        for number, (label, boxes) in enumerate(shown)
    ]
    return f"<p>{how}</p>\n" + "\n".join(parts)


def _memory(profiler: Profiler) -> str:
    """Return the memory of arrays, drawn over time."""
    if not profiler.has_memory:
        return paragraphs(["Memory was not recorded."])
    run, memory = profiler.run, profiler.memory
    if not memory.steps:
        return paragraphs(["No operation of the package ran, whose arrays could be followed."])
    figure, ax = subplots(height=3.0)
    _draw_memory(ax, run, memory)
    settle(figure)
    most = max(memory.highest, key=lambda kind: memory.highest[kind])
    alt = f"Live bytes of arrays after each operation, by what they are for; the most are of {most}."
    svg, _ = both_layouts(figure, key="memory", alt=alt)
    peak = f"{memory.peak / 2**20:,.2f} MiB at the peak, traced in a run of its own."
    return f"<figure>{svg}<figcaption>{escape(peak)}</figcaption></figure>"


def _resident(start: int, held: Sequence[tuple[int, int]]) -> str:
    """Return the memory that the process held, drawn over time."""
    figure, ax = subplots(height=3.0)
    every = max(len(held) // 500, 1)  # of which each shows the most since the one before
    most = [max(value for _, value in held[first : first + every]) for first in range(0, len(held), every)]
    ax.step([(when - start) * 1e-9 for when, _ in held[::every]], [value / 2**20 for value in most], where="post")
    ax.set_ylim(bottom=0)
    ax.set_xlabel("time (s)")
    ax.set_ylabel("memory of the process (MiB)")
    settle(figure)
    peak = f"{max(most) / 2**20:,.0f} MiB of memory at the peak, of the whole process with Python and its libraries."
    svg, _ = both_layouts(figure, key="resident", alt=f"Memory that the process held over time: {peak}")
    return f"<figure>{svg}<figcaption>{escape(peak)}</figcaption></figure>"


def _draw_memory(ax: Any, run: Profile, memory: MemoryProfile) -> None:
    ends = [0.0, *((event.end - run.start) * 1e-6 for event in run.events)]
    steps = [memory.steps[0], *memory.steps]  # each until its operation's end, so that also a single one is seen
    held = {kind: [step.live[at] / 2**20 for step in steps] for at, kind in enumerate(CATEGORIES)}
    shown = {kind: values for kind, values in held.items() if any(values)}
    shades = [color(hue) for hue in ("teal", "grey", "blue", "orange", "rose", "olive", "lilac")]
    ax.stackplot(ends, *shown.values(), labels=list(shown), colors=shades[: len(shown)], step="pre")
    ax.set_xlabel("time (ms)")
    ax.set_ylabel("live arrays (MiB)")
    ax.legend(loc="upper left", frameon=False)


def _placed(run: Profile, ceilings: Ceilings | None) -> dict[OpKey, Placed]:
    """Return the ops that have a place under the roof, the longest first."""
    if ceilings is None or not len(run.events):
        return {}
    return dict(sorted(place_ops(run, ceilings).items(), key=lambda pair: -pair[1].seconds.median))


def roofline(placed: Sequence[Placed], ceilings: Ceilings | None) -> str:
    """Return the roofline with a point for each of the longest operations, and a table of these; or why there is none.

    Args:
        placed: operations, the longest first.
        ceilings: of this machine; None if they are not known.
    """
    points = [one for one in placed if one.demand.operations][:_POINTS]
    if ceilings is None or not points:
        return paragraphs(["No operation with counted arithmetic ran, or what this machine can do is not known."])
    figure: Figure = roofline_figure(points, ceilings)
    settle(figure)
    alt = "Roofline with a named point for each of the longest operations; the table below holds them."
    svg, _ = both_layouts(figure, key="roofline", alt=alt)
    columns = {
        "name": "operation",
        "seconds": "time of all calls",
        "of_roof": "of its roof",
        "intensity": "intensity",
        "verdict.sentence_word": "verdict",
        "verdict.because": "because",
    }
    caption = "The operations of the figure, the longest first."
    shown, rows = tables.declared(points, columns, "roofline", quoted=(), totals={})
    table = tables.to_html(rows, shown, caption=caption, key="roofline")
    return f"<figure>{svg}<figcaption>Roofs of this machine, and what ran.</figcaption></figure>\n{table}"


def _remedies(placed: Sequence[Placed]) -> str:
    found: dict[str, list[Placed]] = {}
    for one in placed:
        found.setdefault(one.verdict.sentence_word, []).append(one)
    if not found:
        return paragraphs(["There is no verdict without operations under a roof."])
    items = (
        f"<dt>{escape(word)}: {escape(', '.join(one.name for one in alike))}</dt>"
        f"<dd>{escape(REMEDIES[alike[0].verdict.bottleneck])}.</dd>"
        for word, alike in found.items()
    )
    return f"<dl>{''.join(items)}</dl>"


def machine_table(ceilings: Ceilings | None) -> str:
    """Return a table of the machine, with its peak and bandwidths if these are known."""
    rows: list[Mapping[str, str]] = [fact._asdict() for fact in identity_rows(identity())]
    if ceilings is not None:
        threads = f"{ceilings.threads} thread" + "s" * (ceilings.threads > 1)
        shown = {f"FP32 peak, {threads}": ceilings.fp32_peak}
        shown |= {f"{level.name}, read": level.read for level in ceilings.levels}
        rows += [{"what": what, "value": format_measurement(one).cell_with_interval} for what, one in shown.items()]
    columns = [Column("what", "what"), Column("value", "value")]
    return tables.to_html(rows, columns, caption="Where this was recorded.", key="machine")
