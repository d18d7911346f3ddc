"""Two profiles of repeated runs: made ones whose differences are known, and files that are none."""

import dataclasses
import json
import math
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.perf.profiling.test_attribution import event, made_run
from tinytorch.cli import main
from tinytorch.perf.events.stream import Profile, median_profile
from tinytorch.perf.host.background_load import BackgroundLoad
from tinytorch.perf.measuring.judge import Verdict
from tinytorch.perf.profiling.repeated import (
    RepeatedProfile,
    compare_profiles,
    load_repeated,
    repeated,
    save_repeated,
    tree_of,
)

#: Of each run's times, per mille: in no order, so that nothing drifts.
NOISE = (0, 3, -2, 4, -4, 1, -1, 2, -3, 0, 2, -2)


def run(linear: int, relu: int, noise: int) -> Profile:
    """Return a run of two ops that take so many ms, and of 100 ms without a name, all with some noise in it."""
    scale = 1000 * (1000 + noise)
    first, second = linear * scale, (linear + relu) * scale
    events = (event("linear", 0, first), event("relu", first, second))
    return Profile(events, (), 0, second + 100 * scale, 1, 1, 1)


def runs(linear: int, relu: int, noisy: int = 1) -> list[Profile]:
    return [run(linear, relu, noisy * noise) for noise in NOISE]


def verdicts(base: list[Profile], new: list[Profile], matters: float = 0.02) -> dict[str, str]:
    found = compare_profiles(repeated("p", lambda: base), repeated("p", lambda: new), matters)
    return {one.name: one.speedup.verdict for one in (found.whole, *found.ops)}


def test_what_is_twice_as_fast_and_what_half_is_told() -> None:
    found = verdicts(runs(200, 100), runs(100, 200))
    assert found["linear (forward)"] == Verdict.FASTER
    assert found["relu (forward)"] == Verdict.SLOWER
    assert found["the whole run"] in (Verdict.NO_DIFFERENCE, Verdict.OPEN)


def test_noise_as_large_as_the_difference_cannot_be_told_and_equal_ones_are_no_regression() -> None:
    assert set(verdicts(runs(200, 100, 60), runs(205, 102, 60)).values()) == {Verdict.OPEN}
    assert set(verdicts(runs(200, 100), runs(200, 100), matters=0.5).values()) == {Verdict.NO_DIFFERENCE}
    assert not compare_profiles(repeated("p", lambda: runs(200, 100)), repeated("p", lambda: runs(200, 100))).slower


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


def test_profiles_of_different_work_have_no_verdict() -> None:
    base, new = (repeated("p", partial(runs, ms, ms), f"input {ms}") for ms in (100, 300))
    found = compare_profiles(base, new)
    assert not found.slower
    assert found.whole.speedup.verdict == Verdict.WITHHELD
    assert "input 300" in found.warnings[0]


def drawn(seed: int, longer: float) -> RepeatedProfile:
    """Return runs of a program in a process of its own, ``longer`` as long: 3 % between processes, 8 % between runs."""
    draw = np.random.default_rng(seed)
    process = longer * math.exp(draw.normal(0, 0.03))
    noise = [round(1000 * (process * math.exp(draw.normal(0, 0.08)) - 1)) for _ in NOISE]
    return repeated("p", lambda: [run(200, 100, one) for one in noise])


def test_what_takes_half_as_long_again_is_slower_and_the_same_is_neither() -> None:
    same = [compare_profiles(drawn(seed, 1.0), drawn(1000 + seed, 1.0)) for seed in range(40)]
    slower = [compare_profiles(drawn(seed, 1.0), drawn(1000 + seed, 1.5)) for seed in range(20)]
    alarms = sum(
        any(one.speedup.verdict in (Verdict.FASTER, Verdict.SLOWER) for one in (found.whole, *found.ops))
        for found in same
    )
    assert alarms <= 0.05 * len(same)
    assert sum(found.whole.speedup.verdict == Verdict.SLOWER for found in slower) >= 0.9 * len(slower)


def test_runs_that_may_wander_decide_only_where_none_of_one_side_is_among_the_other_s() -> None:
    open_though_apart = 0
    for seed in range(20):
        whole = compare_profiles(drawn(seed, 1.0), drawn(1000 + seed, 1.35)).whole
        may_wander = whole.base.dependence.objection or whole.new.dependence.objection
        if may_wander and whole.base.maximum >= whole.new.minimum:
            assert whole.speedup.verdict == Verdict.OPEN
            open_though_apart += whole.speedup.interval.high < 1 / 1.02
    assert open_though_apart


def test_fewer_than_six_runs_have_no_verdict() -> None:
    assert set(verdicts(runs(200, 100)[:5], runs(100, 100)[:5]).values()) == {Verdict.OPEN}


@pytest.mark.parametrize(("waited", "verdict"), [(0.0, Verdict.FASTER), (0.5, Verdict.WITHHELD)])
def test_beside_other_programs_a_run_without_its_core_has_no_verdict(
    waited: float, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BackgroundLoad, "cores", lambda _: 1.0)
    base = [dataclasses.replace(one, waited=round(waited * one.end)) for one in runs(200, 100)]
    new = [dataclasses.replace(one, waited=0) for one in runs(100, 100)]
    found = compare_profiles(repeated("p", lambda: base), repeated("p", lambda: new))
    assert found.ops[0].speedup.verdict == verdict
    assert bool(found.warnings) == (verdict == Verdict.WITHHELD)
    assert not found.warnings or "less than a whole core while other programs kept 1.0" in found.warnings[0]


def test_between_machines_there_is_no_verdict_and_no_regression() -> None:
    base = repeated("p", lambda: runs(100, 100))
    found = compare_profiles(base, dataclasses.replace(repeated("p", lambda: runs(200, 100)), machine="elsewhere"))
    assert not found.slower
    assert {one.speedup.verdict for one in (found.whole, *found.ops, *found.stacks)} == {Verdict.WITHHELD}
    assert "different machines or libraries" in found.warnings[0]


def test_the_speedup_is_base_over_new_and_the_largest_difference_comes_first() -> None:
    found = compare_profiles(repeated("p", lambda: runs(400, 100)), repeated("p", lambda: runs(100, 120)))
    assert [one.name for one in found.ops[:2]] == ["linear (forward)", "relu (forward)"]
    assert float(found.ops[0].speedup) == pytest.approx(4, rel=0.01)
    assert found.ops[0].saved == pytest.approx(0.3, rel=0.01)


def test_what_only_one_profile_has_is_named_and_other_programs_are_a_warning() -> None:
    base = runs(200, 100)
    new = [dataclasses.replace(one, events=one.events[:1]) for one in base]
    found = compare_profiles(repeated("old", lambda: base), repeated("new", lambda: new))
    assert found.only_base == ("relu (forward)",)
    assert "the profiles are of old and of new" in found.warnings


def test_what_does_not_run_every_time_is_not_compared() -> None:
    some = runs(200, 100)
    some[3] = dataclasses.replace(some[3], events=some[3].events[:1])
    made = repeated("p", lambda: some)
    assert [one.name for one in made.ops] == ["linear (forward)", "not named (between ops)"]
    assert "relu (forward)" in made.irregular


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


def test_a_file_gives_back_what_was_saved(tmp_path: Path) -> None:
    made = repeated("p", lambda: runs(200, 100))
    assert load_repeated(save_repeated(made, tmp_path / "a.json")) == made


@pytest.mark.parametrize(
    ("text", "said"), [("{", "holds no profile"), ("[]", "holds no profile"), ('{"schema": "other"}', "--save FILE")]
)
def test_another_file_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(ValueError, match=said):
        load_repeated(tmp_path / "a.json")


def saved(tmp_path: Path, name: str, made: list[Profile]) -> str:
    return str(save_repeated(repeated("p", lambda: made), tmp_path / name))


def test_the_command_has_exit_code_1_for_a_proven_slowdown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fast, slow = saved(tmp_path, "a.json", runs(100, 100)), saved(tmp_path, "b.json", runs(200, 100))
    page = tmp_path / "diff.html"
    assert main(["diff", fast, slow, "--html", str(page)]) == 1
    said = capsys.readouterr().out
    assert "slower: linear (forward)" in said
    html = page.read_text(encoding="utf-8")
    assert 'class="box slower"' in html
    assert "https://" not in html
    assert main(["diff", slow, fast]) == 0
    assert "nothing is proven slower" in capsys.readouterr().out
    assert main(["diff", fast, fast]) == 0
    capsys.readouterr()


def test_what_cannot_be_compared_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = saved(tmp_path, "a.json", runs(100, 100))
    assert main(["diff", made, str(tmp_path / "none.json")]) == 2
    assert main(["diff", made, made, "--matters", "-1"]) == 2
    assert "--matters must be at least 0" in capsys.readouterr().err


def test_a_model_is_saved_and_read(made_machine: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "mlp.json"
    assert main(["profile", "mlp", "--backward", "--save", str(target), "--repeats", "6"]) == 0
    made = load_repeated(target)
    assert made.whole.n == 6
    assert {"linear (forward)", "linear (backward)", "backward (between ops)"} <= {one.name for one in made.ops}
    assert json.loads(target.read_text())["schema"] == made.schema
    capsys.readouterr()
