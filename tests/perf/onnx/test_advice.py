"""What is advised for a file in ONNX Runtime, and with which gain, against Amdahl's law by hand."""

from pathlib import Path

import pytest

from tests.perf.made_ceilings import made_ceilings
from tests.perf.onnx.graphs import Made
from tests.perf.onnx.made_profile import made_profile
from tinytorch.perf.onnx.nodes import Work
from tinytorch.perf.onnx.runtime_profile import Group, advice

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
