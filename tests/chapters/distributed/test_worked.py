"""Numbers of the page that no rank measures: the walls before one machine, and the answers to the questions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.perf.synthetic_machine import around
from tinytorch.chapters.distributed import worked
from tinytorch.perf.distributed import given_link
from tinytorch.perf.machine import identity
from tinytorch.perf.measuring import Measurement


def test_one_core_makes_two_ranks_and_many_make_four(monkeypatch: pytest.MonkeyPatch) -> None:
    here = identity()
    for cores, ranks in ((1, 2), (2, 2), (3, 3), (64, 4)):
        monkeypatch.setattr(worked, "identity", lambda cores=cores: replace(here, cores_usable=cores))
        assert worked.cores_and_ranks() == (cores, ranks)


def test_the_page_says_how_ranks_were_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    year = Measurement("a long training", (365.25 * 86400,), "s")
    for pins, cores, said in ((True, 1, "sharing one core"), (True, 2, "each pinned"), (False, 2, "none kept")):
        monkeypatch.setattr(worked, "may_pin", lambda pins=pins: pins)
        found = worked.walls(cores, year, 2.8e12)
        assert found.placing.startswith(said)
        assert found.cores.unit == ("core" if cores == 1 else "cores")
    assert found.years.value == pytest.approx(1)
    assert found.memories.value * found.memory.value == pytest.approx(found.state.value)


def test_gpt2s_gradients_take_what_a_ring_of_eight_does_on_the_assumed_link() -> None:
    found = worked.answers(given_link(5e-6, 12.5e9), 175e9, around(100e9, "FLOP/s"))
    sent, step = 7 / 4 * 4 * 124_439_808, 3 * 291_648_307_200  # published counts of GPT-2 at 1,024 positions
    assert found["reduced-bytes"].value == pytest.approx(sent)
    assert found["reduced"].value == pytest.approx(sent / 12.5e9 + 14 * 5e-6)
    assert found["step-flops"].value == step
    assert found["step-seconds"].value == pytest.approx(step / 100e9)
    assert found["rank-rate"].value * found["reduced"].value == pytest.approx(step)
    assert found["wait"].value == pytest.approx(62_500)
    assert found["amdahl"].value == pytest.approx(1 / (0.01 + 0.99 / 1024))
