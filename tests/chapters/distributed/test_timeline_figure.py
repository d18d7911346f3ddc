"""The figure of timelines: every row stands where the made-up timeline says, and the words and table say the same."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text

from tests.perf.distributed.recording.made_tracks import Made, made_timeline
from tinytorch.chapters.distributed.step_recording import Update
from tinytorch.chapters.distributed.timeline_figure import timeline_figure, timeline_words
from tinytorch.perf.distributed.recording.timeline import Timeline
from tinytorch.perf.events.stream import Span
from tinytorch.report.colors import VARIANTS
from tinytorch.report.figures import check_figure, settle

MS = 10**6


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


@pytest.fixture(scope="module")
def figure() -> Figure:
    made = timeline_figure({"sent while backward runs": overlapped(), "sent twice as slowly": overlapped(2)})
    settle(made)
    FigureCanvasAgg(made).draw()  # type: ignore[no-untyped-call]
    return made


def bars(figure: Figure, panel: int) -> dict[tuple[int, str], list[tuple[float, float]]]:
    """Return where bars stand in ms, by rank and variant."""
    names = {look.color: name for name, look in VARIANTS.items() if name in PHASES}
    found: dict[tuple[int, str], list[tuple[float, float]]] = {}
    for drawn in figure.axes[panel].collections:
        assert isinstance(drawn, PolyCollection)
        for path in drawn.get_paths():
            (x0, y0), (x1, _) = np.asarray(path.vertices).min(axis=0), np.asarray(path.vertices).max(axis=0)
            key = int(y0), names[to_hex(tuple(np.asarray(drawn.get_facecolor())[0]))]
            found.setdefault(key, []).append((round(float(x0), 2), round(float(x1), 2)))
    return found


PHASES = ("forward", "backward", "update", "waiting", "unserved", "moving", "in-flight")


def test_each_row_stands_where_it_was(figure: Figure) -> None:
    shown = bars(figure, 0)
    assert shown == {
        (0, "forward"): [(0, 5)],
        (0, "backward"): [(6, 12)],
        (0, "update"): [(25, 30)],
        (0, "waiting"): [(12, 15)],
        (0, "unserved"): [(16, 20)],
        (0, "moving"): [(5, 6), (15, 16), (20, 24)],
        (0, "in-flight"): [(6, 24)],
        (1, "forward"): [(0, 5)],
        (1, "backward"): [(5, 15), (16, 20)],
        (1, "update"): [(25, 30)],
        (1, "moving"): [(15, 16), (20, 24)],
        (1, "in-flight"): [(16, 24)],
    }
    twice = bars(figure, 1)
    assert twice[0, "waiting"] == [(24, 30)], "both panels have one axis"
    assert figure.axes[0].get_xlim() == figure.axes[1].get_xlim() == (0, 64)


def test_it_passes_the_check_of_every_figure_and_can_be_read(figure: Figure) -> None:
    check_figure(figure, caption="Two steps.", alt=timeline_words(overlapped()), key="timeline")
    (legend,) = figure.legends
    texts: list[Text] = [*figure.axes[0].texts, *figure.axes[1].texts, *legend.get_texts()]
    assert len(legend.get_texts()) == len(PHASES)
    assert [text.get_text() for text in figure.axes[0].texts] == ["rank 0", "rank 1", "sent while backward runs"]
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts]
    width, height = figure.canvas.get_width_height()
    for (one, box), (other, second) in itertools.combinations(boxes, 2):
        assert not box.overlaps(second), f"{one!r} and {other!r} overlap"
    for name, box in boxes:
        assert box.x0 >= 0, name
        assert box.y0 >= 0, name
        assert box.x1 <= width, name
        assert box.y1 <= height, name


def test_small_calls_are_not_drawn_in_flight() -> None:
    small = [Made(rank, 10 * MS) for rank in range(2)]
    for made in small:
        made.say("begin_all_reduce", 0, MS, 1, 1, size=8)
        made.say("wait", 5 * MS, 6 * MS, 1, 1, size=8)
    assert {kind for _, kind in bars(timeline_figure({"": made_timeline(small)}), 0)} == {"moving"}


def test_words_say_what_is_drawn() -> None:
    assert timeline_words(overlapped()) == (
        "2 ranks over 32 ms. Rank 0 computes for 34% of its time, waits in calls for 9%, moves data in calls for 31%, "
        "and a call is in flight while it computes for 19%. Rank 1 computes for 59% of its time, waits in calls for "
        "0%, moves data in calls for 16%, and a call is in flight while it computes for 12%."
    )


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(ValueError, match="timelines must be at least one, all of as many ranks, not of none"):
        timeline_figure({})
    with pytest.raises(ValueError, match=r"not of \[1, 2\]"):
        timeline_figure({"a": overlapped(), "b": made_timeline([Made(0, 5)])})
