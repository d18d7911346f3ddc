"""Messages, splits, published runs, laws and checks of exercises, against formulas and published values."""

import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.chapters.made_turns import ALPHA, BETA, SIZES, made_times
from tests.perf.made_ceilings import around
from tinytorch.chapters.distributed import exercises, explorer, messages, published, worked
from tinytorch.chapters.distributed.exercises import Entry
from tinytorch.chapters.distributed.explorer import CLUSTERS, EACH, MODELS, RANKS, ClusterPreset, efficiencies
from tinytorch.chapters.distributed.published import zero_2020
from tinytorch.chapters.distributed.step_programs import differing, owned_bytes, trained
from tinytorch.perf.distributed import Cluster, Split, best_splits, given_link, predict
from tinytorch.perf.distributed.cluster_model.workload import Workload, transformer_workload
from tinytorch.perf.distributed.collectives.measured import Collectives
from tinytorch.perf.measuring import Measurement, Unmeasured
from tinytorch.perf.measuring.conditions import Conditions, Ranks
from tinytorch.perf.profiling.breakdown import amdahl

Trace = list[Entry]


def starts_by_call(trace: Trace) -> list[dict[int, float]]:
    calls: dict[int, dict[int, float]] = defaultdict(dict)
    for entry in trace:
        if entry.sequence:
            calls[entry.sequence][entry.rank] = entry.start
    return list(calls.values())


def most_often_last(trace: Trace) -> int:
    last = [max(starts, key=lambda rank: starts[rank]) for starts in starts_by_call(trace)]
    return max(set(last), key=last.count)


def longest(trace: Trace) -> int:
    seconds: dict[int, float] = defaultdict(float)
    for entry in trace:
        if entry.sequence == 0:
            seconds[entry.rank] += entry.end - entry.start
    return max(seconds, key=lambda rank: seconds[rank])


def most_ranks(seconds: float, nbytes: float, alpha: float, beta: float, least: float) -> int:
    spare = seconds * (1 / least - 1)
    ranks = 1
    while ranks < 4096 and 2 * ranks * (alpha + nbytes * beta / (ranks + 1)) <= spare:
        ranks += 1
    return ranks


def without_latency(seconds: float, nbytes: float, alpha: float, beta: float, least: float) -> int:
    return most_ranks(seconds, nbytes, 0.0, beta, least)


def choose_split(workload: Workload, cluster: Cluster, ranks: int, memory: float) -> Split | None:
    found = best_splits(workload, cluster, ranks, memory_bytes=memory)
    return found[0].split if found else None


def whatever_the_memory(workload: Workload, cluster: Cluster, ranks: int, memory: float) -> Split | None:
    return best_splits(workload, cluster, ranks)[0].split


def data_if_it_fits(workload: Workload, cluster: Cluster, ranks: int, memory: float) -> Split | None:
    found = best_splits(workload, cluster, ranks, memory_bytes=memory)
    return max(found, key=lambda one: one.split.data).split if found else None


@pytest.mark.parametrize(
    ("check", "wrong"),
    [
        (exercises.check_straggler, most_often_last),
        (exercises.check_straggler, longest),
        (exercises.check_straggler, lambda trace: None),
        (exercises.check_most_ranks, without_latency),
        (exercises.check_most_ranks, lambda *_: 1),
        (exercises.check_choose_split, whatever_the_memory),
        (exercises.check_choose_split, data_if_it_fits),
        (exercises.check_choose_split, lambda workload, cluster, ranks, memory: None),
        (exercises.check_choose_split, lambda workload, cluster, ranks, memory: Split(ranks)),
    ],
)
def test_nearly_right_answers_fail(check: Callable[[Any], str], wrong: Callable[..., Any]) -> None:
    with pytest.raises(AssertionError):
        check(wrong)


GPT = transformer_workload(
    layers=6, width=512, heads=8, positions=256, vocabulary=1000, examples=48, flops_per_second=1e12
)
LINKS = Cluster(given_link(3e-6, 100e9), given_link(15e-6, 10e9), 4)
CLUSTER = ClusterPreset("made up", LINKS, 1e12, None, ())


def test_weak_scaling_keeps_the_work_of_a_rank_and_strong_scaling_that_of_all() -> None:
    one = predict(GPT, LINKS, Split())
    points = efficiencies(one, CLUSTER, {"stays": None, "grows": 48}, [1, 16, 4097])
    share = {(point["line"], point["at"]): point["value"].value for point in points}
    assert [*share] == [("stays", 1), ("stays", 16), ("grows", 1), ("grows", 16), ("grows", 4097)], "where a split fits"
    best = best_splits(GPT, LINKS, 16, sharding=1)[0]
    assert share["stays", 1] == pytest.approx(1)
    assert share["stays", 16] == pytest.approx(one.seconds / 16 / best.seconds)
    assert share["stays", 16] < share["grows", 16] < 1


@pytest.fixture(scope="module")
def made() -> Any:
    """Return the grid of few numbers of ranks, of the published clusters."""
    clusters = [replace(one, name="of few ranks") for one in CLUSTERS]  # others than those whose whole grid is kept
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(explorer, "GRID_RANKS", (1, 64, RANKS, 4096))
        return json.loads(json.dumps(explorer.grid(clusters)))


def test_a_cell_holds_the_fastest_splits_of_its_cluster_model_batch_and_ranks(made: Any) -> None:
    assert made["clusters"][0]["between"] == [1.4e-5, 25e9]
    for cluster, model, batch, ranks in ((0, 0, 1, RANKS), (1, 1, 0, 64), (0, 3, 2, 4096)):
        given, asked = CLUSTERS[cluster], MODELS[model]
        examples = made["models"][model]["batches"][batch]
        work = asked.workload(given.flops_per_second).of_examples(examples)
        found = best_splits(work, given.links, ranks, memory_bytes=given.memory_bytes, sharding=1)
        count, *rows = made["cells"][cluster][model]["stays"][batch][made["ranks"].index(ranks)]
        assert count == len(found) > 3
        one = predict(work, given.links, Split())
        for row, best in zip(rows, found, strict=False):
            assert row[:4] == [best.split.data, best.split.tensor, best.split.pipeline, best.split.micro]
            messages = best.tensor + best.handing + best.gradients
            seconds, efficiency, nbytes, *parts = row[4:]
            assert [seconds, nbytes] == pytest.approx([best.seconds, best.memory.total], rel=5e-4)
            shares = [best.efficiency(one), best.bubble / best.seconds, messages / best.seconds]
            assert [efficiency, *parts] == pytest.approx(shares, rel=5e-3)
    grows = made["cells"][0][0]["grows"][made["ranks"].index(64)]
    assert len(grows) == 2, "how many fit, and the fastest"
    work = MODELS[0].workload(CLUSTERS[0].flops_per_second).of_examples(64 * EACH)
    best = best_splits(work, CLUSTERS[0].links, 64, memory_bytes=80e9, sharding=1)[0]
    assert grows[1][4] == pytest.approx(best.seconds, rel=1e-3)


ROUNDS, GROUPS = 6, 8


def made_collectives(oversubscribed: bool = False) -> Collectives:
    """Return times of eight groups of processes, each slower than the one before; an all-reduce takes twice as long."""
    times: dict[Any, dict[int, Measurement]] = {}
    names = tuple(f"{kind} of {size} B" for kind in ("point to point", "all-reduce") for size in SIZES)
    conditions = Conditions(
        instrument=Ranks(ranks=2, oversubscribed=oversubscribed), interleaved_with=names, block=ROUNDS
    )
    placed = np.repeat(np.linspace(1, 2, GROUPS), ROUNDS)
    for seed, (kind, factor) in enumerate({"point to point": 1.0, "all-reduce": 2.0}.items()):
        times[kind] = {
            size: Measurement(f"{kind} of {size} B", tuple((factor * placed * one.samples).tolist()), "s", conditions)
            for size, one in made_times(0.01, seed=seed, rounds=GROUPS * ROUNDS).items()
        }
    return Collectives(2, 1, "MPI", oversubscribed, times, Measurement("barrier", (1e-6,) * 15, "s"))


def test_a_place_that_hits_two_messages_alike_is_not_in_their_ratio() -> None:
    found = messages.over(made_collectives(), ("all-reduce", SIZES[0]), ("point to point", SIZES[0]), "over a message")
    assert not isinstance(found, Unmeasured)
    assert found.n == GROUPS
    assert found.interval.low > 1.9
    assert found.interval.high < 2.1


def test_bandwidth_grows_by_bytes_over_times() -> None:
    found = messages.growth(made_collectives())
    assert not isinstance(found, Unmeasured)
    more = SIZES[-1] / SIZES[0]
    assert found.median == pytest.approx(more * (ALPHA + BETA * SIZES[0]) / (ALPHA + BETA * SIZES[-1]), rel=0.02)


@pytest.mark.parametrize(
    "ask", [messages.growth, lambda talk: messages.over(talk, ("all-reduce", 8), ("point to point", 8), "a ratio")]
)
def test_one_core_compares_nothing(ask: Callable[[Collectives], Measurement | Unmeasured]) -> None:
    assert isinstance(ask(made_collectives(oversubscribed=True)), Unmeasured)


def test_a_ring_grows_by_steps_where_arrays_are_small_and_hardly_where_they_are_large() -> None:
    rings = messages.ring_costs((2, 8, 4096), 8, 2**30, given_link(5e-6, 12.5e9))
    assert [one["sent"].value for one in rings] == pytest.approx([1.0, 1.75, 2 * 4095 / 4096])
    assert rings[-1]["small_growth"].value == pytest.approx(4095, rel=0.01)
    assert rings[-1]["tree"].value == pytest.approx(2 * 12 * 5e-6, rel=0.01)
    assert 2 < rings[-1]["large_growth"].value < 3


def test_what_a_paper_gives_a_formula_for_is_met_to_its_digits() -> None:
    for stage in zero_2020():
        assert f"{round(stage['counted'].value, 1):g} GB" == stage["printed"]
    for run in published._MEGATRON_2021:
        billions = run.model(2048).workload(1.0).parameters / 1e9
        printed = float(run.name.split()[0].replace(",", ""))
        assert billions == pytest.approx(printed, abs=0.06 if printed < 1000 else 0.6), run.name
        assert run.data * run.tensor * run.pipeline == int(run.name.split()[-2].replace(",", "")), run.name
    for run in published._MEGATRON_2019:
        billions = run.model(1024).workload(1.0).parameters / 1e9
        assert billions == pytest.approx(float(run.name.split()[0]), abs=0.06), run.name
        assert run.data * run.tensor == int(run.name.split()[-2]), run.name


def test_messages_take_as_long_however_many_gpus_share_the_training() -> None:
    rows = published.sharded_2021()
    for few, many in ((rows[1], rows[2]), (rows[3], rows[4])):
        assert many["messages"].value == pytest.approx(few["messages"].value, rel=0.01)
        assert many["arithmetic"].value == pytest.approx(few["arithmetic"].value / 2)
        assert many["tokens"] == few["tokens"] // 2
        assert few["sent"].value < 1 / published.DGX_A100.between.beta_s_per_byte, "less than one adapter"
    assert rows[0]["arithmetic"].value == pytest.approx(90, rel=0.05)


def test_sums_of_two_are_exact_and_a_shard_is_half_of_the_state_without_gradients() -> None:
    kept, bits = trained("mlp", 8, 2, {"pair": "a pair", "ring": "a ring", "ranks": "copies", "sharded": "weights"})
    assert [one["differ"].value for one in bits[:3]] == [0, 0, 0], "two ranks know one order alone"
    assert bits[3]["largest"].value < 1e-5
    assert kept.value == pytest.approx((4 + 8 / 2) / 16, rel=0.01), "buckets are padded"


def test_memory_that_several_arrays_look_into_counts_once_and_whole() -> None:
    whole, other = np.zeros(10, np.float32), np.zeros(3)
    assert owned_bytes([whole[2:4], whole[5:].reshape(5, 1), other, other]) == 40 + 24
    assert owned_bytes([]) == 0


def test_differences_are_counted_and_weighed_by_the_largest_number() -> None:
    one, other = np.array([1, 2, -4], np.float32), np.array([1, 3, -4], np.float32)
    assert differing(one, other) == [3, 1, 0.25]


def test_gpt2s_gradients_take_what_a_ring_of_eight_does_on_the_assumed_link() -> None:
    found = worked.answers(given_link(5e-6, 12.5e9), 175e9, around(100e9, "FLOP/s"))
    sent, step = 7 / 4 * 4 * 124_439_808, 3 * 291_648_307_200  # published counts of GPT-2 at 1,024 positions
    assert found["reduced-bytes"].value == pytest.approx(sent)
    assert found["reduced"].value == pytest.approx(sent / 12.5e9 + 14 * 5e-6)
    assert found["step-flops"].value == step


@given(st.floats(0, 1), st.integers(2, 100_000))
def test_both_laws_are_one_of_a_share_that_counts_from_one_rank_or_from_all(serial: float, ranks: int) -> None:
    scaled = worked.gustafson(serial, ranks)
    of_one_rank = serial / scaled  # of the time that one rank would take for the grown work
    assert amdahl(1 - of_one_rank, ranks) == pytest.approx(scaled)


def test_gustafsons_published_examples() -> None:
    # J. L. Gustafson, 1988: 1,024 processors, shares of 0.4 to 0.8 % serial, scaled speedups of 1,020 down to 1,016.
    assert worked.gustafson(0.004, 1024) == pytest.approx(1020, abs=0.5)
    assert worked.gustafson(0.008, 1024) == pytest.approx(1016, abs=0.5)


def test_each_rule_is_where_arithmetic_lasts_as_long_as_messages() -> None:
    flops, cluster = 312e12, explorer.CLUSTERS[0]
    link, near = cluster.links.between.beta_s_per_byte, cluster.links.inside.beta_s_per_byte
    found = worked.rules(cluster.links, flops)
    tensor = found[1]["near"].value
    data, context, experts, pipeline = (one["far"].value for one in found if one["far"])
    parameters = 1e9  # gradients of two bytes go round twice while the backward pass makes four operations for each
    assert 4 * parameters * data / flops == pytest.approx(4 * parameters * link / 8), "eight adapters carry them"
    rows = 100.0  # two products, four times as wide inside, and the ring that sums rows of two bytes
    assert 16 * rows * tensor**2 / 8 / flops == pytest.approx(2 * 7 / 8 * 2 * rows * tensor * near)
    width = 4096.0  # scores and weighted sums of a block of positions, against its keys and values
    assert 4 * context**2 * width / flops == pytest.approx(4 * context * width * link)
    assert 16 * experts**2 / flops == pytest.approx(4 * experts * link), "a token goes to its expert and back"
    assert 24 * pipeline * width / flops == pytest.approx(2 * width * link), "layers times width; a token is handed on"


def test_best_sharing_is_where_the_messages_of_a_layer_take_least_time() -> None:
    width, tokens, ranks = 4096, 2**18, 64
    cluster = replace(published.DGX_A100, ranks_per_node=64)  # one node, so that any sharing stays inside of it

    def seconds(sharing: int) -> float:
        found = worked.layer_messages(sharing, width=width, tokens=tokens, ranks=ranks, cluster=cluster)
        assert found["both"].value == pytest.approx(found["weights"].value + found["activations"].value)
        return float(found["both"].value)

    best = worked.best_sharing(width, tokens / ranks).value
    assert best == pytest.approx(4.5**0.5)
    assert min((1, 2, 4, 8, 16, 32, 64), key=seconds) == 2


def test_nodes_fetch_a_layer_once_however_many_of_their_ranks_share_it() -> None:
    width = 4096
    cluster = Cluster(given_link(0.0, 1e15), given_link(0.0, 25e9), 8)  # links in a node take no time to speak of
    once = 72 * width**2 / (8 * 25e9) * 7 / 8  # of eight nodes, each has an eighth
    for sharing in (1, 2, 4, 8):
        found = worked.layer_messages(sharing, width=width, tokens=2**18, ranks=64, cluster=cluster)
        assert found["weights"].value == pytest.approx(once, rel=1e-3)


def test_published_rates_lie_above_what_any_depth_of_interleaving_predicts() -> None:
    rows = published.megatron_2021()
    assert rows[0]["predicted"].value == pytest.approx(rows[0]["published"].value), "the run that the model is given"
    for row in rows:
        assert row["predicted"].value <= row["without bubble"].value <= row["computing"].value
    assert rows[-1]["published"].value > rows[-1]["computing"].value


def test_a_layers_arithmetic_lasts_as_long_as_its_weights_at_the_ridge_of_a_node() -> None:
    [a100] = worked.link_ridges({"A100": (312e12, 300e9, 200e9, "a GPU", "a network")})
    width = 4096
    arithmetic = worked.layer_arithmetic(width, a100["far"].value, 312e12)
    assert arithmetic.value == pytest.approx(72 * width**2 / 200e9)
