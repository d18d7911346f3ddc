"""Figures of messages and of timelines: what was measured is in them, the rest is marked or left out."""

from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from tests.chapters.distributed.test_messages import made_collectives
from tests.perf.distributed.collectives.made_times import ALPHA, BETA, SIZES
from tests.perf.distributed.recording.made_tracks import Made, made_timeline
from tinytorch.chapters.distributed.figures import timeline_figure, times_figure
from tinytorch.chapters.distributed.step_recording import Update
from tinytorch.perf.distributed.recording.timeline import Timeline
from tinytorch.perf.events.stream import Span
from tinytorch.perf.measuring import Unmeasured
from tinytorch.report.colors import VARIANTS
from tinytorch.report.figures import check_figure, settle, to_body

MS = 10**6
PHASES = ("forward", "backward", "waiting", "moving")


def checked(figure: Figure | Unmeasured) -> list[dict[str, Any]]:
    """Return the series of a figure that passes the check of every figure."""
    assert isinstance(figure, Figure)
    check_figure(figure, caption="A caption.", alt="What there is to see.", key="figure")
    settle(figure)
    found: list[dict[str, Any]] = to_body(figure, caption="c", alt="a", key="figure")["series"]
    return found


def test_times_are_drawn_with_their_lines_for_every_second_size_and_both_ends() -> None:
    figure = times_figure(made_collectives(), xlabel="message (bytes)", ylabel="time")
    series = checked(figure)
    assert [one["label"] for one in series] == ["point to point", "all-reduce", "ring all-reduce"]
    assert series[0]["x"] == [*map(float, SIZES[::2]), float(SIZES[-1])]
    shared = checked(times_figure(made_collectives(oversubscribed=True), xlabel="message (bytes)", ylabel="time"))
    assert shared[1]["label"] == "all-reduce, ranks share cores"
    dashed = [line for line in figure.axes[0].lines if line.get_linewidth() == 1.2 and np.size(line.get_xdata()) == 60]
    sizes, microseconds = (np.asarray(values) for values in dashed[0].get_data())
    np.testing.assert_allclose(microseconds, (ALPHA + BETA * sizes) * 1e6, rtol=0.03)


def overlapped(scale: int = 1) -> Timeline:
    """Both ranks begin a call and compute on; rank 0 waits for it while rank 1 computes; both update."""
    first, second = Made(0, 32 * MS * scale), Made(1, 32 * MS * scale)
    for made, begun, computed in ((first, 5, 12), (second, 15, 20)):
        made.op("linear", 0, 5 * MS * scale)
        made.op("linear", 5 * MS * scale, begun * MS * scale, "backward")
        made.say("begin_all_reduce", begun * MS * scale, (begun + 1) * MS * scale, 1, 1)
        made.op("linear", (begun + 1) * MS * scale, computed * MS * scale, "backward")
        made.say("wait", computed * MS * scale, 24 * MS * scale, 1, 1)
    timeline = made_timeline([first, second])
    for track in timeline.tracks:
        update = Span("Update", Update.__name__, 0, 25 * MS * scale, 30 * MS * scale)
        object.__setattr__(track.profile, "spans", (update,))
    return timeline


def drawn(*ways: Timeline) -> Figure:
    named = {f"way {at}": [timeline] for at, timeline in enumerate(ways)}
    figure = timeline_figure(named, {phase: f"{phase} at work" for phase in PHASES}, xlabel="time (ms)")
    checked(figure)
    FigureCanvasAgg(figure).draw()  # type: ignore[no-untyped-call]
    return figure


def bars(figure: Figure, panel: int) -> dict[tuple[int, str], list[tuple[float, float]]]:
    """Return where bars stand in ms, by rank and variant."""
    names = {look.color: name for name, look in VARIANTS.items() if name in PHASES}
    found: dict[tuple[int, str], list[tuple[float, float]]] = {}
    for collection in figure.axes[panel].collections:
        assert isinstance(collection, PolyCollection)
        for path in collection.get_paths():
            (x0, y0), (x1, _) = np.asarray(path.vertices).min(axis=0), np.asarray(path.vertices).max(axis=0)
            key = int(y0), names[to_hex(tuple(np.asarray(collection.get_facecolor())[0]))]
            found.setdefault(key, []).append((round(float(x0), 2), round(float(x1), 2)))
    return found


def test_each_row_of_a_timeline_stands_where_it_was() -> None:
    figure = drawn(overlapped(), overlapped(2))
    assert bars(figure, 0) == {
        (0, "forward"): [(0, 5), (25, 30)],
        (0, "backward"): [(6, 12)],
        (0, "waiting"): [(12, 15), (16, 20)],
        (0, "moving"): [(5, 6), (15, 16), (20, 24), (6, 24)],
        (1, "forward"): [(0, 5), (25, 30)],
        (1, "backward"): [(5, 15), (16, 20)],
        (1, "moving"): [(15, 16), (20, 24), (16, 24)],
    }
    assert [text.get_text() for text in figure.axes[0].texts] == ["rank 0", "rank 1", "way 0"]
    assert bars(figure, 1)[0, "waiting"][0] == (24, 30), "both panels have one axis"
    assert figure.axes[0].get_xlim() == figure.axes[1].get_xlim() == (5, 64), "from the backward pass on"


def test_small_calls_are_not_drawn_in_flight() -> None:
    small = [Made(rank, 10 * MS) for rank in range(2)]
    for made in small:
        made.say("begin_all_reduce", 0, MS, 1, 1, size=8)
        made.say("wait", 5 * MS, 6 * MS, 1, 1, size=8)
    assert {kind for _, kind in bars(drawn(made_timeline(small)), 0)} == {"moving"}
