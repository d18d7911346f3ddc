"""What can be seen of a process that has no stack of its own yet."""

import ctypes
import os
import signal

import pytest

from tinytorch.perf.events.remote_stacks import RemoteStacks

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
