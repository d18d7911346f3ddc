"""A machine that others keep busy is said to be, and claims that rest on disturbed numbers are not judged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tinytorch.perf.host.background_load import Neighbours
from tinytorch.perf.host.pinned_threads import allowed_cores
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.comparison import CANNOT_TELL
from tinytorch.report import Page
from tinytorch.report.claims import REFUTED, SUPPORTED
from tinytorch.report.provenance import WITHHELD, WITHHELD_WORD, caution, had_less_than_a_core


def timed(share: float, threads: int = 1) -> Measurement:
    how = {"cpu_per_wall": share, "blas_threads": threads}
    return Measurement("work", (1.0, 1.1, 1.2, 1.3, 1.4, 1.5), "s", how)


def judged(share: float, others: float, monkeypatch: pytest.MonkeyPatch, threads: int = 1) -> list[dict[str, Any]]:
    """Return a claim, a word that names its number and one that does not."""
    monkeypatch.setattr(Neighbours, "cores", lambda _: others)
    page = Page("busy")
    page.number("time", timed(share, threads))
    page.claim("slow", statement="Slow.", source="Folklore", verdict=SUPPORTED, evidence="It took {time}.")
    page.word("named", "slow", because="it took {time}")
    page.word("besides", "slow", because="it took long", numbers=["time"])
    return [record.to_json() for record in page.records[-3:]]


def test_a_claim_and_a_word_on_a_disturbed_number_are_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    claim, named, besides = judged(0.5, 1.0, monkeypatch)
    assert claim["verdict"] == named["word"] == besides["word"] == CANNOT_TELL
    assert claim["evidence"] == f"It took {{time}}. {WITHHELD}"
    assert named["because"] == f"{WITHHELD_WORD}: it took {{time}}"
    assert besides["because"] == f"{WITHHELD_WORD}: it took long"


@pytest.mark.parametrize(
    ("share", "others", "threads"),
    [(1.0, 1.0, 1), (0.5, 0.0, 1), (0.5, 1.0, 2)],
    ids=["it had its core", "it waited for itself", "what several threads should have is not known"],
)
def test_others_are_judged(share: float, others: float, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    claim, named, besides = judged(share, others, monkeypatch, threads)
    assert (claim["verdict"], named["word"], besides["word"]) == (SUPPORTED, "slow", "slow")


def test_a_word_rests_on_numbers_of_its_page() -> None:
    with pytest.raises(ValueError, match="names time, which page 'busy' has not recorded"):
        Page("busy").word("slow", "slow", because="it took long", numbers=["time"])


def test_what_the_conditions_do_not_say_is_not_known() -> None:
    assert had_less_than_a_core({"how": {}}) is None
    assert had_less_than_a_core({"kind": "absent"}) is None


def test_a_page_is_called_disturbed_if_many_of_its_numbers_were() -> None:
    quiet, busy = ({"how": {"cpu_per_wall": share, "blas_threads": 1}} for share in (1.0, 0.4))
    assert caution([]) is None
    assert caution([quiet] * 9 + [busy] * 1) is None
    said = caution([quiet] * 3 + [busy] * 1)
    assert said is not None
    assert said.startswith("1 of the 4 numbers timed on one thread had less than 90% of a core")


PAGE = """
import json, os, sys
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
import numpy as np
from tinytorch.perf.measuring.comparison import compare_paired
from tinytorch.perf.measuring import interleave, limit_blas_threads
from tinytorch.report import Page
from tinytorch.report.claims import verdict_between
limit_blas_threads(1)
page = Page("both")
data = np.ones(1_000_000)
def root(): np.sqrt(data, out=data)
times = interleave({"once": root, "twice": lambda: (root(), root()), "again": root}, repeats=30, at_most_seconds=2)
for name, low in (("twice", 1.5), ("again", 1.5)):
    made = compare_paired(times[name], times["once"])
    page.compare(name, made)
    page.number(f"{name}-time", times[name])
    page.claim(f"{name}-takes-longer", statement="Longer.", source="Folklore",
               verdict=verdict_between(made.ratio, low=low), evidence=f"{{{name}}} in {{{name}-time}}")
print(json.dumps([record.to_json() for record in page.records]))
"""


def verdicts_of(page: str) -> tuple[dict[str, str], list[dict[str, Any]]]:
    records = json.loads(page.splitlines()[-1])
    said = {r["key"]: r["verdict"] if r["kind"] == "claim" else r["word"] for r in records if r["kind"] in KINDS}
    return said, records


KINDS = ("claim", "verdict")
#: Whether a process may choose its core; where none may, a page waits only if all cores are busy.
CHOOSES = hasattr(os, "sched_setaffinity")
UNDECIDED = (CANNOT_TELL,)


def run(beside: int) -> str:
    """Return what the page says beside so many processes that keep its core busy."""
    cores = allowed_cores()
    pin = f"import os; os.sched_setaffinity(0, [{cores[0]}]); " if CHOOSES else ""
    count = beside if CHOOSES else beside * len(cores)
    busy = [subprocess.Popen([sys.executable, "-S", "-c", pin + "exec('while True: pass')"]) for _ in range(count)]
    try:
        return subprocess.run([sys.executable, "-c", PAGE], capture_output=True, text=True, check=True).stdout
    finally:
        for process in busy:
            process.kill()
            process.wait()


def test_beside_busy_processes_no_verdict_contradicts_that_of_a_quiet_run() -> None:
    quiet, _ = verdicts_of(run(0))
    busy, records = verdicts_of(run(1))
    assert set(busy) == {"twice-verdict", "again-verdict", "twice-takes-longer", "again-takes-longer"}
    contradictions = {key for key in busy if busy[key] != quiet[key] and not {busy[key], quiet[key]} & set(UNDECIDED)}
    assert contradictions == set()
    assert SUPPORTED not in (quiet["again-takes-longer"], busy["again-takes-longer"])
    assert REFUTED not in (quiet["twice-takes-longer"], busy["twice-takes-longer"])
    # Between the turns of others samples may be whole; what was cut short is not judged.
    short = {record["key"] for record in records if had_less_than_a_core(record)}
    assert [name for name in ("twice", "again") if name in short and busy[f"{name}-takes-longer"] != CANNOT_TELL] == []
