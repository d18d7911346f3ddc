"""Drawings of the page on several ranks: the ring, overlap, sharding, a layer that is cut, and a pipeline."""

from __future__ import annotations

from tinytorch.report import Page
from tinytorch.report.drawings import WIDTH, Drawing
from tinytorch.report.notebook_view import Shown


def sums_in_parts(ranks: int) -> tuple[list[list[int]], list[list[int]], list[list[int]]]:
    """Return how many ranks' values are in each part of each rank: at the start, after adding, and after copying.

    The steps are those of `collectives.timing.ring_all_reduce`.
    """
    held = [[1] * ranks for _ in range(ranks)]
    start = [list(parts) for parts in held]
    for step in range(ranks - 1):
        sent = [held[rank][(rank - step) % ranks] for rank in range(ranks)]
        for rank in range(ranks):
            held[rank][(rank - step - 1) % ranks] += sent[rank - 1]
    added = [list(parts) for parts in held]
    for step in range(ranks - 1):
        sent = [held[rank][(rank - step + 1) % ranks] for rank in range(ranks)]
        for rank in range(ranks):
            held[rank][(rank - step) % ranks] = sent[rank - 1]
    return start, added, held


def ring_drawing(ranks: int) -> Drawing:
    """Return ranks in a ring, and below each its array in as many parts: at the start and after each phase."""
    left, wide, high, gap = 110.0, 66.0, 22.0, 26.0
    centres = [left + (WIDTH - left) * (rank + 0.5) / ranks for rank in range(ranks)]
    stack = ranks * high
    drawing = Drawing(100 + 3 * stack + 2 * gap)
    drawing.text(0, 49, "ranks", anchor="start")
    for rank, x in enumerate(centres):
        drawing.circle(x, 44, 19, str(rank))
        if rank + 1 < ranks:
            drawing.line((x + 21, 44), (centres[rank + 1] - 21, 44), arrow=True)
    first, last = centres[0], centres[-1]
    drawing.line((last, 23), (last, 8), (first, 8), (first, 23), arrow=True)
    words = ("before", f"added in\n{ranks - 1} steps", f"copied in\n{ranks - 1} more")
    for row, (held, said) in enumerate(zip(sums_in_parts(ranks), words, strict=True)):
        top = 88 + row * (stack + gap)
        drawing.text(0, top + stack / 2 - 4, said, anchor="start")
        for parts, x in zip(held, centres, strict=True):
            for part, summed in enumerate(parts):
                colour = "all-reduce" if summed == ranks else None
                drawing.box(x - wide / 2, top + part * high, wide, high, str(summed), color=colour)
    return drawing


def show_ring(page: Page, ranks: int = 4) -> Shown:
    """Show the ring."""
    return page.drawing(
        "ring-phases",
        ring_drawing(ranks),
        caption="A ring all-reduce. Below each rank lies its array, cut into as many parts as there are ranks; the "
        "number says how many ranks' values a part sums. Tinted parts are whole sums.",
        alt=f"{ranks} ranks in a ring, each with an arrow to the next. First every part holds one rank's values. After "
        f"{ranks - 1} steps of adding each rank has one part, another on each, that sums all {ranks}. After "
        f"{ranks - 1} steps of copying every part of every rank does.",
    )


#: Widths of the parts of a step in the drawing of overlap: forward, a third of the backward, a bucket's sum, update.
_FORWARD, _THIRD, _BUCKET, _UPDATE = 76.0, 46.0, 38.0, 66.0


def overlap_drawing() -> Drawing:
    """Return a step whose three buckets are summed after the backward, and one whose buckets are summed meanwhile."""
    left, high, gap, panel = 62.0, 30.0, 20.0, 142.0
    drawing = Drawing(panel + 26 + 2 * high + gap + 4)
    ends = []
    for top, said, overlaps in ((0.0, "sent afterwards", False), (panel, "sent as each is ready", True)):
        drawing.text(left, top + 16, said, anchor="start", bold=True)
        core, link = top + 26, top + 26 + high + gap
        drawing.text(0, core + 20, "core", anchor="start")
        drawing.text(0, link + 20, "link", anchor="start")
        drawing.box(left, core, _FORWARD, high, "forward", color="forward")
        ready = [left + _FORWARD + third * _THIRD for third in (1, 2, 3)]
        drawing.box(left + _FORWARD, core, 3 * _THIRD, high, "backward", color="backward")
        at = ready[0] if overlaps else ready[-1]
        for moment in ready:
            at = max(at, moment)
            if overlaps:
                drawing.line((moment, core + high), (moment, link), arrow=True)
            drawing.box(at, link, _BUCKET, high, "sum", color="moving")
            at += _BUCKET
        drawing.box(at, core, _UPDATE, high, "update", color="update")
        ends.append(at + _UPDATE)
    bottom = panel + 26 + high + 4
    drawing.line((ends[0], 26 + high), (ends[0], bottom), dashed=True)
    drawing.brace((ends[1], bottom), (ends[0], bottom), "saved")
    return drawing


def show_overlap(page: Page) -> Shown:
    """Show a step with and without overlap."""
    return page.drawing(
        "overlap-drawn",
        overlap_drawing(),
        caption="One rank's step. A bucket of gradients can be summed as soon as the backward pass has left its "
        "layers. What remains of the sums after the backward pass is exposed.",
        alt="Two timelines with a lane for the core and one for the link. Above, three sums follow the backward pass, "
        "and the update waits for them. Below, each sum begins when a third of the backward pass is over; only the "
        "last one ends after it, and the update comes earlier.",
    )


#: Bytes of a parameter, its gradient and its optimizer state in mixed precision, with colour and name.
_KEPT = ((2, "parameters", "parameters"), (2, "gradients", "gradients"), (12, "optimizer-state", "optimizer state"))


def sharding_drawing(ranks: int) -> Drawing:
    """Return what one of ``ranks`` keeps of a parameter at each stage of sharding, as bars of bytes."""
    left, byte, high = 108.0, 20.5, 30.0
    drawing = Drawing(208)
    x = left
    for _, colour, name in _KEPT:
        drawing.text(x, 16, name, anchor="start", color=colour)
        x += {"parameters": 104.0, "gradients": 92.0}.get(colour, 0.0)
    words = ("on each, all", "state cut", "gradients cut", "all cut")
    for stage, said in enumerate(words):
        top, x, total = 36.0 + stage * 43, left, 0.0
        drawing.text(0, top + 20, said, anchor="start")
        for kind, (size, colour, _) in enumerate(_KEPT):
            kept = size / ranks if kind >= 3 - stage else size
            drawing.box(x, top, kept * byte, high, color=colour)
            x, total = x + kept * byte, total + kept
        drawing.text(x + 6, top + 20, f"{total:g}", anchor="start")
    return drawing


def show_sharding(page: Page, ranks: int = 4) -> Shown:
    """Show the stages of sharding."""
    return page.drawing(
        "sharding-drawn",
        sharding_drawing(ranks),
        caption=f"Bytes that one of {ranks} ranks keeps for each parameter in mixed precision, and their sum. Each "
        "stage cuts one more kind into as many parts as there are ranks.",
        alt="Four bars of bytes, each in a part for parameters, gradients and optimizer state. The state, by far the "
        "largest part, is cut first, then the gradients, then the parameters.",
    )


def tensor_drawing() -> Drawing:
    """Return two products of a layer on two ranks: the first matrix is cut into columns, the second into rows."""
    drawing = Drawing(236)
    colours = ("forward", "backward")
    for rank, colour in enumerate(colours):
        drawing.text(384, 30 + 20 * rank, f"rank {rank}", anchor="start", color=colour)
    drawing.box(10, 12, 62, 70, "X")
    drawing.text(92, 52, "×")
    for rank, colour in enumerate(colours):
        drawing.box(112 + 46 * rank, 12, 46, 88, f"A{rank}", color=colour)
        drawing.box(248 + 46 * rank, 12, 46, 70, f"Y{rank}", color=colour)
        drawing.box(10 + 46 * rank, 134, 46, 70, f"Y{rank}", color=colour)
        drawing.box(142, 126 + 44 * rank, 62, 44, f"B{rank}", color=colour)
        drawing.box(248 + 100 * rank, 134, 62, 70, f"Z{rank}", color=colour)
    drawing.text(226, 52, "=")
    drawing.text(122, 174, "×")
    drawing.text(226, 174, "=")
    drawing.text(329, 174, "+")
    drawing.brace((248, 206), (410, 206), "one all-reduce")
    return drawing


def show_tensor(page: Page) -> Shown:
    """Show how two ranks share the two products of a layer."""
    return page.drawing(
        "tensor-drawn",
        tensor_drawing(),
        caption="The two products of a feed-forward block on two ranks. Columns of the first matrix and the same rows "
        "of the second lie on one rank, so that only the result has to be summed.",
        alt="X times a matrix A that is cut into two columns gives Y in two columns, one on each rank. Y times a "
        "matrix B that is cut into two rows gives two summands, one on each rank, which one all-reduce adds up.",
    )


def turns_of(stages: int, micro: int) -> list[list[tuple[str, int] | None]]:
    """Return for each stage what it does in each turn: a phase and a micro-batch, or None where it waits."""
    half = micro + stages - 1
    found: list[list[tuple[str, int] | None]] = [[None] * (2 * half) for _ in range(stages)]
    for stage in range(stages):
        for batch in range(micro):
            found[stage][stage + batch] = ("forward", batch)
            found[stage][half + stages - 1 - stage + batch] = ("backward", batch)
    return found


def pipeline_drawing(stages: int, micro: int) -> Drawing:
    """Return the turns of a pipeline: all forwards, then all backwards, with the turns in which a stage waits."""
    left, high = 66.0, 28.0
    turns = turns_of(stages, micro)
    wide = (WIDTH - left - 2) / len(turns[0])
    drawing = Drawing(34 + stages * high + 44)
    half = len(turns[0]) // 2 * wide
    for at, phase in ((left, "forward"), (left + half, "backward")):
        drawing.text(at + half / 2, 18, phase, color=phase)
    for stage, row in enumerate(turns):
        top = 30 + stage * high
        drawing.text(0, top + 19, f"stage {stage}", anchor="start")
        for turn, doing in enumerate(row):
            if doing is not None:
                phase, batch = doing
                drawing.box(left + turn * wide, top, wide, high, str(batch + 1), color=phase)
    bottom = 30 + stages * high + 4
    drawing.brace((left, bottom), (left + micro * wide, bottom), f"{micro} turns of work")
    drawing.brace((left + micro * wide, bottom), (left + half, bottom), f"{stages - 1} wait")
    return drawing


def show_pipeline(page: Page, stages: int = 4, micro: int = 8) -> Shown:
    """Show the bubble of a pipeline."""
    return page.drawing(
        "pipeline-drawn",
        pipeline_drawing(stages, micro),
        caption=f"A pipeline of {stages} stages and {micro} micro-batches, which the numbers name. A turn is the time "
        "of one micro-batch in one stage. The empty turns are the bubble.",
        alt=f"{stages} rows of turns. Each stage begins its {micro} forward turns one turn after the stage before it, "
        f"and its backward turns one turn after the stage behind it, so that in each half it waits {stages - 1} turns.",
    )
