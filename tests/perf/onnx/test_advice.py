"""What is advised for a file in ONNX Runtime, and with which gain, against Amdahl's law by hand."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.perf.made_ceilings import LEVELS, PEAK, made_ceilings, spread
from tests.perf.onnx.graphs import Made
from tests.perf.onnx.made_profile import made_profile
from tinytorch.perf.onnx.nodes import Work
from tinytorch.perf.onnx.runtime_profile import Group, RuntimeProfile, advice, joined_chains

MILLI = 1e-3


def nodes(*kinds: str) -> Made:
    """Return a graph of nodes one after the other."""
    graph = Made()
    name = graph.input("x", [1])
    for kind in kinds:
        name = graph.node(kind, name)
    graph.output(name)
    return graph


@pytest.mark.parametrize(("scale", "is_disturbed"), [(0.6, True), (0.86, False), (1.14, False), (5.0, True)])
def test_nothing_is_placed_or_advised_if_times_had_to_be_scaled_far(
    tmp_path: Path, scale: float, is_disturbed: bool
) -> None:
    works = {"MatMul_0": Work(flops=2 * 10**8, bytes=10**6)}
    profile = made_profile(
        tmp_path, nodes("MatMul", "Cast"), {"MatMul_0": 5 * MILLI, "Cast_1": 5 * MILLI}, latency=10 * MILLI,
        works=works, scale=scale, ceilings=made_ceilings(threads=1),
    )  # fmt: skip
    assert profile.is_disturbed == is_disturbed
    assert (profile.placed(Group("MatMul", profile.rows[:1])) is None) == is_disturbed
    assert (advice(profile) == []) == is_disturbed


def gains(profile: RuntimeProfile) -> dict[tuple[str, ...], tuple[Any, bool]]:
    """Return the gain of each advice and whether it is a bound, by the nodes that it is about, as they are ordered."""
    return {tuple(sorted(each.nodes)): (each.gain.median, each.at_most) for each in advice(profile)}


def test_advice_is_ordered_by_gains_of_amdahls_law(tmp_path: Path) -> None:
    """Of 10 ms, a cast takes 1, two layouts 1.2, and a chain 4: one node for it takes 2, or 1 more for its arrays."""
    graph = nodes("Cast", "Transpose", "Add", "Clip", "Mul", "Transpose", "Gather")
    seconds = dict.fromkeys(("Transpose_1", "Transpose_5"), 0.6 * MILLI)
    seconds |= {"Cast_0": MILLI, "Add_2": MILLI, "Clip_3": 2 * MILLI, "Mul_4": MILLI, "Gather_6": 3.8 * MILLI}
    profile = made_profile(tmp_path, graph, seconds, latency=10 * MILLI)
    found = gains(profile)
    assert found == {
        ("Add_2", "Clip_3", "Mul_4"): (pytest.approx(10 / 8.5), False),
        ("Transpose_1", "Transpose_5"): (pytest.approx(10 / 8.8), False),
        ("Cast_0",): (pytest.approx(10 / 9), False),
    }
    assert list(found) == [("Add_2", "Clip_3", "Mul_4"), ("Transpose_1", "Transpose_5"), ("Cast_0",)]
    said = {each.nodes: each.what for each in advice(profile)}
    assert said["Cast_0",].startswith("1 node (Cast) converts")


@pytest.mark.parametrize(("seconds", "little", "spent"), [(2e-6, 3, 5e-6 + 3 * 2e-6), (20e-6, 0, 5e-6 + 3 * 4e-6)])
def test_a_call_and_nodes_that_do_little_are_overhead(
    tmp_path: Path, seconds: float, little: int, spent: float
) -> None:
    """A node costs at least 1 µs here and at most 4 times as much, and the call 5."""
    names = [f"Gather_{at}" for at in range(3)]
    latency = 65e-6
    profile = made_profile(
        tmp_path, nodes(*["Gather"] * 3), dict.fromkeys(names, seconds), latency=latency, call=5e-6
    )  # fmt: skip
    (found,) = advice(profile)
    assert found.gain.median == pytest.approx(latency / (latency - spent))
    assert found.at_most
    assert found.nodes == tuple(names[:little])
    assert ("of the time of 3 nodes" in found.what) == bool(little)
    assert "0 nodes" not in found.what


def test_cores_that_are_not_used_bound_the_gain_of_longer_nodes(tmp_path: Path) -> None:
    seconds = {"Gather_0": 8 * MILLI, "Gather_1": 10e-6}
    profile = made_profile(tmp_path, nodes("Gather", "Gather"), seconds, latency=10 * MILLI, cores=4)
    assert gains(profile) == {("Gather_0",): (pytest.approx(10 / (2 + 8 / 4)), True)}


#: A product whose arithmetic takes 2.7 ms at the peak and whose bytes take 0.3, and one of 0.3 and 6.7 ms.
PRODUCT = Work(flops=2 * 512**3, bytes=3 * 4 * 512**2, weights=4 * 512**2)
READING = Work(flops=2 * 4096**2, bytes=4 * 4096**2 + 8 * 4096, weights=4 * 4096**2)
#: One whose arithmetic and bytes take the same time: nobody knows which limits it.
BALANCED = Work(flops=10**8, bytes=10**7, weights=10**7)


@pytest.mark.parametrize(
    ("work", "seconds", "left"),
    [
        (PRODUCT, 4 * MILLI, PRODUCT.flops / PEAK / 4),
        (READING, 8 * MILLI, READING.bytes / LEVELS[-1][2] * (1 - 0.75 * READING.weights / READING.bytes)),
        (BALANCED, 4 * MILLI, None),
    ],
)
def test_eight_bits_gain_at_most_the_way_to_their_roof(
    tmp_path: Path, work: Work, seconds: float, left: float | None
) -> None:
    here = made_ceilings(0.05, threads=1)
    here = replace(here, int8_peak=spread(4 * PEAK, "OP/s", 0.05))
    profile = made_profile(
        tmp_path, nodes("MatMul"), {"MatMul_0": seconds}, latency=10 * MILLI, works={"MatMul_0": work}, ceilings=here
    )
    gain = None if left is None else 10 * MILLI / (10 * MILLI - seconds + left)
    assert gains(profile) == ({} if gain is None else {("MatMul_0",): (pytest.approx(gain, rel=1e-3), True)})


def test_an_8_bit_peak_that_is_not_higher_is_not_advised(tmp_path: Path) -> None:
    profile = made_profile(
        tmp_path, nodes("MatMul"), {"MatMul_0": 4 * MILLI}, latency=10 * MILLI, works={"MatMul_0": PRODUCT},
        ceilings=made_ceilings(0.05, threads=1),
    )  # fmt: skip
    assert gains(profile) == {}


def test_a_node_far_below_its_roof_gains_at_most_the_way_to_it(tmp_path: Path) -> None:
    least = PRODUCT.flops / PEAK
    profile = made_profile(
        tmp_path, nodes("MatMul"), {"MatMul_0": 20 * least}, latency=25 * least, works={"MatMul_0": PRODUCT},
        ceilings=made_ceilings(0.05, threads=1),
    )  # fmt: skip
    (found,) = advice(profile)
    assert found.gain.median == pytest.approx(25 / 6)
    assert found.at_most
    assert found.gain.interval.low < 25 / 6.04 < 25 / 5.97 < found.gain.interval.high


def test_a_chain_leaves_its_longest_node_or_all_but_what_the_others_move(tmp_path: Path) -> None:
    """Of 10 ms, a product takes 4, and the nodes after it 2, 1 and 3: one node for these takes 3 to 6 - 2 / 2 ms."""
    seconds = {"MatMul_0": 4 * MILLI, "Add_1": 2 * MILLI, "Mul_2": MILLI, "Erf_3": 3 * MILLI}
    profile = made_profile(
        tmp_path, nodes("MatMul", "Add", "Mul", "Erf"), seconds, latency=10 * MILLI, works={"MatMul_0": PRODUCT}
    )
    (found,) = advice(profile)
    assert set(found.nodes) == {"Add_1", "Mul_2", "Erf_3"}
    assert (found.share.median, found.gain.median) == pytest.approx((0.6, 10 / 8))
    assert (found.gain.interval.low, found.gain.interval.high) == pytest.approx((10 / 9, 10 / 7), rel=0.01)
    assert joined_chains(profile).gain == found.gain


def test_a_chain_ends_where_another_node_reads_it_first(tmp_path: Path) -> None:
    graph = Made()
    first = graph.node("Abs", graph.input("x", [1]))
    graph.output(graph.node("Add", graph.node("MatMul", first, first), first))
    seconds = {"Abs_0": 3 * MILLI, "MatMul_1": 3 * MILLI, "Add_2": 3 * MILLI}
    with pytest.raises(ValueError, match="must have element-by-element nodes that follow each other"):
        joined_chains(made_profile(tmp_path, graph, seconds, latency=10 * MILLI))


def test_the_gain_without_a_conversion_holds_what_its_neighbours_may_lose_or_win(tmp_path: Path) -> None:
    """It takes 2 of 10 ms, of which one of its two arrays is half."""
    seconds = {"Cast_0": 2 * MILLI, "Gather_1": 7 * MILLI}
    (found,) = advice(made_profile(tmp_path, nodes("Cast", "Gather"), seconds, latency=10 * MILLI))
    assert (found.gain.interval.low, found.gain.interval.high) == pytest.approx((10 / 9, 10 / 7), rel=0.01)


@pytest.mark.parametrize(("scale", "record", "wrong"), [(1.0, 0.0, 0.0), (1.1, 0.0, 0.1 / 1.1), (1.0, 0.4e-3, 0.2)])
def test_a_share_is_as_uncertain_as_recorded_times_were_corrected(
    tmp_path: Path, scale: float, record: float, wrong: float
) -> None:
    """A node takes 2 of 10 ms."""
    profile = made_profile(tmp_path, nodes("Gather"), {"Gather_0": 2 * MILLI}, latency=10 * MILLI, scale=scale)
    profile = replace(profile, cost=replace(profile.cost, record=record))
    ends = profile.share(profile.rows, "share").interval
    assert (ends.low, ends.high) == pytest.approx((0.2 / (1 + wrong), 0.2 * (1 + wrong)), rel=0.01)
