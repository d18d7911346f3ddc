"""``tinytorch links``: what it prints of made times, what it keeps, and what it refuses."""

from pathlib import Path
from typing import Any

import pytest

from tests.perf.distributed.made_times import made_times
from tinytorch.cli import links, main
from tinytorch.perf.distributed.collectives.measured import COLLECTIVES, Collectives
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.conditions import Conditions, Ranks


def made_collectives(oversubscribed: bool = False) -> Collectives:
    ranks = Ranks(ranks=2, oversubscribed=oversubscribed)
    conditions = Conditions(interleaved_with=("others",), instrument=ranks)
    times = {size: Measurement(one.name, one.samples, "s", conditions) for size, one in made_times(0.01).items()}
    return Collectives(2, 1, "MPI 4", oversubscribed, {"all-reduce": times}, Measurement("barrier", (1e-6,) * 9, "s"))


def answering(monkeypatch: pytest.MonkeyPatch, collectives: Collectives) -> list[Any]:
    """Let the command get ``collectives`` instead of starting ranks; return what it asks for."""
    asked: list[Any] = []

    def measure(*arguments: Any, **options: Any) -> Collectives:
        asked.append((arguments, options))
        return collectives

    monkeypatch.setattr(links, "measure_collectives", measure)
    return asked


def test_lines_are_printed_and_all_samples_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    made = made_collectives()
    asked = answering(monkeypatch, made)
    path = tmp_path / "links.json"
    arguments = ["links", "--ranks", "2", "--sizes", "8,64,512", "--at-most-seconds", "3", "--json", str(path)]
    assert main(arguments) == 0
    assert asked == [((2, (8, 64, 512)), {"at_most_seconds": 3.0})]
    told = capsys.readouterr().out
    assert "2 ranks on 1 host, MPI 4" in told
    assert "2 MiB" in told
    assert "a median time is farther than 25% off" in told
    kept, _ = COLLECTIVES.read(path)
    assert (kept.ranks, kept.library, kept.oversubscribed) == (2, "MPI 4", False)
    assert {size: one.samples for size, one in kept.of("all-reduce").items()} == {
        size: one.samples for size, one in made.of("all-reduce").items()
    }


def test_no_line_is_printed_where_ranks_share_cores(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answering(monkeypatch, made_collectives(oversubscribed=True))
    assert main(["links", "--ranks", "2"]) == 0
    told = capsys.readouterr().out
    assert "No line was fitted: more ranks than cores" in told
    assert "Alpha" not in told


def test_what_cannot_be_done_is_said_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for option, value, launched, said in (
        ("--ranks", "1", False, "at least 2"),
        ("--sizes", "8,big", False, "whole numbers"),
        ("--sizes", "8,64", False, "at least 3"),
        ("--ranks", "2", True, "mpiexec's -n"),
    ):
        monkeypatch.setattr(links, "started_by_launcher", lambda launched=launched: launched)
        assert main(["links", option, value]) == 2
        assert said in capsys.readouterr().err
