"""Records of the page on several ranks: what it shows and claims of messages, steps, scaling, memory and lost ranks.

What it says of larger machines is in `model_records`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tinytorch.chapters.distributed.fault_study import FATAL_STEP, LONGEST_WAIT, Lost
from tinytorch.chapters.distributed.figures import collective_figure, link_table, scaling_figure, size_words
from tinytorch.chapters.distributed.published import PublishedResult
from tinytorch.chapters.distributed.scaling_laws import amdahl_speedup, gustafson_speedup
from tinytorch.chapters.distributed.step_recording import typical
from tinytorch.chapters.distributed.step_times import Overlap, Scaling, ShardedMemory
from tinytorch.chapters.distributed.timeline_figure import timeline_figure, timeline_words
from tinytorch.chapters.gpt2 import GPT2, NUMBER
from tinytorch.perf.distributed.cluster_model.collective_costs import GivenLink, ring_all_reduce
from tinytorch.perf.distributed.collectives.link_fit import FittedLink
from tinytorch.perf.distributed.collectives.measured import Collectives
from tinytorch.perf.distributed.collectives.timing import Kind
from tinytorch.perf.distributed.ranks.measuring import Withheld
from tinytorch.perf.distributed.ranks.watch import interval
from tinytorch.perf.distributed.recording.stragglers import Straggler
from tinytorch.perf.distributed.recording.timeline import Timeline
from tinytorch.perf.host.pinned_threads import may_pin
from tinytorch.perf.machine import ceilings, identity
from tinytorch.perf.measuring import Counted, Measurement, Modelled, Statistic, quotient
from tinytorch.perf.measuring.comparison import Comparison
from tinytorch.perf.measuring.judge import Judgement, decided
from tinytorch.report import Column, Page, format_number, verdict_between

ONE_CORE = (
    "the process that built this page could use one core only, so that ranks shared it: build it where there are two"
)
NO_SHARE = "what is lost here is no share of a step: by the law it lies outside of 0 to 1"
NO_STRAGGLER = "in this build no rank waited longer for another than the clocks can be wrong by"
#: Kinds of messages that the page measures.
KINDS: tuple[Kind, ...] = ("point to point", "all-reduce", "ring all-reduce")
_LI = "S. Li et al., PyTorch Distributed, VLDB 2020"
_LI_ADDRESS = "https://arxiv.org/abs/2006.15704"
_ZERO = "S. Rajbhandari et al., ZeRO, SC 2020"
_ZERO_ADDRESS = "https://arxiv.org/abs/1910.02054"
#: How much of the bandwidth of a small all-reduce a large one must have for it to be "much higher".
_MUCH = 2.0
#: Batches of strong scaling, by the words of their keys.
_SIZES = ("small", "large")
#: Machines that train GPT-2 in the last question.
_MACHINES = 8
#: Sizes in the table of the ring.
_SHOWN = 5


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
    page.number(
        "years-alone", Modelled.by("the operations, at the peak", seconds.scaled(1 / (365.25 * 86400), "years", what))
    )
    what = "four float32 numbers for each of 175 billion parameters"
    page.number("gpt3-state", Modelled(state_bytes, "B", what, "arithmetic"))
    page.number("memory", memory, unit="B", what="memory of this machine, as the system reports it")
    what = "bytes of that training's state over this machine's memory"
    page.number("memories", Modelled(state_bytes / memory, "", what, "arithmetic"))


def record_collectives(page: Page, talk: Collectives) -> None:
    """Show messages, all-reduces and the ring over sizes, with fitted lines and a claim where ranks had cores."""
    small, large = talk.sizes[0], talk.sizes[-1]
    fitted = {} if talk.oversubscribed else {kind: talk.links(kind) for kind in KINDS}
    ends = (
        f"{kind.capitalize()}: from {format_number(talk.of(kind)[small].median, 's')} to "
        f"{format_number(talk.of(kind)[large].median, 's')}."
        for kind in KINDS
    )
    page.figure(
        "collectives",
        collective_figure(talk, KINDS, fitted=fitted),
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
            "the farthest measured median from its line. A dash stands where the rounds do not tell what a byte costs."
        )
        link_table(page, "links", [link for kind in KINDS for link in fitted[kind]], caption=caption)
    page.number("all-reduce-small", talk.of("all-reduce")[small])
    page.number("all-reduce-large", talk.of("all-reduce")[large])
    each = ceilings(threads=1).fp32_peak.per(1.0, "s", "an operation at the peak of one core")
    what = "time of the smallest all-reduce times the peak of one core"
    page.number("wait-flops", quotient(talk.of("all-reduce")[small], each, what, "FLOP"))
    if talk.oversubscribed:
        page.absent("large-over-small", "large-all-reduce", reason=ONE_CORE)
        return
    what = "bandwidth of the largest all-reduce over that of the smallest"
    times = talk.of("all-reduce")
    grown = quotient(times[small], times[large], what).scaled(large / small)
    page.number("large-over-small", grown)
    page.claim(
        "large-all-reduce",
        statement="A large all-reduce achieves much higher bandwidth than a smaller one.",
        source=_ZERO,
        source_url=_ZERO_ADDRESS,
        quote="For example, a large all-reduce operation achieves much higher bandwidth than a smaller one.",
        verdict=verdict_between(grown, low=_MUCH),
        evidence=f"The largest all-reduce of this page has {format_number(large / small, '1')} times the bytes of the "
        "smallest. Its bandwidth, bytes over time, is {large-over-small} as high. Twice as high would support the "
        "claim.",
    )


def _compare(page: Page, key: str, found: Comparison | Withheld) -> bool:
    """Record a comparison of times on ranks, or that it is withheld; return whether it is one."""
    if isinstance(found, Withheld):
        page.absent(key, f"{key}-verdict", reason=ONE_CORE)
        return False
    page.compare(key, found)
    return True


def predicted_ring(links: Sequence[FittedLink], ranks: int, nbytes: float) -> float:
    """Return the seconds of a ring all-reduce whose steps are messages of the lines of ``links``, by its formula.

    Each step sends a part of the array. Of the lines, in the order of their sizes, the last that begins at no more
    bytes counts.
    """
    line = next((link for link in reversed(links) if link.sizes[0] <= nbytes / ranks), links[0])
    return ring_all_reduce(nbytes, ranks, line)


def record_ring(
    page: Page,
    talk: Collectives,
    between: GivenLink,
    sizes: tuple[int, int],
    grown: Mapping[int, tuple[float, float]],
) -> None:
    """Show what the ring costs by its formula beside what was measured, and by the formula on more ranks.

    Args:
        between: the link that is assumed where nothing was measured.
        sizes: bytes of a small and of a large array. grown: modelled seconds of both, by number of ranks.
    """
    if talk.oversubscribed:
        page.absent("ring", reason=ONE_CORE, instead_of="table")
    else:
        _ring_table(page, talk)
    _compare(page, "ring-large", talk.compare("ring all-reduce", "all-reduce", talk.sizes[-1]))
    assumed = f"{format_number(between.alpha_s, 's')} and {format_number(1 / between.beta_s_per_byte, 'B/s')}"
    page.table(
        "ring-cost",
        [
            {
                "ranks": p,
                "sent": Modelled(2 * (p - 1) / p, "", "numbers sent over those of the array", "the ring's formula"),
                "small": Modelled(costs[0], "s", "a ring all-reduce", "the ring's formula"),
                "large": Modelled(costs[1], "s", "a ring all-reduce", "the ring's formula"),
            }
            for p, costs in grown.items()
        ],
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
        page.number(f"ring-growth-{name}", Modelled(grown[4096][at] / grown[2][at], "", what, "the ring's formula"))


def _ring_table(page: Page, talk: Collectives) -> None:
    links, ranks = talk.links("point to point"), talk.ranks
    step = -(-(len(talk.sizes) - 1) // (_SHOWN - 1))
    rows = [
        {
            "size": size_words(size),
            "sent": size_words(2 * (ranks - 1) * size // ranks),
            "predicted": Modelled(predicted_ring(links, ranks, size), "s", "a ring all-reduce", "the ring's formula"),
            "ring": talk.of("ring all-reduce")[size],
            "library": talk.of("all-reduce")[size],
        }
        for size in sorted({*talk.sizes[::step], talk.sizes[-1]})
    ]
    page.table(
        "ring",
        rows,
        [
            Column("size", "Array"),
            Column("sent", "Sent by a rank"),
            Column("predicted", "By the formula", "s", modelled=True),
            Column("ring", "Our ring"),
            Column("library", "The library"),
        ],
        caption=f"An all-reduce on {ranks} ranks: what the formula makes of the lines fitted above, without their "
        "intervals, and what the ring and the library's all-reduce then took.",
    )


def record_timelines(page: Page, ways: Mapping[str, Sequence[Timeline]]) -> None:
    """Show a typical step of each way on one time axis."""
    shown = {way: typical(each) for way, each in ways.items()}
    words = " ".join(f"Gradients sent {way}: {timeline_words(each)}" for way, each in shown.items())
    page.figure(
        "timeline",
        timeline_figure(shown),
        caption="One training step of the GPT on all ranks of this page, of middle length among several: gradients "
        "sent while the backward pass runs (overlapped), and after it (afterwards).",
        alt=f"A lane for each rank in two panels. {words}",
    )
    what = "how wrong the distance of two events of different ranks can be, in the recorded step"
    page.number("clock-error", Measurement(what, (shown["overlapped"].error_seconds,), "s"))


def record_straggler(page: Page, waits: Sequence[Straggler], late: int) -> None:
    """Record for whom the others waited where rank ``late`` was given more work."""
    page.number("late-rank", late, unit="1", what="the rank that was given more work")
    if not waits:
        page.absent("found-rank", "found-it", "straggler-cost", reason=NO_STRAGGLER)
        return
    found = waits[0]
    page.number("found-rank", found.rank, unit="1", what="the rank for which the others waited longest")
    because = "the work was given to rank {late-rank}, and the others waited longest for rank {found-rank}"
    page.word("found-it", "the burdened one" if found.rank == late else "another one", because=because)
    what = "time that the other ranks stood still for it in one step"
    page.number("straggler-cost", Measurement(what, (found.cost_seconds,), "s"))


def record_overlap(page: Page, both: Overlap) -> None:
    """Record steps that send during the backward, after it and not at all, and the claim that overlap accelerates."""
    page.number("step-alone", both.alone)
    page.number("step-apart", both.apart)
    page.number("step-overlapped", both.overlapped)
    compared = both.compare()
    if not _compare(page, "overlap-gain", compared) or isinstance(compared, Withheld):
        page.absent("overlap-accelerates", reason=f"whether overlap accelerates a step, as {ONE_CORE}")
        return
    page.claim(
        "overlap-accelerates",
        statement="Overlapping computation with communication accelerates data-parallel training.",
        source=_LI,
        source_url=_LI_ADDRESS,
        quote="As of v1.5, PyTorch natively provides several techniques to accelerate distributed data parallel, "
        "including bucketing gradients, overlapping computation with communication, and skipping gradient "
        "synchronization.",
        verdict=verdict_between(compared.estimate, low=1.1),
        evidence="With overlap a step of the GPT ran {overlap-gain} as fast as without. A gain of less than a tenth "
        "counts as none; from 1.1 on it would support the claim. The source's ranks are graphics processors, whose "
        "links move data while they compute; here the core that computes also has to move the data.",
    )


def record_scaling(page: Page, found: Sequence[Scaling]) -> None:
    """Show strong scaling of a small and of a large batch and weak scaling of one, and the laws' shares."""
    *strong, weak = found
    if not weak.judged:
        page.absent("scaling", reason=ONE_CORE, instead_of="table")
        page.absent("scaling-laws", reason=ONE_CORE, instead_of="figure")
        words = (f"{way}-{what}" for way in (*_SIZES, "weak") for what in ("efficiency", "word"))
        page.absent("two-speedup", *words, "strong-serial", "weak-serial", reason=ONE_CORE)
        return
    named = dict(zip(_SIZES, strong, strict=True))
    rows = [row for each in strong for row in _scaling_rows(page, f"strong, {each.batch} in all", each)]
    page.table(
        "scaling",
        [*rows, *_scaling_rows(page, f"weak, {weak.batch} each", weak)],
        [
            Column("way", "Scaling and examples"),
            Column("one", "Step on one rank"),
            Column("step", "On all"),
            Column("speedup", "Speedup"),
            Column("word", "Verdict", judged=True),
        ],
        caption="Steps of the GPT on one rank and on more, "
        f"{'each on a core of its own, ' if may_pin() else ''}in turns. A speedup is the median over the turns, not "
        "the quotient of the two times beside it; that of weak scaling counts the work that was done. Linear is an "
        "efficiency from 0.8 to 1.25, superlinear one above and sublinear one below.",
    )
    laws = [f"{law.law}'s" for one in (named["large"], weak) if (law := one.law()) is not None and law.applies]
    named_laws = f"{' and '.join(laws)} {'law' if len(laws) == 1 else 'laws'}"
    page.figure(
        "scaling-laws",
        scaling_figure([named["large"], weak]),
        caption="Speedups of strong scaling with the largest batch and of weak scaling: measured as far as the cores "
        f"go{f', dashed by {named_laws}' if laws else ''}. The thin line is linear scaling.",
        alt="Speedup over the number of ranks on logarithmic axes: measured points with intervals, "
        f"{f'dashed beyond them by {named_laws}, ' if laws else ''}and a thin line for linear scaling.",
    )
    page.number("two-speedup", _of(named["large"].speedup(2)))
    for key, one in {**named, "weak": weak}.items():
        most = one.judged[-1]
        verdict = one.verdict(most)
        page.number(f"{key}-efficiency", _of(one.efficiency(most)))
        because = f"of its efficiency, {{{key}-efficiency}}: {verdict.because}"
        assert verdict.word is not None, "as each of these had a core"
        page.word(f"{key}-word", verdict.word, because=because)
    for key, one in (("strong-serial", named["large"]), ("weak-serial", weak)):
        law = one.law()
        assert law is not None, "as there are judged numbers of ranks"
        if law.applies:
            page.number(key, law.share)
        else:
            page.absent(key, reason=NO_SHARE)


def _of(found: Statistic | None) -> Statistic:
    assert found is not None, "a number of ranks with a core each has a speedup"
    return found


def _said(page: Page, found: Scaling, count: int) -> Judgement:
    said = found.verdict(count).word
    assert said is not None, "as these ranks had a core each"
    return page.withhold_if_disturbed(said, _of(found.speedup(count)))


def _scaling_rows(page: Page, name: str, found: Scaling) -> list[dict[str, object]]:
    return [
        {
            "way": f"{name}, {count} ranks",
            "one": found.times[1],
            "step": found.times[count],
            "speedup": found.speedup(count),
            "word": _said(page, found, count),
        }
        for count in found.judged
    ]


#: Of each stage of sharding, what a rank of N keeps of a parameter in mixed precision, in bytes.
_STAGES = ("2 + 2 + 12", "2 + 2 + 12/N", "2 + (2 + 12)/N", "(2 + 2 + 12)/N")


def record_sharding(page: Page, stages: Sequence[PublishedResult]) -> None:
    """Show what stages of sharding keep of a published model, beside what its paper says, and claim the first.

    Args:
        stages: of `published.zero_2020`.
    """
    page.table(
        "zero",
        [
            {
                "name": one.name,
                "each": each,
                "counted": Counted(one.predicted, "GB", "bytes that a rank keeps"),
                "published": one.printed,
            }
            for one, each in zip(stages, _STAGES, strict=True)
        ],
        [
            Column("name", "What is cut"),
            Column("each", "Bytes of a parameter"),
            Column("counted", "Counted", "GB"),
            Column("published", "Published", quoted=True),
        ],
        caption="What a rank keeps of 7.5 billion parameters on N = 64 ranks, in mixed precision with Adam: by the "
        "formula, and as Rajbhandari et al. 2020 print it. GB are billions of bytes.",
    )
    whole, cut = stages[0], stages[1]
    what = "bytes of 7.5 billion parameters in training, 16 each"
    page.number("zero-whole", Counted(whole.predicted, "GB", what))
    what = "bytes that each of 64 ranks keeps of it where the optimizer's state is cut"
    page.number("zero-state", Counted(cut.predicted, "GB", what))
    agree = all(f"{one.predicted:.1f}" == f"{one.published:.1f}" for one in (whole, cut))
    page.claim(
        "zero-state-sharded",
        statement="With the optimizer's state cut over 64 ranks, a model of 7.5 billion parameters needs 31.4 GB on "
        "each instead of 120 GB.",
        source=_ZERO,
        source_url=_ZERO_ADDRESS,
        quote="a 7.5 B parameter model requires 31.4GB of memory using P_os with 64-way DP (N_d = 64), while requiring "
        "120 GB with standard DP.",
        verdict=decided(agree),
        evidence="Parameters, gradients and the whole state are {zero-whole}; with a 64th of the state they are "
        "{zero-state}. The digits that the source prints would have to agree.",
        counted=True,
    )


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
    page.number("sharded-ratio", Counted(max(each.kept for each in memories.sharded) / whole.kept, "%", what))


def record_lost_rank(page: Page, lost: Lost, apart: float) -> None:
    """Record how soon a run ended whose rank died, and whether the restarted training ended the same.

    Args:
        apart: difference of the weights, relative to the largest.
    """
    page.number("fatal-step", FATAL_STEP, unit="steps", what="steps done when the rank was killed")
    page.number("kept-steps", lost.steps_kept, unit="steps", what="steps in the last checkpoint")
    what = "from one writing of a rank's state to the next, as the watch of a launch is set"
    page.number("state-every", Modelled(interval(LONGEST_WAIT), "s", what, "a share of the longest wait"))
    page.number("end-seconds", Measurement("from the death of the rank to the end of the run", (lost.seconds,), "s"))
    what = (
        "largest difference of a weight between the restarted and the uninterrupted training, relative to the largest "
        "weight; float64"
    )
    page.number("restart-difference", Counted(apart, "1", what))
    because = "the largest difference of a weight is {restart-difference} of the largest weight"
    page.word("same-weights", "the same to rounding" if apart < 1e-9 else "different", because=because)


def record_answers(page: Page, between: GivenLink, parameters: float, peak: Measurement) -> None:
    """Record the numbers in the answers to the questions; all of them are modelled.

    Args:
        between: the link of the ring's table. parameters: of GPT-3. peak: FLOP/s of all cores of this machine.
    """
    reduced = ring_all_reduce(NUMBER * GPT2.parameters, _MACHINES, between)
    step = 3.0 * GPT2.text_flops(GPT2.positions)
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
        "gpt2-reduced": (reduced, "s", "an all-reduce of GPT-2's gradients on eight ranks and the assumed link"),
        "gpt2-reduced-bytes": (
            2 * (_MACHINES - 1) / _MACHINES * NUMBER * GPT2.parameters,
            "B",
            "what each of eight ranks sends of GPT-2's gradients, float32",
        ),
        "gpt2-step-flops": (step, "FLOP", "forward and backward of GPT-2 on one text of all positions"),
        "gpt2-rank-rate": (step / reduced, "FLOP/s", "rate at which that step takes as long as the all-reduce"),
    }
    for key, (value, unit, what) in answers.items():
        page.number(key, Modelled(value, unit, what, "arithmetic"))
    seconds = peak.per(step, "s", "that step of GPT-2 at the peak of all cores")
    page.number("gpt2-step-seconds", Modelled.by("the operations, at the peak", seconds))
