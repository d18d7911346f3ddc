"""Records of the page on several ranks: what it shows and claims of messages, steps, scaling, memory and lost ranks.

What it says of larger machines is in `model_records`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tinytorch.chapters.distributed.fault_study import FATAL_STEP, Lost
from tinytorch.chapters.distributed.figures import collective_figure, link_table, scaling_figure
from tinytorch.chapters.distributed.scaling_laws import amdahl_speedup, gustafson_speedup
from tinytorch.chapters.distributed.step_recording import shares_over, typical
from tinytorch.chapters.distributed.step_times import Overlap, Scaling, ShardedMemory
from tinytorch.chapters.distributed.timeline_figure import shares_table, timeline_figure, timeline_words
from tinytorch.perf.distributed.cluster_model.collective_costs import GivenLink
from tinytorch.perf.distributed.collectives.measured import Collectives, measure_collectives
from tinytorch.perf.distributed.collectives.timing import Kind
from tinytorch.perf.distributed.ranks.measuring import Withheld
from tinytorch.perf.distributed.ranks.watch import within
from tinytorch.perf.distributed.recording.stragglers import Straggler
from tinytorch.perf.distributed.recording.timeline import Timeline
from tinytorch.perf.host.pinned_threads import may_pin
from tinytorch.perf.machine import ceilings, identity
from tinytorch.perf.measuring import Measurement, Statistic, quotient
from tinytorch.perf.measuring.comparison import Comparison
from tinytorch.perf.measuring.judge import CANNOT_TELL
from tinytorch.report import Column, Page, format_number, verdict_between, verdict_between_all

ONE_CORE = (
    "the process that built this page could use one core only, so that ranks shared it: build it where there are two"
)
FEW_CORES = "two different numbers of ranks, each with cores of their own, take four cores at least"
NO_SHARE = "what is lost here is no share of a step: by the law it lies outside of 0 to 1"
NO_STRAGGLER = "in this build no rank waited longer for another than the clocks can be wrong by"
#: Kinds of messages that the page shows.
_KINDS: tuple[Kind, ...] = ("point to point", "all-reduce", "ring all-reduce")
_LI = "After S. Li et al., PyTorch Distributed, VLDB 2020"
_LI_ADDRESS = "https://arxiv.org/abs/2006.15704"
_BAIDU = "http://research.baidu.com/bringing-hpc-techniques-deep-learning/"
#: Batches of strong scaling, by the words of their keys.
_SIZES = ("small", "middle", "large")


def ranks_here() -> tuple[int, bool, int]:
    """Return the usable cores, whether there is one only, and the ranks of the page's programs.

    More ranks than four would not fit into the memory of a small server.
    """
    cores = identity().cores_usable
    return cores, cores < 2, min(4, max(2, cores))


def record_machine(page: Page, cores: int, ranks: int, seconds: Measurement, state_bytes: float) -> None:
    """Record what the page ran on, and how far that is from the training of GPT-3.

    Args:
        seconds: of that training at the peak of all cores. state_bytes: of its state in float32.
    """
    alone, memory = cores < 2, identity().memory_bytes
    page.number(
        "ranks", ranks, unit="ranks", what="ranks that the programs of this page ran on, if nothing else is said"
    )
    what = "cores that the process that built this page could use"
    page.number("cores", cores, unit="core" if alone else "cores", what=what)
    if alone:
        placing = "sharing one core, so that their times say nothing about scaling"
    else:
        placing = "each pinned to a core of its own" if may_pin() else "none kept on a core of its own"
    page.word("placing", placing, because="there were {ranks} on {cores}")
    what = (
        "6 operations for each of 175 billion parameters and 300 billion tokens, at the peak of one core times the "
        "cores"
    )
    page.number("years-alone", seconds.scaled(1 / (365.25 * 86400), "years", what), modelled=True)
    what = "four float32 numbers for each of 175 billion parameters"
    page.number("gpt3-state", state_bytes, unit="B", what=what, modelled=True)
    page.number("memory", memory, unit="B", what="memory of this machine, as the system reports it")
    what = "bytes of that training's state over this machine's memory"
    page.number("memories", state_bytes / memory, unit="", what=what, modelled=True)


def record_collectives(page: Page, talk: Collectives) -> None:
    """Show messages, all-reduces and the ring over sizes, with the lines fitted to them where ranks had cores."""
    small, large = talk.sizes[0], talk.sizes[-1]
    fitted = {} if talk.oversubscribed else {kind: talk.links(kind) for kind in _KINDS}
    ends = (
        f"{kind.capitalize()}: from {format_number(talk.of(kind)[small].median, 's')} to "
        f"{format_number(talk.of(kind)[large].median, 's')}."
        for kind in _KINDS
    )
    page.figure(
        "collectives",
        collective_figure(talk, _KINDS, fitted=fitted),
        caption="The time of a message, of the MPI library's all-reduce and of the ring of the next section, by size: "
        "medians with their intervals"
        + (", dashed the lines that were fitted." if fitted else "; ranks shared a core, so that no line is fitted."),
        alt=f"Three lines of time over message size from {format_number(small, 'B')} to {format_number(large, 'B')}, "
        f"on logarithmic axes. {' '.join(ends)}",
    )
    if talk.oversubscribed:
        page.absent("links", reason=ONE_CORE, instead_of="table")
    else:
        caption = (
            "The lines alpha + beta × bytes that were fitted to them, each for a range of sizes, with the distance of "
            "the farthest measured median from its line."
        )
        link_table(page, "links", [link for kind in _KINDS for link in fitted[kind]], caption=caption)
    page.number("all-reduce-small", talk.of("all-reduce")[small])
    page.number("all-reduce-large", talk.of("all-reduce")[large])
    each = ceilings(threads=1).fp32_peak.per(1.0, "s", "an operation at the peak of one core")
    what = "time of the smallest all-reduce times the peak of one core"
    page.number("wait-flops", quotient(talk.of("all-reduce")[small], each, what, "FLOP"))
    _compare(page, "ring-small", talk.compare("ring all-reduce", "all-reduce", small))
    _compare(page, "ring-large", talk.compare("ring all-reduce", "all-reduce", large))


def _compare(page: Page, key: str, found: Comparison | Withheld) -> bool:
    """Record a comparison of times on ranks, or that it is withheld; return whether it is one."""
    if isinstance(found, Withheld):
        page.absent(key, f"{key}-verdict", reason=ONE_CORE)
        return False
    page.compare(key, found)
    return True


def ring_on_two(cores: int, talk: Collectives) -> Measurement | None:
    """Return the time of the largest ring on two ranks; None where ``talk`` had no more of them with cores."""
    if cores < 4:
        return None
    pair = measure_collectives(2, [talk.sizes[-1]], kinds=["ring all-reduce"])
    return pair.of("ring all-reduce")[pair.sizes[-1]]


def record_ring(
    page: Page,
    talk: Collectives,
    two: Measurement | None,
    between: GivenLink,
    sizes: tuple[int, int],
    grown: Mapping[int, tuple[float, float]],
) -> None:
    """Show what a ring costs by its formula, and claim what was measured of it.

    Args:
        two: what `ring_on_two` returned. between: the link that is assumed.
        sizes: bytes of a small and of a large array. grown: modelled seconds of both, by number of ranks.
    """
    assumed = f"{format_number(between.alpha_s, 's')} and {format_number(1 / between.beta_s_per_byte, 'B/s')}"
    page.table(
        "ring-cost",
        [{"ranks": p, "sent": 2 * (p - 1) / p, "small": costs[0], "large": costs[1]} for p, costs in grown.items()],
        [
            Column("ranks", "Ranks", "1"),
            Column("sent", "Sent by each, of the array", "", modelled=True),
            Column("small", f"{format_number(sizes[0], 'B')}", "s", modelled=True),
            Column("large", f"{format_number(sizes[1], 'B')}", "s", modelled=True),
        ],
        caption=f"The ring's cost by its formula, for links of {assumed} that we assume: modelled, nothing ran on so "
        "many ranks.",
    )
    for at, name in enumerate(("small", "large")):
        what = f"modelled ring of 4,096 ranks over one of two, the {name} array"
        page.number(f"ring-growth-{name}", grown[4096][at] / grown[2][at], unit="", what=what, modelled=True)
    whole = talk.of("ring all-reduce")[talk.sizes[-1]]
    page.number("ring-measured", whole)
    if two is None:
        page.absent("ring-growth", reason=FEW_CORES)
        page.absent("ring-independent", reason=f"whether a ring's cost depends on the number of ranks, as {FEW_CORES}")
        return
    grows = quotient(whole, two, "ring on all ranks over one on two, largest message")
    page.number("ring-growth", grows)
    page.claim(
        "ring-independent",
        statement="The cost of a ring all-reduce does not depend on the number of ranks.",
        source="A. Gibiansky, Bringing HPC Techniques to Deep Learning, 2017",
        source_url=_BAIDU,
        verdict=verdict_between(grows, high=1.1),
        evidence="On this machine the ring ran on {ranks} and took {ring-measured} for its largest message. That is "
        "{ring-growth} what it took on two. The formula, which is a model and no measurement, gives "
        "{ring-growth-large} from two to 4,096 ranks for the large array of the table, and {ring-growth-small} for the "
        "small one.",
    )


def record_timelines(page: Page, ways: Mapping[str, Sequence[Timeline]]) -> None:
    """Show a typical step of each way on one time axis, and the shares of all of them."""
    shown = {way: typical(each) for way, each in ways.items()}
    words = " ".join(f"Gradients sent {way}: {timeline_words(each)}" for way, each in shown.items())
    page.figure(
        "timeline",
        timeline_figure(shown),
        caption="One training step of the GPT on all ranks of this page, of middle length among several: gradients "
        "sent while the backward pass runs (overlapped), and after it (afterwards).",
        alt=f"A lane for each rank in two panels. {words}",
    )
    shares_table(
        page,
        "shares",
        {way: shares_over(each) for way, each in ways.items()},
        caption="Where the ranks' time goes in such steps, as shares of it: medians of several steps with their "
        "intervals.",
    )
    what = "how wrong the distance of two events of different ranks can be, in the recorded step"
    page.number("clock-error", shown["overlapped"].error_seconds, unit="s", what=what)


def record_straggler(page: Page, waits: Sequence[Straggler], late: int) -> None:
    """Record for whom the others waited where rank ``late`` was given more work."""
    page.number("late-rank", late, unit="1", what="the rank that was given more work")
    if not waits:
        keys = ("found-rank", "found-it", "straggler-cost", "straggler-share", "straggler-op")
        page.absent(*keys, reason=NO_STRAGGLER)
        return
    found = waits[0]
    page.number("found-rank", found.rank, unit="1", what="the rank for which the others waited longest")
    because = "the work was given to rank {late-rank}, and the others waited longest for rank {found-rank}"
    page.word("found-it", "the burdened one" if found.rank == late else "another one", because=because)
    what = "time that the other ranks stood still for it in one step"
    page.number("straggler-cost", found.cost_seconds, unit="s", what=what)
    page.number("straggler-share", found.share, unit="%", what="share of the other ranks' time")
    because = "of all operations it spent most more time on this than the others did, who waited {straggler-cost}"
    page.word("straggler-op", str(found.most_excess or "nothing"), because=because)


def record_overlap(page: Page, both: Overlap) -> None:
    """Record steps that send during the backward, after it and not at all, and the claim that sending can be hidden."""
    page.number("step-alone", both.alone)
    page.number("step-apart", both.apart)
    page.number("step-overlapped", both.overlapped)
    page.number("join-cost", both.cost())
    hidden = both.hidden()
    if isinstance(hidden, Withheld):
        page.absent("hidden-share", reason=hidden.because)
        verdict, found = CANNOT_TELL, f"How much of what {{ranks}} cost overlap hides cannot be told: {hidden.because}."
    else:
        page.number("hidden-share", hidden)
        verdict = verdict_between(hidden, low=0.5)
        found = "Joining {ranks} added {join-cost} to a step of the GPT. Overlap took away {hidden-share} of it."
    if not _compare(page, "overlap-gain", both.compare()):
        reason = f"whether communication can be hidden behind the backward pass, as {ONE_CORE}"
        page.absent("hidden-communication", reason=reason)
        return
    page.claim(
        "hidden-communication",
        statement="The communication of gradients can be hidden behind the backward pass.",
        source=f"{_LI}, whose gradients are summed while the backward pass computes",
        source_url=_LI_ADDRESS,
        verdict=verdict,
        evidence=f"{found} Steps took {{step-overlapped}} with it and {{step-apart}} without. Half of the cost hidden "
        "would support it. There is no second processor here that moves data while a core computes.",
    )


def record_scaling(page: Page, strong: Mapping[int, Scaling], weak: Scaling) -> None:
    """Show strong scaling of three batches and weak scaling of one, the laws' shares, and the claim on two workers."""
    if not weak.judged:
        page.absent("scaling", reason=ONE_CORE, instead_of="table")
        page.absent("scaling-laws", reason=ONE_CORE, instead_of="figure")
        words = (f"{way}-{what}" for way in (*_SIZES, "weak") for what in ("efficiency", "word"))
        page.absent("two-speedup", *words, "strong-serial", "weak-serial", reason=ONE_CORE)
        page.absent("double-workers", reason=f"whether twice the workers halve the time of a step, as {ONE_CORE}")
        return
    named = dict(zip(_SIZES, strong.values(), strict=True))
    rows = [row for number, each in strong.items() for row in _scaling_rows(page, f"{number} in all", each)]
    page.table(
        "scaling",
        [*rows, *_scaling_rows(page, f"{weak.batch} each", weak)],
        [
            Column("way", "Examples"),
            Column("one", "One rank"),
            Column("step", "All"),
            Column("speedup", "Speedup"),
            Column("word", "Verdict"),
            Column("faults", "Pages, one", "1"),
            Column("own", "Pages, each", "1"),
        ],
        caption="Steps of the GPT on one rank and on more, "
        f"{'each on a core of its own, ' if may_pin() else ''}in turns. The speedup of weak scaling counts the work "
        "that was done. Pages are of memory, fetched from the system in a step by one rank alone and by each of all.",
    )
    page.figure(
        "scaling-laws",
        scaling_figure([named["large"], weak]),
        caption="Speedups of strong scaling with the largest batch and of weak scaling: measured as far as the cores "
        "go, dashed what Amdahl's and Gustafson's laws make of it.",
        alt="Speedup over the number of ranks on logarithmic axes: measured points with intervals, dashed lines of the "
        "two laws beyond them, and a thin line for a rank's work from each rank.",
    )
    page.number("two-speedup", _of(named["middle"].speedup(2)))
    for key, found in {**named, "weak": weak}.items():
        most = found.judged[-1]
        verdict = found.verdict(most)
        page.number(f"{key}-efficiency", _of(found.efficiency(most)))
        because = f"of its efficiency, {{{key}-efficiency}}: {verdict.because}"
        page.word(f"{key}-word", str(verdict.word), because=because)
    for key, found in (("strong-serial", named["large"]), ("weak-serial", weak)):
        law = found.law()
        assert law is not None, "as there are judged numbers of ranks"
        if law.applies:
            page.number(key, law.share)
        else:
            page.absent(key, reason=NO_SHARE)
    for name, each in named.items():
        page.number(f"pair-{name}", _of(each.speedup(2)))
    page.claim(
        "double-workers",
        statement="Doubling the workers halves the time of a training step.",
        source=f"{_LI}, whose data-parallel training scales nearly linearly when it is configured well",
        source_url=_LI_ADDRESS,
        verdict=_all_reach(named.values(), 1.9),
        evidence="From one rank to two a step of the GPT became {pair-small} as fast with the smallest batch and "
        "{pair-middle} with the middle one. With the largest it became {pair-large}. 1.9 or more with all three would "
        "support it.",
    )


def _all_reach(scalings: Collection[Scaling], speedup: float) -> str:
    """Return the verdict on whether two ranks are so many times as fast as one in all of ``scalings``."""
    if any(each.disturbed(2) for each in scalings):
        return CANNOT_TELL
    return verdict_between_all([_of(each.speedup(2)) for each in scalings], low=speedup)


def _of(found: Statistic | None) -> Statistic:
    assert found is not None, "a number of ranks with a core each has a speedup"
    return found


def _scaling_rows(page: Page, name: str, found: Scaling) -> list[dict[str, object]]:
    def pages(times: Measurement) -> float:
        return float(round(times.how["minor_page_faults_per_call"]))

    one = found.times[1]
    return [
        {
            "way": f"{name}, {count} ranks",
            "one": one,
            "step": found.times[count],
            "speedup": found.speedup(count),
            "word": page.told(str(found.verdict(count).word), _of(found.speedup(count))),
            "faults": pages(one),
            "own": pages(found.times[count]),
        }
        for count in found.judged
    ]


def record_memory(page: Page, memories: ShardedMemory) -> None:
    """Show what a rank keeps when all keep all, and when the optimizer's state is shared out."""
    kinds = ("parameters", "gradients", "optimizer_state", "kept")
    ways = {"all keep all": memories.replicated, "state shared out": memories.sharded}
    page.table(
        "sharded",
        [
            {"way": way, **{kind: max(getattr(each, kind) for each in found) for kind in kinds}}
            for way, found in ways.items()
        ],
        [
            Column("way", "Way"),
            Column("parameters", "Parameters", "B"),
            Column("gradients", "Gradients", "B"),
            Column("optimizer_state", "AdamW state", "B"),
            Column("kept", "Together", "B"),
        ],
        caption="What one of four ranks keeps of the GPT between two steps: bytes of its arrays, the rank with most. "
        "Bytes do not depend on whether ranks have cores of their own.",
    )
    state, whole = max(each.optimizer_state for each in memories.sharded), memories.replicated[0]
    what = "optimizer state on the fullest of four ranks, shared out"
    page.number("sharded-state", state, unit="B", what=what)
    page.number("whole-state", whole.optimizer_state, unit="B", what="optimizer state on each rank, not shared out")
    what = "bytes kept by a rank with the state shared out over those without"
    page.number("sharded-ratio", max(each.kept for each in memories.sharded) / whole.kept, unit="%", what=what)


def record_lost_rank(page: Page, lost: Lost, apart: float, hung: Lost, allowed: float) -> None:
    """Record how soon a run ended whose rank died or hung, and whether the restarted training ended the same.

    Args:
        apart: difference of the weights, relative to the largest.
        hung: where a rank may keep others waiting for ``allowed`` seconds.
    """
    page.number("fatal-step", FATAL_STEP, unit="steps", what="steps done when the rank was killed")
    page.number("kept-steps", lost.steps_kept, unit="steps", what="steps in the last checkpoint")
    page.number("end-seconds", lost.seconds, unit="s", what="from the death of the rank to the end of the run")
    what = (
        "largest difference of a weight between the restarted and the uninterrupted training, relative to the largest "
        "weight; float64"
    )
    page.number("restart-difference", apart, unit="1", what=what)
    because = "the largest difference of a weight is {restart-difference} of the largest weight"
    page.word("same-weights", "the same to rounding" if apart < 1e-9 else "different", because=because)
    what = (
        "from the moment a rank stops answering to the end of the run, where it may keep others waiting for "
        f"{allowed:g} seconds"
    )
    page.number("hang-seconds", hung.seconds, unit="s", what=what)
    what = f"time within which `watched` ends a run if a rank may keep others waiting for {allowed:g} seconds"
    page.number("hang-promise", within(allowed), unit="s", what=what, modelled=True)


def record_answers(page: Page, between: GivenLink, parameters: float) -> None:
    """Record the numbers in the answers to the questions; all of them are modelled.

    Args:
        between: the link of the ring's table. parameters: of GPT-3.
    """
    answers = {
        "q-wait": (
            between.alpha_s / between.beta_s_per_byte,
            "B",
            "latency times bandwidth of the link that the table of the ring assumes",
        ),
        "q-straggler": (
            63 * 0.1,
            "",
            "time that 63 ranks wait over that of one rank's step, if the last takes a tenth longer",
        ),
        "q-left-out": (1 / 63, "%", "work of one rank in 64, shared out to the 63 others"),
        "q-amdahl": (amdahl_speedup(0.01, 1024), "", "Amdahl's law, a hundredth serial, 1,024 ranks"),
        "q-amdahl-limit": (1 / 0.01, "", "Amdahl's limit of a hundredth"),
        "q-gustafson": (gustafson_speedup(0.01, 1024), "", "Gustafson's law, a hundredth serial, 1,024 ranks"),
        "q-floor": (
            8 * parameters / identity().memory_bytes,
            "",
            "parameters and gradients of GPT-3 in float32 over this machine's memory",
        ),
        "q-bubble": (
            7 / (32 + 7),
            "%",
            "share of a pipeline's time with eight stages and 32 micro-batches in which a stage waits",
        ),
    }
    for key, (value, unit, what) in answers.items():
        page.number(key, value, unit=unit, what=what, modelled=True)
