"""Campaigns: what each worker is given, what is kept of it and where, and one that runs on three ranks."""

from __future__ import annotations

import concurrent.futures
import json
import re
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pytest

from tests.perf.benchmarking.made import performance
from tests.perf.distributed.campaigns import campaign_programs
from tinytorch.cli import bench_campaign, main
from tinytorch.perf.benchmarking import Plan, load_results, running, started
from tinytorch.perf.benchmarking.placement import places
from tinytorch.perf.benchmarking.preparation import prepared
from tinytorch.perf.benchmarking.results import performance_to_json
from tinytorch.perf.benchmarking.running import open_numbers
from tinytorch.perf.distributed.campaigns import campaign as campaign_face
from tinytorch.perf.distributed.campaigns import campaign_manager, campaign_worker
from tinytorch.perf.distributed.campaigns.campaign import (
    Campaign,
    CampaignSide,
    Machine,
    start_campaign,
    started_by_launcher,
)
from tinytorch.perf.distributed.campaigns.campaign_worker import join, measure_turn
from tinytorch.perf.distributed.campaigns.json_messages import _read, _written
from tinytorch.perf.distributed.campaigns.stations import Station
from tinytorch.perf.distributed.ranks.agreement import code_version
from tinytorch.perf.distributed.ranks.launch import RankError
from tinytorch.perf.host.identity import identity
from tinytorch.perf.host.pinned_threads import allowed_cores, usable_cores
from tinytorch.perf.measuring.processes import answer_of

Json = dict[str, Any]
PLAN = Plan("made", (1,), processes=5)


class MadeWorkers(Executor):
    """Workers that answer what a test chose; a task goes to whoever has been idle longest, as with mpi4py.

    ``cpus`` are their machines', ``asked`` all turns that they got; ``order`` is in which of the running turns end.
    """

    def __init__(
        self, cpus: list[str], fails: Callable[[int], bool] = lambda number: False, last: bool = False
    ) -> None:
        self.cpus, self.fails, self.last = cpus, fails, last
        self.asked: list[Json] = []
        self.idle = [*range(len(cpus))]
        self.running: list[tuple[Future[Json], Json]] = []

    @property
    def num_workers(self) -> int:
        return len(self.cpus)

    def submit(self, function: Any, /, *arguments: Any, **_: Any) -> Future[Any]:
        made: Future[Any] = Future()
        (asked,) = json.loads(json.dumps(arguments))  # as messages are
        if function is join:
            made.set_result(self.joined(self.idle.pop(0)))
            self.idle += [*range(len(self.cpus))] if not self.idle else []
            return made
        assert function is measure_turn
        self.running.append((made, asked))
        return made

    def joined(self, rank: int) -> Json:
        there = [at for at, cpu in enumerate(self.cpus) if cpu == self.cpus[rank]]
        station = {
            "rank": rank,
            "host": f"host of {self.cpus[rank]}",
            "cores": [usable_cores()[there.index(rank) % len(usable_cores())]],
            "workers": len(there),
            "pinned": True,
            "oversubscribed": False,
            "shares_core": False,
        }
        return {"station": station, "identity": {**identity().to_json(), "cpu": self.cpus[rank]}, "error": None}

    def end_one(self) -> None:
        """Let the first or the last of the running turns end."""
        made, asked = self.running.pop(-1 if self.last else 0)
        rank = self.idle.pop(0)
        self.idle.append(rank)
        campaign_worker._stations["own"] = Station(**self.joined(rank)["station"])
        answer = json.loads(json.dumps(measure_turn(asked)))
        made.set_result(answer)
        if "declined" not in answer:
            self.asked.append({**asked, "rank": rank})

    def answer(self, module: str, request: Json, folder: Path | None) -> list[Json]:
        """Answer in place of a fresh process."""
        assert module == running.WORKER_MODULE
        if self.fails(request["number"]):
            raise RuntimeError("it died of SIGKILL")
        return self.measured(request)

    def measured(self, request: Json) -> list[Json]:
        one = performance_to_json(performance("a", processes=1, seed=request["number"]))
        whole: Json = {} if request["whole"] else {"memory": {}, "accuracy": None}
        return [{**one, **whole}]


@pytest.fixture(autouse=True)
def _made_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let time pass for made workers whenever the manager waits, and their processes answer what was made."""

    def wait(running: Any, **how: Any) -> Any:
        for workers in MADE:
            if workers.running:
                workers.end_one()
        return concurrent.futures.wait(running, **how)

    monkeypatch.setattr(f"{campaign_manager.__name__}.wait", wait)
    monkeypatch.setattr(campaign_worker, "answer_of", lambda *asked: MADE[0].answer(*asked))
    MADE.clear()


MADE: list[MadeWorkers] = []


def campaign(path: Path, workers: MadeWorkers, plan: Plan = PLAN, resume: bool = False, sides: int = 1) -> Campaign:
    """Return what the made workers made of one side or two."""
    MADE[:] = [workers]
    folders = [None, path.parent]
    made = [
        CampaignSide(
            plan, {"commit": "a"}, path.with_name(f"{path.stem}{'-base' * index}.json"), folders[index], resume
        )
        for index in range(sides)
    ]
    return campaign_manager.manage(workers, made, lambda done, planned: TOLD.append((done, planned)))


TOLD: list[tuple[int, int]] = []


@pytest.mark.parametrize("last", [False, True])
def test_each_process_is_measured_once_and_kept_with_its_place_whichever_ends_first(tmp_path: Path, last: bool) -> None:
    TOLD.clear()
    workers = MadeWorkers(["x", "x"], last=last)
    made = campaign(tmp_path / "made.json", workers)
    assert made.complete
    assert made.machines[0].paths == (tmp_path / "made.json",)
    kept = load_results(tmp_path / "made.json")
    one = kept.performances["a"]
    assert one.memory
    assert sorted(place["process"] for place in places(one)) == [0, 1, 2, 3, 4]
    for place, times in zip(places(one), one.times[1], strict=True):
        assert times.samples == performance("a", processes=1, seed=place["process"]).times[1][0].samples
        assert place["workers"] == 2
        assert place["cores"] == workers.joined(place["rank"])["station"]["cores"]
    assert [asked["sides"][0]["request"]["whole"] for asked in workers.asked].count(True) == 1
    assert TOLD[0] == (0, 5)
    assert TOLD[-1] == (5, 5)


def test_each_machine_measures_all_processes_into_a_file_of_its_own(tmp_path: Path) -> None:
    workers = MadeWorkers(["x", "y", "x", "z"])
    made = campaign(tmp_path / "made.json", workers)
    assert made.complete
    assert [(machine.hosts, machine.workers) for machine in made.machines] == [
        (("host of x",), 2),
        (("host of y",), 1),
        (("host of z",), 1),
    ]
    files = [path.name for machine in made.machines for path in machine.paths]
    assert sorted(files) == sorted(path.name for path in tmp_path.iterdir())
    for machine, cpu in zip(made.machines, "xyz", strict=True):
        kept = load_results(machine.paths[0])
        assert machine.paths[0].name.startswith(f"made-{cpu}-")
        assert kept.identity["cpu"] == cpu
        assert kept.done == 5
        assert {place["host"] for place in places(kept.performances["a"])} == {f"host of {cpu}"}


def test_a_process_that_dies_is_named_and_left_open_and_a_resumption_measures_it_alone(tmp_path: Path) -> None:
    path = tmp_path / "made.json"
    made = campaign(path, MadeWorkers(["x", "x"], fails=lambda number: number == 2))
    assert made.failures == (made.failures[0],)
    assert "(host of x, core" in made.failures[0]
    assert made.failures[0].endswith("process 2 failed and stays open: it died of SIGKILL")
    assert not made.complete
    assert open_numbers(load_results(path)) == [2]
    again = MadeWorkers(["x", "x"])
    assert campaign(path, again, resume=True).complete
    assert [asked["sides"][0]["request"]["number"] for asked in again.asked] == [2]
    assert load_results(path).complete
    with pytest.raises(ValueError, match="was measured by 2 at a time on one host, and would go on with 1"):
        campaign(path, MadeWorkers(["x"]), resume=True)
    with pytest.raises(ValueError, match="was of another machine"):
        campaign(path, MadeWorkers(["y", "y"]), resume=True)


def test_what_fails_before_anything_was_measured_is_not_tried_on_and_on(tmp_path: Path) -> None:
    workers = MadeWorkers(["x", "x"], fails=lambda number: True)
    made = campaign(tmp_path / "made.json", workers)
    assert len(made.failures) == len(workers.asked) == 3
    assert not [*tmp_path.iterdir()]


def test_another_process_measures_memory_where_the_first_one_fails(tmp_path: Path) -> None:
    made = campaign(tmp_path / "made.json", MadeWorkers(["x", "x"], fails=lambda number: number == 0))
    assert len(made.failures) == 1
    assert load_results(tmp_path / "made.json").performances["a"].memory
    assert load_results(tmp_path / "made.json").done == 4


def test_the_one_that_all_others_need_is_tried_again_and_they_are_not_lost_in_silence(tmp_path: Path) -> None:
    failed: list[int] = []

    def once(number: int) -> bool:
        failed.append(number)
        return number == 0 and failed.count(0) == 1

    made = campaign(tmp_path / "made.json", MadeWorkers(["x", "x"], fails=once, last=True))
    assert made.complete
    assert load_results(tmp_path / "made.json").complete
    never = campaign(tmp_path / "never.json", MadeWorkers(["x", "x"], fails=lambda number: number == 0, last=True))
    assert "process 0 failed" in never.failures[0]
    assert "4 processes that ended well are not kept" in never.failures[1]
    assert not (tmp_path / "never.json").exists()


def test_a_change_and_its_base_take_turns_on_one_worker(tmp_path: Path) -> None:
    workers = MadeWorkers(["x", "x"])
    assert campaign(tmp_path / "made.json", workers, Plan("made", (1,), processes=12), sides=2).complete
    orders = [[side["folder"] for side in asked["sides"]] for asked in workers.asked]
    assert all(sorted(order, key=str) == sorted([None, str(tmp_path)], key=str) for order in orders)
    assert len({order[0] for order in orders}) == 2
    new, base = (load_results(tmp_path / name).performances["a"] for name in ("made.json", "made-base.json"))
    assert places(new) == places(base)


def test_a_worker_with_other_code_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workers = MadeWorkers(["x", "y"])
    monkeypatch.setattr(workers, "joined", lambda rank: {**MadeWorkers.joined(workers, rank), "error": "it has ..."})
    with pytest.raises(ValueError, match=r"worker 0 \(host of x, core \d+\): it has \.\.\."):
        campaign(tmp_path / "made.json", workers)
    assert code_version() != code_version(tmp_path)


def test_messages_are_json_with_functions_by_name_and_errors_as_text() -> None:
    function, arguments, rest = _read(bytearray(_written((join, ({"a": [1, None]},), {}))))
    assert function is join
    assert (arguments, rest) == ([{"a": [1, None]}], {})
    result, error = _read(_written((None, ZeroDivisionError("no reason"))))
    assert result is None
    assert str(error) == "ZeroDivisionError: no reason"
    with pytest.raises(ValueError, match="must be a function at the top level of a module"):
        _written(lambda: None)
    with pytest.raises(TypeError, match="not bytes"):
        _written(b"")


def test_three_ranks_measure_on_cores_of_their_own_and_name_a_process_that_dies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "made.json"
    monkeypatch.setattr(campaign_face, "take_part", campaign_programs.take_part)
    model = ["--model", "tests.perf.benchmarking.made:two", "--batches", "1"]
    assert main(["bench", *model, "--processes", "4", "--mpi", "--workers", "2", "--json", str(target)]) == 1
    said = capsys.readouterr()
    assert f"kept in {target}" in said.out
    assert re.match(
        r"tinytorch bench: worker [01] \(.*\): process 3 failed and stays open: it died of SIGKILL\n", said.err
    )
    made = load_results(target)
    assert open_numbers(made) == [3]
    enough = len(usable_cores()) > 1
    for place, times in zip(places(made.performances["a"]), made.performances["a"].times[1], strict=True):
        assert times.how["cores"] == (place["cores"] if place["pinned"] else allowed_cores())
        assert place["cores"][0] in usable_cores()
        assert place["oversubscribed"] == (not enough)
    first, second = (place for place in places(made.performances["a"]) if place["process"] < 2)
    assert (first["cores"] != second["cores"]) == enough


def test_a_host_is_described_as_a_run_without_workers_describes_it() -> None:
    asked = {"subject": "tests.perf.benchmarking.made:two", "input_shape": None}
    told = answer_of("tinytorch.perf.benchmarking.preparation", asked)
    assert started(PLAN, {}, told["identity"]).fingerprint == started(PLAN, {}).fingerprint
    assert prepared("no_such:thing", None)["error"].startswith("module 'no_such' cannot be imported")


def machine(tmp_path: Path, done: int) -> Machine:
    """Return a machine that has measured that many of two processes."""
    return Machine("x", ("node",), 2, (tmp_path / "x.json",), done, 2)


def test_what_is_left_open_is_told_with_an_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        bench_campaign, "start_campaign", lambda *_: Campaign((machine(tmp_path, 0),), ("process 1 failed",))
    )
    options = ["bench", "--suite", "mlp", "--mpi", "--json", str(tmp_path / "x.json")]
    assert main(options) == 1
    told = capsys.readouterr().err
    assert told == "tinytorch bench: process 1 failed\ntinytorch bench: --resume measures what is left open\n"

    def dies(*_: Any) -> Campaign:
        raise RankError("rank 1 (node, process 7) died of SIGKILL")

    monkeypatch.setattr(bench_campaign, "start_campaign", dies)
    assert main(options) == 2
    assert "rank 1 (node, process 7) died of SIGKILL; --resume goes on with" in capsys.readouterr().err


def test_what_cannot_be_done_is_said_before_any_rank_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["bench", "--suite", "mlp", "--workers", "2", "--json", "x.json"]) == 2
    assert "--workers is for --mpi" in capsys.readouterr().err
    assert main(["bench", "--suite", "mlp", "--mpi", "--workers", "0", "--json", "x.json"]) == 2
    assert "workers must be at least 1, not 0" in capsys.readouterr().err
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    assert main(["bench", "--suite", "mlp", "--mpi", "--json", str(tmp_path / "x.json")]) == 2
    assert 'pip install "tinytorch[mpi]"' in capsys.readouterr().err
    with pytest.raises(ValueError, match="workers must be at least 1"):
        start_campaign([], 0)
    assert started_by_launcher({"PMI_RANK": "1"})
    assert not started_by_launcher({"SLURM_JOB_ID": "1", "HOME": "/"})
