"""Engines in processes of their own: what they answer, how times pair, and what is said when something fails."""

import io
import json
from typing import Any

import pytest

from tinytorch.perf.engines import presence, turns, worker
from tinytorch.perf.engines.protocol import ENGINES
from tinytorch.perf.engines.turns import EngineError, Runner, plain_environment, race, runners, study
from tinytorch.perf.host.blas import limited_blas_threads
from tinytorch.perf.host.pinned_threads import usable_cores
from tinytorch.perf.measuring import Unmeasured
from tinytorch.perf.measuring.codec import to_json
from tinytorch.perf.measuring.comparison import compare_paired
from tinytorch.perf.measuring.conditions import Conditions


class ScriptedRunner(Runner):
    """An engine's process that answers from a script."""

    def __init__(self, name: str, seconds: list[float]) -> None:
        self.name, self._seconds = name, iter(seconds)
        self.asked: list[dict[str, Any]] = []

    def ask(self, **request: Any) -> dict[str, Any]:
        self.asked.append(request)
        if "subject" in request:
            return {"difference": 1e-7, "seconds": 1.0}
        middle = next(self._seconds)
        conditions = Conditions(inner_loops=1, cpu_per_wall=0.5 if middle > 2.5 else 1.0)
        return {"seconds": [3 * middle, middle, middle / 3][: request["runs"]], "conditions": to_json(conditions)}


def scripted(**seconds: list[float]) -> dict[str, Runner]:
    names = {"ours": "tinytorch", "kernels": "tinytorch accelerated", "onnx": "ONNX Runtime"}
    return {names[key]: ScriptedRunner(names[key], values) for key, values in seconds.items()}


def test_a_turn_is_the_median_of_its_runs_and_turns_are_neighbours() -> None:
    ours, kernels = [2.0, 2.2, 2.4, 2.6, 2.8, 3.0], [1.0, 1.1, 1.2, 1.3, 1.4, 1.5]
    raced = race(scripted(ours=ours, kernels=kernels), "mlp-1", "forward", cores=1, rounds=6)
    assert raced.times["tinytorch"].samples == tuple(ours)
    assert compare_paired(
        raced.times["tinytorch"], raced.times["tinytorch accelerated"], 0.01
    ).estimate.median == pytest.approx(2)
    assert raced.fastest().name == "tinytorch accelerated"
    assert raced.fastest(["tinytorch", "JAX"]).name == "tinytorch"
    had = [raced.times[name].conditions.cpu_per_wall for name in ("tinytorch", "tinytorch accelerated")]
    assert had == [0.5, 1.0], "the turn that had least of its core counts"
    with pytest.raises(ValueError, match="names"):
        raced.fastest(["JAX"])


def test_engines_that_cannot_train_are_left_out_of_steps() -> None:
    started = scripted(ours=[1.0] * 6, onnx=[1.0] * 6)
    assert set(race(started, "mlp-1", "step", cores=1, rounds=6).times) == {"tinytorch"}


@pytest.mark.parametrize(("subject", "rounds", "said"), [("mlp-1", 5, "least 6"), ("resnet", 6, "name")])
def test_plans_without_an_interval_or_a_subject_are_refused(subject: str, rounds: int, said: str) -> None:
    started = scripted(ours=[1.0] * 6)
    with pytest.raises(ValueError, match=said):
        race(started, subject, "forward", cores=1, rounds=rounds)
    assert started["tinytorch"].asked == []  # type: ignore[attr-defined]


@pytest.mark.parametrize(("name", "cores", "said"), [("TensorFlow", 1, "TensorFlow"), ("tinytorch", 10**6, "cores")])
def test_unknown_engines_and_more_cores_than_there_are_are_refused(name: str, cores: int, said: str) -> None:
    with pytest.raises(ValueError, match=said), runners([name], cores):
        pass


def test_a_real_process_is_checked_and_timed() -> None:
    cores = len(usable_cores())
    found = study(["tinytorch"], ["mlp-1"], ["step"], cores=cores, rounds=6)
    assert not isinstance(found, Unmeasured)
    (raced,) = found
    times = raced.times["tinytorch"]
    assert (times.n, times.unit) == (6, "s")
    assert raced.differences == {"tinytorch": 0.0}
    assert raced.cores == cores
    assert times.conditions.blas_threads == limited_blas_threads(cores)


def test_a_study_with_an_engine_that_is_not_there_says_so_and_runs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence, "available", lambda: {"tinytorch": "1"})
    found = study(["tinytorch", "JAX"], ["mlp-1"])
    assert isinstance(found, Unmeasured)
    assert found.reason.startswith("JAX is not installed where this ran")


def test_a_process_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "peers_python", lambda: "false")
    runner = Runner("tinytorch", 1)
    try:
        with pytest.raises(EngineError, match="tinytorch"):
            runner.ask(runs=1)
    finally:
        runner.close()


def test_a_worker_answers_with_the_error_and_serves_on() -> None:
    answers = io.StringIO()
    asked = [{"subject": "nothing", "phase": "forward"}, {"subject": "mlp-1", "phase": "forward"}, {"runs": 2}]
    worker.serve(ENGINES["tinytorch"], io.StringIO("\n".join(map(json.dumps, asked))), answers)
    first, second, third = map(json.loads, answers.getvalue().splitlines())
    assert "name must be one of" in first["error"]
    assert second["difference"] == 0.0
    assert len(third["seconds"]) == 2


def test_no_engine_inherits_what_steers_another(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENBLAS_CORETYPE", "KMP_BLOCKTIME", "HOME_OF_THIS_TEST"):
        monkeypatch.setenv(name, "set")
    assert {"OPENBLAS_CORETYPE", "KMP_BLOCKTIME", "HOME_OF_THIS_TEST"} & {*plain_environment()} == {"HOME_OF_THIS_TEST"}
