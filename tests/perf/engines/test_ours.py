"""Where the time of our own engines goes, and what the roofs would take."""

from __future__ import annotations

import pytest

from tests.perf.made_ceilings import LEVELS, PEAK, made_ceilings
from tinytorch.perf.engines.ours import parts, recorded, seconds_at_roof
from tinytorch.perf.engines.protocol import ENGINES, Phase
from tinytorch.perf.engines.workloads import subject

#: Multiply-accumulates of the zoo's MLP for one sample, and its parameters.
MACS = 64 * 256 + 256 * 128 + 128 * 10
PARAMETERS = MACS + 256 + 128 + 10


@pytest.mark.parametrize("phase", ["forward", "step"])
def test_parts_are_the_whole_of_a_call(phase: Phase) -> None:
    profile = recorded(ENGINES["tinytorch"], subject("mlp-64"), phase)
    found = parts(profile)
    assert sum(part.share for part in found) == pytest.approx(1)
    assert sum(part.seconds for part in found) == pytest.approx(profile.wall_seconds)
    assert [part.seconds for part in found] == sorted((part.seconds for part in found), reverse=True)
    linear = next(part for part in found if part.name.startswith("linear forward"))
    assert linear.calls == 3
    assert any("backward" in part.name for part in found) == (phase == "step")


def test_other_engines_have_no_events() -> None:
    with pytest.raises(ValueError, match="engine must be one of ours, whose ops the seam sees, not 'JAX'"):
        recorded(ENGINES["JAX"], subject("mlp-1"), "forward")


def test_at_the_roof_arithmetic_takes_its_share_of_the_peak() -> None:
    free_bytes = made_ceilings(scale=1e9)
    forward = seconds_at_roof(subject("mlp-64"), "forward", free_bytes) * PEAK
    assert 2 * MACS * 64 < forward < 2.05 * MACS * 64
    step = seconds_at_roof(subject("mlp-64"), "step", free_bytes) * PEAK
    # Backward is a product for each operand, but none for the images.
    assert step > 2 * 64 * (3 * MACS - 64 * 256)
    assert step < 2.2 * 64 * (3 * MACS - 64 * 256)


def test_at_the_roof_the_optimizer_moves_seven_arrays() -> None:
    free_arithmetic = made_ceilings(peak=1e30)
    memory = next(bandwidth for name, _, bandwidth in LEVELS if name == "memory")
    optimizer = 7 * 4 * PARAMETERS / memory
    step = seconds_at_roof(subject("mlp-1"), "step", free_arithmetic)
    assert optimizer < step < 1.4 * optimizer
