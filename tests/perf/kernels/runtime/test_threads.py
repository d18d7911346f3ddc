"""Threads for kernels: every item once, also after they slept, from many callers, and without what a thread lacks."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tinytorch.core.op import Array
from tinytorch.perf.kernels.runtime import threads
from tinytorch.perf.kernels.runtime.threads import wait_until


def count(start: int, stop: int, found: Array) -> None:
    found[start:stop] += 1


@pytest.fixture(autouse=True)
def three(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "limit", lambda: 3)


@pytest.mark.parametrize("looking", [True, False])
@pytest.mark.parametrize("ns", [0, 200_000])
def test_every_item_is_done_once_whether_threads_look_or_sleep(
    monkeypatch: pytest.MonkeyPatch, looking: bool, ns: int
) -> None:
    monkeypatch.setattr(threads, "POSSIBLE", looking)
    monkeypatch.setattr(threads, "_LOOK_NS", ns)
    found = np.zeros(10, np.int64)
    for turn in range(300):
        threads.split(count, len(found), 1e9, found)
        assert found.tolist() == [turn + 1] * 10
        if turn % 100 == 50:
            time.sleep(0.001)  # longer than a thread looks for work


def test_a_slow_share_is_waited_for() -> None:
    def slow(start: int, stop: int, found: Array) -> None:
        time.sleep(0.002 if start else 0)
        count(start, stop, found)

    found = np.zeros(6, np.int64)
    threads.split(slow, 6, 1e9, found)
    assert found.tolist() == [1] * 6


def test_callers_on_several_threads_do_not_mix() -> None:
    def call(_: int) -> Array:
        found = np.zeros(8, np.int64)
        for _ in range(100):
            threads.split(count, len(found), 1e9, found)
        return found

    with ThreadPoolExecutor(4) as pool:
        assert [found.tolist() for found in pool.map(call, range(4))] == [[100] * 8] * 4


def test_little_work_stays_on_the_calling_thread() -> None:
    seen = []
    threads.split(lambda start, stop: seen.append((start, stop, threading.current_thread())), 100, 1.0)
    assert seen == [(0, 100, threading.current_thread())]
    assert threads.shares(100, threads.WORTH_A_THREAD_NS) == 1
    assert threads.shares(100, 2 * threads.WORTH_A_THREAD_NS) == 2
    assert threads.shares(100, 1e12) == 3
    assert threads.shares(2, 1e12) == 2


def test_waiting_ends_with_the_signal_or_with_the_time() -> None:
    signals = np.zeros(9, np.int64)
    assert not wait_until(signals, 8, 1, 1000)
    timer = threading.Timer(0.01, lambda: signals.__setitem__(8, 1))
    timer.start()
    assert wait_until(signals, 8, 1, 10**18)
    timer.join()


def test_an_error_on_a_thread_arrives() -> None:
    def fail(start: int, stop: int) -> None:
        if start:
            raise ValueError("this share fails")

    with pytest.raises(ValueError, match="share"):
        threads.split(fail, 10, 1e9)
