"""What the command line says of a machine and of its links: all of it, in words and as JSON."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.chapters.made_turns import made_times
from tests.perf.made_ceilings import synthetic_ceilings
from tinytorch import cli
from tinytorch.cli import links, main
from tinytorch.cli import machine as command
from tinytorch.perf.distributed.collectives.measured import COLLECTIVES, Collectives
from tinytorch.perf.host.identity import Identity
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.machine.blas_costs import BusyNeighbour, Caution
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.conditions import Conditions, Ranks
from tinytorch.report.numbers import NO_BREAK

RATIO = Measurement("ratio", (1.7, 1.68, 1.74, 1.69, 1.73, 1.72), "")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """Stand in for the measurements, and return a list of the threads and refreshes asked for."""
    calls: list[tuple[int, bool]] = []

    def made(threads: int, *, refresh: bool, on_progress: Any) -> Ceilings:
        calls.append((threads, refresh))
        on_progress("made up", 0.5)
        return synthetic_ceilings(threads)

    monkeypatch.setattr(command, "ceilings", made)
    monkeypatch.setattr(command, "usable_cores", lambda: [0, 1])
    monkeypatch.setattr(command, "busy_neighbour", lambda threads: BusyNeighbour(threads, RATIO, RATIO))
    monkeypatch.setattr(command, "narrow_blas", lambda made: Caution("narrow BLAS", "It is narrow.", None))
    return calls


def test_everything_is_shown(asked: list[tuple[int, bool]], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["machine"]) == 0
    assert asked == [(1, False), (2, False)]
    said = capsys.readouterr()
    assert said.err == "", "progress is for a terminal"
    shown = said.out.replace(NO_BREAK, " ")
    parts = ["CPU", "FP32 peak", "at 64 FLOPs an element", "TOP/s", "GHz", "L3", "48.00 KiB", "told by", "8,192 B"]
    parts += ["256.0 MiB", "read ran on 8 × vaddps zmm", "copy ran on no vectors", "Warning: It is narrow."]
    parts += ["Warning: Beside one other busy process a float32 product on 2 threads"]
    assert [part for part in parts if part not in shown] == []


def test_the_same_as_json(asked: list[tuple[int, bool]], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "machine.json"
    assert cli.main(["machine", "--refresh", "--json", str(target)]) == 0
    assert asked == [(1, True), (2, True)]
    document = json.loads(target.read_text())
    assert (document["schema"], document["schema_version"]) == ("tinytorch-machine", 5)
    assert {*Identity.__dataclass_fields__} <= document["machine"].keys()
    limits, _ = command.MACHINE.read(target)
    assert limits.ceilings[1] == synthetic_ceilings(2)
    assert [one.what for one in limits.warnings] == ["narrow BLAS", "busy neighbour"]
    assert limits.busy_neighbour is not None
    assert [one.cost for one in limits.warnings] == [None, limits.busy_neighbour.over_alone]
    assert [path.name for path in tmp_path.iterdir()] == ["machine.json"]


def test_one_core_has_no_neighbour_and_a_folder_that_does_not_exist_is_said_before_anything_is_measured(
    asked: list[tuple[int, bool]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["machine", "--json", "no/such/folder/x.json"]) == 2
    assert asked == []
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n"), said.err.partition(":")[0]) == ("", 1, "tinytorch machine")
    monkeypatch.setattr(command, "usable_cores", lambda: [0])
    assert cli.main(["machine"]) == 0
    assert asked == [(1, False)]
    assert "busy" not in capsys.readouterr().out


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
    assert "a median time differs by more than 25%" in told
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
        ("--ranks", "2", True, "whose option -n"),
    ):
        monkeypatch.setattr(links, "started_by_launcher", lambda launched=launched: launched)
        assert main(["links", option, value]) == 2
        assert said in capsys.readouterr().err
