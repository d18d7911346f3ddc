"""What can be seen of the stacks of a process, however often they change, and whose time the looks at them are."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinytorch.perf.events.remote_stacks import RemoteStacks
from tinytorch.perf.events.stack_samples import Look, weighed

#: The flag of clone(2) with which a new process shows its parent's memory, as vfork(2) makes them.
CLONE_VM = 0x100


@pytest.mark.looks_into_processes
def test_a_process_that_still_shows_its_parents_memory_has_no_stack() -> None:
    library = ctypes.CDLL(None, use_errno=True)
    room = ctypes.create_string_buffer(1 << 16)
    end_of_room = (ctypes.addressof(room) + len(room)) & ~15
    process = library.clone(library.pause, ctypes.c_void_p(end_of_room), CLONE_VM | signal.SIGCHLD, None)
    assert process > 0, os.strerror(ctypes.get_errno())
    try:
        assert RemoteStacks(process).look(0.0) == []
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


#: Programs whose stacks change all the time, and what the callers of each of their functions can be.
CHANGING = {
    "generators": (
        """
def numbers():
    for number in range(10_000):
        yield number
def read():
    for _ in numbers():
        pass
while True:
    read()
""",
        {"numbers": {"read"}, "read": {"<module>"}},
    ),
    "depth": (
        """
def deep(left=100):
    if left:
        return deep(left - 1)
    for _ in range(20_000):
        pass
def flat():
    for _ in range(5_000):
        pass
while True:
    deep()
    flat()
""",
        {"deep": {"deep", "<module>"}, "flat": {"<module>"}},
    ),
}


@pytest.mark.looks_into_processes
@pytest.mark.parametrize("name", CHANGING)
def test_no_function_is_seen_below_one_that_does_not_call_it(name: str) -> None:
    """Of a stack that changes while it is read, no part is joined with one that was there before or after."""
    text, callers = CHANGING[name]
    process = subprocess.Popen([sys.executable, "-c", f"print('on', flush=True){text}"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    remote, stacks = RemoteStacks(process.pid), list[list[str]]()
    try:
        process.stdout.readline()
        while len(stacks) < 400:
            assert process.poll() is None
            seen = remote.look(time.monotonic())
            stacks += [[place.function for place in remote.places(one.stack)] for one in seen]
            time.sleep(5e-3)  # as long as a profiler waits, in which caches forget what it reads
    finally:
        remote.close()
        process.kill()
        process.communicate()
    callers = {"<module>": {""}, **callers}
    wrong = [stack for stack in stacks if any(outer not in callers[inner] for outer, inner in pairwise(["", *stack]))]
    assert len(wrong) <= len(stacks) // 100, wrong[:3]


@pytest.mark.looks_into_processes
def test_a_process_that_becomes_a_program_of_python_is_seen() -> None:
    """It was first looked at when it ran another program, as a child is that was just made."""
    program = "read line; exec \"$0\" -c 'print(1, flush=True)\nwhile True: pass'"
    process = subprocess.Popen(["sh", "-c", program, sys.executable], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    remote = RemoteStacks(process.pid)
    try:
        assert remote.look(0.0) == []
        process.stdin.write(b"go\n")
        process.stdin.flush()
        process.stdout.readline()
        # A process that has not begun with Python is asked for it more and more rarely.
        (seen,) = next(found for found in (remote.look(0.0) for _ in range(200)) if found)
        assert [place.function for place in remote.places(seen.stack)] == ["<module>"]
    finally:
        remote.close()
        process.kill()
        process.communicate()


def looks(stacks: str) -> list[Look]:
    """Return a look a millisecond, of stack 1 where a thread ran and of stack 0 where it waited."""
    return [Look(at * 1_000_000, (at + 1) * 1_000_000, int(one), 1_000_000) for at, one in enumerate(stacks)]


def clocks(stacks: str, share: float) -> list[tuple[int, int]]:
    """Return what the system's clock said at each look: in all the thread ran for this share of the time."""
    return [(int(one), round(share * at * 1_000_000)) for at, one in enumerate(stacks)]


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_looks_that_came_while_a_thread_waited_stand_for_as_long_as_it_did(share: float) -> None:
    stacks = "0001" * 25  # seen running in a quarter of the looks
    made = weighed(looks(stacks), clocks(stacks, share))
    ran, waited = (sum(look.weight for look in made if look.stack == stack) for stack in (1, 0))
    assert ran / (ran + waited) == pytest.approx(share, abs=0.01)
    assert ran + waited == pytest.approx(100_000_000)


@pytest.mark.parametrize("stacks", ["0" * 50, "1" * 50, "01" * 5])
def test_looks_of_one_kind_and_few_looks_keep_their_time(stacks: str) -> None:
    assert weighed(looks(stacks), clocks(stacks, 0.5)) == looks(stacks)


def test_without_the_systems_clock_looks_keep_their_time() -> None:
    stacks = "01" * 50
    assert weighed(looks(stacks), [(-1, 0)] * 100) == looks(stacks)


@given(st.text(alphabet="01", min_size=1, max_size=300), st.floats(0, 1))
def test_weights_sum_to_the_time_in_which_it_was_looked_at(stacks: str, share: float) -> None:
    made = weighed(looks(stacks), clocks(stacks, share))
    assert sum(look.weight for look in made) == pytest.approx(len(stacks) * 1_000_000, rel=1e-3)
    assert [look.stack for look in made] == [int(one) for one in stacks]
