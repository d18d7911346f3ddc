"""Profiles of repeated runs whose differences are known, files that are none, and shares of a run."""

import dataclasses
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.perf.profiling.test_attribution import event, made_run
from tinytorch.cli import main
from tinytorch.core.layers import Linear
from tinytorch.core.tensor import Tensor
from tinytorch.perf.events.stream import Profile, median_profile
from tinytorch.perf.host.background_load import BackgroundLoad
from tinytorch.perf.host.identity import machine_label
from tinytorch.perf.measuring import between_run_variance, difference
from tinytorch.perf.measuring.between_run_variance import BetweenRunVariance
from tinytorch.perf.measuring.judge import Verdict
from tinytorch.perf.profiling import shares
from tinytorch.perf.profiling.repeated import REPEATED, RepeatedProfile, compare_profiles, repeated, tree_of

#: Of each run's times, per mille: in no order, so that nothing drifts.
NOISE = (0, 3, -2, 4, -4, 1, -1, 2, -3, 0, 2, -2)


def run(linear: int, relu: int, noise: int) -> Profile:
    """Return a run of two ops that take so many ms, and of 100 ms without a name, all with some noise in it."""
    scale = 1000 * (1000 + noise)
    first, second = linear * scale, (linear + relu) * scale
    events = (event("linear", 0, first), event("relu", first, second))
    return Profile(events, (), 0, second + 100 * scale, 1, 1, 1)


def profiles(linear: int, relu: int, noisy: int = 1) -> list[Profile]:
    return [run(linear, relu, noisy * noise) for noise in NOISE]


def runs(linear: int, relu: int, noisy: int = 1, name: str = "p", work: str = "") -> RepeatedProfile:
    """Return a profile of runs, by default of one program."""
    return repeated(name, lambda: profiles(linear, relu, noisy), work)


def verdicts(base: RepeatedProfile, new: RepeatedProfile, matters: float = 0.02) -> dict[str, str]:
    found = compare_profiles(base, new, matters)
    return {one.name: one.speedup.verdict for one in (found.whole, *found.ops)}


def test_what_is_four_times_as_fast_and_what_half_is_told_the_largest_difference_first() -> None:
    found = compare_profiles(runs(400, 100), runs(100, 200))
    first, second = found.ops[:2]
    assert (first.name, first.speedup.verdict) == ("linear (forward)", Verdict.FASTER)
    assert (second.name, second.speedup.verdict) == ("relu (forward)", Verdict.SLOWER)
    assert (float(first.speedup), first.saved) == pytest.approx((4, 0.3), rel=0.01)


def test_noise_as_large_as_the_difference_cannot_be_told_and_equal_ones_are_no_regression() -> None:
    assert verdicts(runs(200, 100, 60), runs(205, 102, 60))["the whole run"] == Verdict.OPEN
    assert set(verdicts(runs(200, 100), runs(200, 100), matters=0.5).values()) == {Verdict.NO_DIFFERENCE}


def test_the_median_of_runs_has_no_pause_of_one_of_them() -> None:
    """Each of three runs pauses in another place; without the pauses it is 200, 100 and 100 ms."""
    plain = run(200, 100, 0)
    paused = [run(900, 100, 0), run(200, 700, 0), dataclasses.replace(plain, end=plain.end + 10**9)]
    made = median_profile(paused)
    assert (made.wall_seconds, made.op_seconds) == (plain.wall_seconds, plain.op_seconds)
    assert [one.self_ns for one in made.events] == [one.self_ns for one in plain.events]
    waiting = [dataclasses.replace(one, waited=one.end - one.start - 3 * 10**8) for one in paused]
    assert median_profile(waiting).waited == 10**8  # each run ran for 300 ms, and without its pause took 400
    other = dataclasses.replace(plain, events=plain.events[:1])
    assert median_profile([paused[0], other, plain]) in (other, plain)  # they have no moments in common


def drawn(seed: int, longer: float) -> RepeatedProfile:
    """Return runs of a program in a process of its own, ``longer`` as long: 3 % between processes, 8 % between runs."""
    draw = np.random.default_rng(seed)
    process = longer * math.exp(draw.normal(0, 0.03))
    noise = [round(1000 * (process * math.exp(draw.normal(0, 0.08)) - 1)) for _ in NOISE]
    return repeated("p", lambda: [run(200, 100, one) for one in noise])


def test_what_takes_half_as_long_again_is_slower_and_the_same_is_neither() -> None:
    same = [compare_profiles(drawn(seed, 1.0), drawn(1000 + seed, 1.0)) for seed in range(40)]
    slower = [compare_profiles(drawn(seed, 1.0), drawn(1000 + seed, 1.5)) for seed in range(20)]
    verdicts_ = [{one.speedup.verdict for one in (found.whole, *found.ops)} for found in same]
    assert sum(bool(one & {Verdict.FASTER, Verdict.SLOWER}) for one in verdicts_) <= 0.05 * len(same)
    assert sum(found.whole.speedup.verdict == Verdict.SLOWER for found in slower) >= 0.9 * len(slower)


@pytest.mark.parametrize(("waited", "verdict"), [(0.0, Verdict.FASTER), (0.5, Verdict.WITHHELD)])
def test_beside_other_programs_a_run_without_its_core_has_no_verdict(
    waited: float, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BackgroundLoad, "cores", lambda _: 1.0)
    base, new = (
        [dataclasses.replace(one, waited=round(share * one.end)) for one in profiles(ms, 100)]
        for ms, share in ((200, waited), (100, 0))
    )
    found = compare_profiles(repeated("p", lambda: base), repeated("p", lambda: new))
    assert found.ops[0].speedup.verdict == verdict
    assert ["other programs kept 1.0" in each for each in found.warnings] == [True] * (verdict == Verdict.WITHHELD)


@pytest.mark.parametrize(
    ("new", "machine", "words"),
    [
        (runs(300, 100), "elsewhere", "different machines or libraries: here; elsewhere"),
        (runs(300, 100, work="input 300"), "here", "input 300"),
    ],
)
def test_between_machines_or_different_work_there_is_no_verdict_and_no_regression(
    new: RepeatedProfile, machine: str, words: str
) -> None:
    base = runs(100, 100, work="input 100" if "300" in words else "")
    found = compare_profiles(base, new, machines=("here", machine))
    assert not found.slower
    assert {one.speedup.verdict for one in (found.whole, *found.ops, *found.stacks)} == {Verdict.WITHHELD}
    assert words in found.warnings[0]


def test_what_only_one_profile_has_or_does_not_run_every_time_is_named_and_not_compared() -> None:
    made = [run(200, 100, noise) for noise in NOISE]
    some, none = ([dataclasses.replace(one, events=one.events[:1]) for one in made[:count]] for count in (1, 12))
    irregular = repeated("p", lambda: [*some, *made[1:]])
    assert [one.name for one in irregular.ops] == ["linear (forward)", "not named (between ops)"]
    assert "relu (forward)" in irregular.irregular
    found = compare_profiles(runs(200, 100, name="old"), repeated("new", lambda: none))
    assert found.only_base == ("relu (forward)",)
    assert "the profiles are of old and of new" in found.warnings


def test_ops_and_stacks_sum_to_the_run() -> None:
    made = repeated("p", lambda: [made_run()] * 6)
    for parts in (made.ops, made.stacks):
        assert sum(one.seconds.median for one in parts) == pytest.approx(made.whole.median)
    assert tree_of(made.stacks).total_ns == made_run().end
    assert {one.name for one in made.stacks} >= {
        "not named",
        "step;Net;a;linear",
        "step;backward;Net;a;linear backward",
    }


def test_the_command_has_exit_code_1_for_a_proven_slowdown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = {"fast": runs(100, 100), "slow": runs(200, 100)}
    fast, slow = (str(REPEATED.write(tmp_path / f"{name}.json", one, "here")) for name, one in made.items())
    assert REPEATED.read(slow)[0] == made["slow"]
    page = tmp_path / "diff.html"
    assert main(["diff", fast, slow, "--html", str(page)]) == 1
    assert "slower: linear (forward)" in capsys.readouterr().out
    assert 'class="box slower"' in page.read_text(encoding="utf-8")
    moved = str(REPEATED.write(tmp_path / "moved.json", made["slow"], "elsewhere"))
    assert main(["diff", fast, moved, "--html", str(page)]) == 0
    assert "machines or libraries: here; elsewhere" in capsys.readouterr().err
    assert "new: p, elsewhere" in page.read_text(encoding="utf-8")
    assert main(["diff", slow, fast]) == 0
    assert "nothing is proven to be slower" in capsys.readouterr().out
    assert main(["diff", fast, str(tmp_path / "none.json")]) == 2
    assert main(["diff", fast, fast, "--matters", "-1"]) == 2
    assert "--matters" in capsys.readouterr().err


def test_a_model_is_saved_and_read(made_machine: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "mlp", "--backward", "--save", str(tmp_path / "mlp.json"), "--repeats", "6"]) == 0
    made, machine = REPEATED.read(tmp_path / "mlp.json")
    assert machine == machine_label()
    assert (tmp_path / "mlp.json").read_text(encoding="utf-8").count(machine) == 1
    assert made.whole.n == 6
    assert {"linear (forward)", "linear (backward)", "backward (between ops)"} <= {one.name for one in made.ops}
    capsys.readouterr()


def made_step() -> None:
    x = Tensor(np.ones((8, 16), np.float32))
    (Linear(16, 16, seed=0)(x).tanh() + 1).sum()


def test_shares_of_parts_that_cover_everything_add_up_to_one() -> None:
    found = shares.shares(
        made_step, {"linear": lambda e: e.op == "linear", "rest": lambda e: e.op != "linear"}, repeats=5
    )
    np.testing.assert_allclose(np.add(found["linear"].samples, found["rest"].samples), 1)
    assert 0 < found["linear"].median < 1
    lead = difference(found["linear"], found["rest"], "they are pairs")
    np.testing.assert_allclose(lead.samples, np.subtract(found["linear"].samples, found["rest"].samples))


def test_no_share_is_more_than_the_whole_however_much_repeats_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(between_run_variance, "known_variance", lambda: BetweenRunVariance(0.5, 0.5, 1.0, 10))
    parts = {"linear": lambda e: e.op == "linear", "rest": lambda e: e.op != "linear"}
    found = shares.shares(made_step, parts, repeats=6)
    linear, rest = found["linear"].interval, found["rest"].interval
    assert 0 < linear.low < linear.high < 1
    assert (linear.low, linear.high) == pytest.approx((1 - rest.high, 1 - rest.low))
    assert shares.recorded_and_alone(made_step, repeats=6)["outside_recorded"].interval.high < 1


def test_time_outside_of_ops_is_a_share_of_the_recorded_run_and_of_the_run_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of 1000 ns recorded, ops take 400; a made_step takes 500 ns by a clock that is read before and after it."""
    made = Profile((event("linear", 100, 400), event("relu", 500, 600)), (), 0, 1000, 1, 1, 1)
    readings = iter(range(0, 100_000, 500))
    monkeypatch.setattr(shares, "_recorded", lambda made_step: made)
    monkeypatch.setattr(shares, "time", SimpleNamespace(perf_counter_ns=lambda: next(readings)))
    found = shares.recorded_and_alone(made_step, repeats=3)
    assert found["outside_recorded"].samples == pytest.approx([0.6] * 3)
    assert found["outside_alone"].samples == pytest.approx([0.2] * 3)
    assert found["slowdown"].samples == pytest.approx([2] * 3)
    assert found["alone"].samples == pytest.approx([500e-9] * 3)
    readings = iter(range(0, 100_000, 300))
    assert shares.recorded_and_alone(made_step, repeats=3)["outside_alone"].samples == (0, 0, 0)


def test_studies_say_how_much_of_a_core_they_had() -> None:
    parts = shares.shares(made_step, {"all": lambda _: True}, repeats=3)
    for one in (
        parts["all"],
        shares.recorded_and_alone(made_step, 3)["alone"],
        shares.single_calls(made_step, "a made_step", 3),
    ):
        assert one.conditions.cpu_per_wall is not None


def test_single_calls_keep_every_call() -> None:
    calls: list[int] = []
    measured = shares.single_calls(lambda: calls.append(1), "appending", 40)
    assert (measured.n, len(calls)) == (40, 40 + shares.WARM_RUNS)
    with pytest.raises(ValueError, match="calls"):
        shares.single_calls(made_step, "nothing", 0)
    with pytest.raises(ValueError, match="least"):
        shares.shares(lambda: None, {})
    with pytest.raises(ValueError, match="repeats"):
        shares.recorded_and_alone(made_step, 0)
