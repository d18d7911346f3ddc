"""Stacks of another process that runs the same Python, read from its memory while it runs.

The process is neither stopped nor changed: Linux shows its memory as the file ``/proc/PID/mem`` to whoever may debug
it, which includes the process that started it. A look costs some microseconds for each thread and page of frames, and
none of the program's time unless all cores are busy. What is read may change meanwhile, so that a look reads in one
call of the system what it read the last time, within about a microsecond, and reads again if the frames do not end
where those of this thread do: a call that is shorter than that can be taken for its neighbour.

CPython keeps the frame of each call, with the instruction that it executes, in structures whose layout differs between
versions. `layout` finds the offsets by looking for known values in this process, so that no version is written down.
"""

from __future__ import annotations

import ctypes
import dis
import opcode
import os
import struct
import sys
import threading
import types
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache
from itertools import islice
from typing import Any, Final, NamedTuple

#: Bytes that are read at once of frames.
_PAGE = 4096
#: Pages of frames that are read at once, and how often a stack is read that changes meanwhile.
_MOST_PAGES, _TRIES = 64, 6
#: Readings in a row that must end in the same outermost frame before one is taken for that of the thread, for the
#: first one and for another: where a generator goes on all the time, a third of the readings end in its frame. And
#: the part of the looks from which on one reading will do.
_IN_A_ROW, _IN_A_ROW_OF_ANOTHER, _USUAL = 5, 8, 1 / 8
#: Bytes that are read at once of a text or a table, most of which are shorter.
_PART = 320
#: Words of a thread's state, and of the larger structures that lead to it, that are searched for known values.
_THREAD_WORDS, _STATE_WORDS = 64, 8192
#: Frames of a stack that are read, from the innermost one on, and threads of a process.
DEEPEST, _MOST_THREADS = 2000, 4096
#: Characters of a name, or bytes of a table of lines, beyond which what was read is no code.
_LONGEST: Final = 10_000_000
#: Looks after which a process that has not begun with Python is asked for it more rarely.
_OFTEN = 32
#: Addresses of a program lie below this.
_TOP = 1 << 47
#: Reference tags of newer versions.
_TAGS = 3


class Place(NamedTuple):
    """Where a thread was: a file, a function, the line that it begins at, and the line and instruction that ran.

    ``columns`` are line, last line, column and last column of the instruction, as ``CodeType.co_positions`` has them;
    ``compiled`` says that the instruction calls compiled code, which only the innermost place can.
    """

    file: str
    function: str
    first: int
    line: int
    columns: tuple[int | None, ...]
    compiled: bool


class Layout(NamedTuple):
    """Where CPython keeps what leads to the stacks: offsets in bytes.

    Attributes:
        library: path of the file that holds the interpreter, whose addresses are relative to where it is loaded.
        runtime, code_type, text_type: of the runtime's state and of two types, relative to the library.
        interpreter, threads: of the first interpreter in the runtime, and of the first thread in an interpreter.
        next, owner, native: of the next thread, of its interpreter and of its system's number, in a thread.
        frame: of the innermost frame in a thread, or of what holds it at ``within``.
        code, previous, instruction, first_local: words of a frame.
        file, name, line, table: of a code object; its instructions begin at ``body``.
        attributes, thread_name: of a Thread's attributes and its name in them; None if they are in the object.
    """

    library: str
    runtime: int
    code_type: int
    text_type: int
    interpreter: int
    threads: int
    next: int
    owner: int
    native: int
    frame: int
    within: int | None
    code: int
    previous: int
    instruction: int
    first_local: int
    file: int
    name: int
    line: int
    table: int
    body: int
    attributes: tuple[int, int, int] | None


class UnreadableError(Exception):
    """Stacks of a process cannot be read; the message says why."""


@cache
def layout() -> Layout:
    """Return where this Python keeps its stacks.

    Raises:
        UnreadableError: if the system does not show memory, or this Python keeps them elsewhere.
    """
    if not os.path.exists("/proc/self/mem") or not hasattr(os, "pidfd_open"):
        raise UnreadableError(
            "this system does not let a program read the memory of another, as Linux 5.3 and later do"
        )
    seen: list[Layout | Exception] = []

    def search() -> None:
        try:
            seen.append(_searched())
        except (OSError, ValueError, IndexError, struct.error, OverflowError) as error:
            seen.append(error)

    # A thread of its own: it is the interpreter's newest one, which the interpreter names first.
    thread = threading.Thread(target=search)
    thread.start()
    thread.join()
    if isinstance(seen[0], Layout):
        return seen[0]
    version = sys.version.split()[0]
    raise UnreadableError(f"the profiler cannot read the stacks of Python {version}") from seen[0]


def _searched() -> Layout:
    """Return the layout, as the values of this thread show it."""
    memory = os.open("/proc/self/mem", os.O_RDONLY)
    try:
        return _layout_of(memory)
    finally:
        os.close(memory)


def _layout_of(memory: int) -> Layout:
    api = ctypes.pythonapi
    for function in (api.PyThreadState_Get, api.PyInterpreterState_Get):
        function.restype = ctypes.c_void_p
    thread, interpreter = api.PyThreadState_Get(), api.PyInterpreterState_Get()
    runtime = ctypes.addressof(ctypes.c_char.in_dll(api, "_PyRuntime"))
    library, base = _library(ctypes.cast(api.Py_IsInitialized, ctypes.c_void_p).value or 0)

    def words(address: int, count: int) -> list[int]:
        with suppress(OSError):
            if 0 < address < _TOP:
                data = os.pread(memory, 8 * count, address)
                return [*struct.unpack(f"{len(data) // 8}Q", data[: len(data) // 8 * 8])]
        return []

    state = words(thread, _THREAD_WORDS)
    owner = state.index(interpreter)
    following = next(at for at, word in enumerate(state) if word != thread and interpreter in words(word, 8)[:8])
    frame, within, (code, previous, instruction, first_local) = _frame_offsets(memory, thread)
    # A code object whose parts are like nothing else.
    made = compile("0", "a file", "exec").replace(co_qualname="a qualified name", co_firstlineno=123_454_321)
    head = os.pread(memory, types.CodeType.__basicsize__, id(made))
    parts = [*struct.unpack(f"{len(head) // 8}Q", head[: len(head) // 8 * 8])]
    numbers = [*struct.unpack(f"{len(head) // 4}i", head[: len(head) // 4 * 4])]
    me: Any = threading.current_thread()
    return Layout(
        library=library,
        runtime=runtime - base,
        code_type=id(types.CodeType) - base,
        text_type=id(str) - base,
        interpreter=8 * words(runtime, _STATE_WORDS).index(interpreter),
        threads=8 * words(interpreter, _STATE_WORDS).index(thread),
        next=8 * following,
        owner=8 * owner,
        native=8 * state.index(threading.get_native_id()),
        frame=frame,
        within=within,
        code=code,
        previous=previous,
        instruction=instruction,
        first_local=first_local,
        file=8 * parts.index(id(made.co_filename)),
        name=8 * parts.index(id(made.co_qualname)),
        line=4 * numbers.index(made.co_firstlineno),
        table=8 * parts.index(id(made.co_linetable)),
        body=types.CodeType.__basicsize__,
        attributes=_attribute(words, id(me), id(me._name)),
    )


def _frame_offsets(memory: int, thread: int) -> tuple[int, int | None, tuple[int, int, int, int]]:
    """Return where a thread's state has its innermost frame, which is this function's, and that has its parts.

    A call of another function of Python would have another frame, so that everything is done here.
    """
    here = sys._getframe()
    outer, pread, unpack = here.f_back, os.pread, struct.unpack
    assert outer is not None
    (frame,) = unpack("Q", pread(memory, 8, id(here) + 24))
    (around,) = unpack("Q", pread(memory, 8, id(outer) + 24))
    at, within = -1, None
    state = unpack(f"{_THREAD_WORDS}Q", pread(memory, 8 * _THREAD_WORDS, thread))
    if frame in state:
        at = state.index(frame)
    else:
        for number, word in enumerate(state):
            with suppress(OSError, struct.error):
                held = unpack("2Q", pread(memory, 16, word)) if 0 < word < _TOP else ()
                if frame in held:
                    at, within = number, 8 * held.index(frame)
                    break
    if at < 0:
        raise ValueError("no frame")
    parts = [word & ~_TAGS for word in unpack("16Q", pread(memory, 128, frame))]
    code = parts.index(id(here.f_code))
    start = id(outer.f_code) + types.CodeType.__basicsize__
    # Of the calling function, which executes the same instruction all the while.
    there = unpack("16Q", pread(memory, 128, around))
    instruction = there.index(start + outer.f_lasti)
    return 8 * at, within, (8 * code, 8 * parts.index(around), 8 * instruction, 8 * parts.index(id(memory)))


def _attribute(words: Callable[[int, int], list[int]], thing: int, value: int) -> tuple[int, int, int] | None:
    """Return where an object holds a value: in itself, or (offset, tag, offset) of a table of values."""
    for at in range(-8, 16):
        (word,) = words(thing + 8 * at, 1) or (0,)
        if word == value:
            return 8 * at, 0, -1
        for tag in (0, 1):  # one version marks the address of values by one less
            held = words(word + tag, 40)
            if value in held:
                return 8 * at, tag, 8 * held.index(value)
    return None


def _library(address: int, process: int | str = "self", path: str | None = None) -> tuple[str, int]:
    """Return the file that is loaded at an address, or has this path, and where it begins; ("", 0) if none."""
    first: dict[str, int] = {}
    with open(f"/proc/{process}/maps", "rb") as maps:
        for line in maps:
            words = line.split(None, 5)
            if len(words) < 6:
                continue
            low, high = (int(end, 16) for end in words[0].split(b"-"))
            name = os.fsdecode(words[5].rstrip(b"\n"))
            first.setdefault(name, low)
            if name == path or low <= address < high:
                return name, first[name]
    return "", 0


class _Code(NamedTuple):
    """A function of the process: what its code object says, and how long its instructions are in bytes."""

    head: bytes
    file: str
    function: str
    first: int
    table: bytes
    length: int


#: What stands for no code: frames that are of the interpreter's own.
_NONE = _Code(b"", "", "", 0, b"", 0)
#: Seconds for which a code object is taken to be where it was.
_FRESH = 0.25
#: Name of the code by which version 3.12 enters the interpreter from compiled code.
_TRAMPOLINE = "<interpreter trampoline>"
_NOP = opcode.opmap["NOP"].to_bytes(1, "little") + b"\0"
_NAMES: list[str] = getattr(dis, "_all_opname", list(opcode.opname))
#: Operators that the interpreter leaves to the type of the operands, unless it has specialized the instruction.
_OPERATORS = frozenset({
    "BINARY_OP", "BINARY_SUBSCR", "BINARY_SLICE", "STORE_SUBSCR", "STORE_SLICE", "DELETE_SUBSCR", "COMPARE_OP",
    "CONTAINS_OP", "UNARY_NEGATIVE", "UNARY_INVERT", "UNARY_POSITIVE", "IMPORT_NAME",
})  # fmt: skip


class Seen(NamedTuple):
    """One thread at one look: the system's number, its name, and the number of its stack."""

    thread: int
    name: str
    stack: int


class _ChangedError(Exception):
    """What was read changed meanwhile."""


class _Range(ctypes.Structure):
    """A range of memory, as ``struct iovec`` of the system has it."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


_read_ranges = ctypes.CDLL(None).process_vm_readv
_read_ranges.restype = ctypes.c_ssize_t


class _Window:
    """What is read of a thread in one call: its state, what holds its innermost frame, and pages of frames.

    Attributes:
        data: what the last `read` got.
        holder: address of what holds the innermost frame, which ``data`` has at ``held``; 0 if it is not read.
        pages: where ``data`` has a page of frames, by the page's address.
    """

    def __init__(self, process: int, thread: int, holder: int = 0, pages: Iterable[int] = ()) -> None:
        self.holder, self._process = holder, process
        ranges = [(thread, 8 * _THREAD_WORDS), *([(holder, 8)] if holder else [])]
        self.held = 8 * _THREAD_WORDS
        size = sum(length for _, length in ranges)
        self.pages: dict[int, int] = {}
        for page in sorted(pages)[:_MOST_PAGES]:
            self.pages[page] = size
            size += _PAGE
            ranges.append((page, _PAGE))
        self.data = ctypes.create_string_buffer(size)
        self._local = _Range(ctypes.addressof(self.data), size)
        self._remote = (_Range * len(ranges))(*(_Range(*each) for each in ranges))
        self._size = size

    def read(self) -> bool:
        """Read it all; return whether it was there."""
        local, remote = ctypes.byref(self._local), self._remote
        return bool(_read_ranges(self._process, local, 1, remote, len(remote), 0) == self._size)


class _Bottoms:
    """Outermost frames in which the stacks of a thread ended."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._last = self._row = 0

    def is_one(self, frame: int) -> bool:
        """Return whether a reading that ends in this frame is whole: most did, or the last ones all do."""
        self._row = self._row + 1 if frame == self._last else 1
        self._last = frame
        needed = _IN_A_ROW_OF_ANOTHER if self._counts.total() else _IN_A_ROW
        whole = self._counts[frame] > _USUAL * self._counts.total() or self._row >= needed
        self._counts[frame] += whole
        return whole


class RemoteStacks:
    """Reads the stacks of a process, which may not have begun with Python yet.

    ``stacks`` are those that were seen, by number, each from the innermost frame outwards: whether it calls compiled
    code, then pairs of a code's number and an instruction. `places` makes them legible, also when the process is over.

    Raises:
        UnreadableError: if the system does not let this process read it.
    """

    def __init__(self, process: int) -> None:
        self.process = process
        self.stacks: list[tuple[int, ...]] = []
        self._known: dict[tuple[int, ...], int] = {}
        self._layout = layout()
        self._codes: list[_Code] = [_NONE]
        # Address of a code object: its number, until when it is taken to be there, and where its instructions lie.
        self._at: dict[int, tuple[int, float, int, int]] = {}
        self._names: dict[int, str] = {}
        self._windows: dict[int, _Window] = {}  # by the address of the thread's state, as are the outermost frames
        self._bottoms: defaultdict[int, _Bottoms] = defaultdict(_Bottoms)
        words = self._layout.code, self._layout.previous, self._layout.instruction
        self._words = struct.Struct(f"{max(words) // 8 + 1}Q")
        self._memory = -1
        self._base = self._interpreter = self._tries = 0
        self._open()

    def _open(self) -> None:
        self.close()
        self._base = self._interpreter = self._tries = 0
        for known in (self._at, self._names, self._windows, self._bottoms):
            known.clear()
        try:
            self._memory = os.open(f"/proc/{self.process}/mem", os.O_RDONLY)
        except PermissionError:
            raise UnreadableError(f"the system does not let this process read process {self.process}") from None
        except OSError:
            self._memory = -1  # it is over

    def close(self) -> None:
        """Read no more."""
        if self._memory >= 0:
            os.close(self._memory)
            self._memory = -1

    @property
    def ready(self) -> bool:
        """Whether it runs this Python, as far as it is known by now."""
        return bool(self._interpreter)

    def _word(self, address: int) -> int:
        (word,) = struct.unpack("Q", os.pread(self._memory, 8, address))
        return int(word)

    def _begun(self) -> bool:
        """Return whether its interpreter has begun, having looked for it where that is not known yet."""
        self._tries += not self._base
        if not self._base and (self._tries < _OFTEN or not self._tries % _OFTEN):
            with suppress(OSError):
                _, self._base = _library(-1, self.process, self._layout.library)
        if self._base and not self._interpreter:
            try:
                self._interpreter = self._word(self._base + self._layout.runtime + self._layout.interpreter)
            except (OSError, struct.error):  # the memory that was opened is that of the program before
                with suppress(UnreadableError):
                    self._open()
        return bool(self._interpreter)

    def look(self, now: float) -> list[Seen]:
        """Return what each thread runs at this moment; nothing before Python has begun, and when it is over.

        Args:
            now: seconds on any clock.
        """
        if self._memory < 0:  # it is over, or began another program when it was last opened
            with suppress(UnreadableError):
                self._open()
        if self._memory < 0 or not self._begun():
            return []
        where, found = self._layout, []
        try:
            thread = self._word(self._interpreter + where.threads)
            for _ in range(_MOST_THREADS):
                if not 0 < thread < _TOP:
                    break
                state, stack = self._read(thread, now)
                if struct.unpack_from("Q", state, where.owner)[0] != self._interpreter:
                    break  # it ended meanwhile
                (native,) = struct.unpack_from("Q", state, where.native)
                if native and stack is not None:
                    found.append(Seen(native, self._names.get(native, ""), stack))
                (thread,) = struct.unpack_from("Q", state, where.next)
        except (OSError, struct.error, OverflowError, IndexError):  # the process may be over
            if not found:
                with suppress(UnreadableError):
                    self._open()  # it runs another program by now, or is over
        if found and not any(map(self._is_thread, found)):
            # It was just made, and shows the memory of the process that made it, until it runs a program of its own.
            with suppress(UnreadableError):
                self._open()
            return []
        return found

    def _is_thread(self, seen: Seen) -> bool:
        return seen.thread == self.process or os.path.exists(f"/proc/{self.process}/task/{seen.thread}")

    def _read(self, thread: int, now: float) -> tuple[bytes, int | None]:
        """Return the state of a thread and the number of its stack, None if that changed whenever it was read."""
        state = b""
        for _ in range(_TRIES):
            window = self._windows.get(thread)
            if window is None or not window.read():
                window = self._windows[thread] = _Window(self.process, thread)
                if not window.read():
                    raise OSError(f"thread at {thread:x} is over")
            state = window.data.raw[: 8 * _THREAD_WORDS]
            try:
                frames = self._frames(thread, window)
                if len(frames) == DEEPEST or self._bottoms[thread].is_one(frames[-1][2] if frames else 0):
                    return state, self._stack(state, frames, now)
            except (OSError, struct.error, OverflowError, IndexError, _ChangedError):
                continue
        return state, None

    def _frames(self, thread: int, window: _Window) -> list[tuple[int, int, int]]:
        """Return code, instruction and address of each frame, from the innermost outwards.

        Sees to it that the next reading has what this one had not.

        Raises:
            _ChangedError: if what was read leads nowhere.
        """
        where, data, known = self._layout, window.data, window.pages
        (frame,) = struct.unpack_from("Q", data, where.frame)
        holder, size = 0, self._words.size
        if where.within is not None:
            holder = frame + where.within
            (frame,) = struct.unpack_from("Q", data, window.held) if holder == window.holder else (self._word(holder),)
        pages: dict[int, None] = {}
        frames: list[tuple[int, int, int]] = []
        missing = holder != window.holder
        while 0 < frame < _TOP and len(frames) < DEEPEST:
            page = frame & ~(_PAGE - 1)
            pages[page] = None
            at = known.get(page)
            within = frame - page
            if within > _PAGE - size:
                pages[page + _PAGE] = None
                at = at if at is not None and known.get(page + _PAGE) == at + _PAGE else None
            if at is None:
                missing = True
                words = self._words.unpack(os.pread(self._memory, size, frame))
            else:
                words = self._words.unpack_from(data, at + within)
            frames.append((words[where.code // 8] & ~_TAGS, words[where.instruction // 8], frame))
            frame = words[where.previous // 8]
        if missing or len(known) > 2 * len(pages) + 2:
            # What another reading needed is kept for a while: a stack that changes comes back to it.
            kept = known if missing and len(known) + len(pages) <= _MOST_PAGES else ()
            self._windows[thread] = _Window(self.process, thread, holder, {*pages, *kept})
        if frame and len(frames) < DEEPEST:
            raise _ChangedError
        return frames

    def _stack(self, state: bytes, frames: Sequence[tuple[int, int, int]], now: float) -> int:
        """Return the number of the stack of these frames."""
        where = self._layout
        stack, outermost = [0], 0
        for address, instruction, frame in frames:
            kept = self._at.get(address)
            if kept is not None and kept[1] > now and kept[2] <= instruction < kept[3]:
                number = kept[0]
            else:
                number = self._code(address, instruction, now)
            if number:
                if not outermost:
                    stack[0] = self._calls(instruction)
                stack += (number, instruction - address - where.body)
                outermost = frame
        (native,) = struct.unpack_from("Q", state, where.native)
        if native not in self._names and len(stack) > 1:
            self._names[native] = self._thread_name(native, stack[-2], outermost)
        key = tuple(stack)
        place = self._known.get(key)
        if place is None:
            place = self._known[key] = len(self.stacks)
            self.stacks.append(key)
        return place

    def _calls(self, instruction: int) -> int:
        """Return 1 if the instruction at an address calls compiled code or an operator of a type, else 0."""
        name = _NAMES[os.pread(self._memory, 1, instruction)[0]]
        return int("CALL" in name or name in _OPERATORS)

    def _code(self, address: int, instruction: int, now: float) -> int:
        """Return the number of the code at an address, 0 for frames without any.

        Raises:
            _ChangedError: if it is none that has this instruction.
        """
        where = self._layout
        head = os.pread(self._memory, where.body, address) if 0 < address < _TOP else b""
        if len(head) < where.body or struct.unpack_from("Q", head, 8)[0] != self._base + where.code_type:
            self._at[address] = 0, now + _FRESH, 0, _TOP
            return 0
        words = [head[at : at + 8] for at in (16, where.file, where.name, where.table)]
        mark = b"".join([*words, head[where.line : where.line + 4]])
        kept = self._at.get(address)
        number = kept[0] if kept is not None and self._codes[kept[0]].head == mark else 0
        if not number:
            length, file, name, table = (int.from_bytes(word, "little") for word in words)
            (first,) = struct.unpack_from("i", head, where.line)
            texts = self._text(file), self._text(name)
            if None in texts or not 0 < length < _LONGEST:
                raise _ChangedError
            if texts[1] == _TRAMPOLINE:
                self._at[address] = 0, now + _FRESH, 0, _TOP
                return 0
            number = len(self._codes)
            self._codes.append(_Code(mark, str(texts[0]), str(texts[1]), first, self._bytes(table), 2 * length))
        code, begin = self._codes[number], address + where.body
        # Code of a module is freed when it has run, and other code comes to lie there.
        self._at[address] = number, now + _FRESH * ("<module>" not in code.function), begin, begin + code.length
        if not begin - 2 <= instruction < begin + code.length:
            raise _ChangedError
        return number

    def _bytes(self, address: int) -> bytes:
        data = os.pread(self._memory, _PART, address)
        (size,) = struct.unpack_from("Q", data, 16)
        whole = data[32:] if size <= len(data) - 32 else os.pread(self._memory, min(size, _LONGEST), address + 32)
        return whole[:size]

    def _text(self, address: int) -> str | None:
        """Return the text at an address; None if there is none."""
        data = os.pread(self._memory, _PART, address) if 0 < address < _TOP else b""
        if len(data) < 40 or struct.unpack_from("Q", data, 8)[0] != self._base + self._layout.text_type:
            return None
        (length,) = struct.unpack_from("Q", data, 16)
        (state,) = struct.unpack_from("I", data, 32)
        width, begin = _form_of(state)
        if width not in _ENCODINGS or length > _LONGEST:
            return None
        size = length * width
        whole = begin + size <= len(data)
        text = data[begin : begin + size] if whole else os.pread(self._memory, size, address + begin)
        return text.decode(_ENCODINGS[width], "surrogatepass" if width > 1 else "strict")

    def _thread_name(self, native: int, code: int, outermost: int) -> str:
        """Return the name of a thread, whose outermost frame is that of a code, and at an address."""
        if native == self.process:
            return "MainThread"
        named = f"thread {native}"
        if self._layout.attributes is None or self._codes[code].function != "Thread._bootstrap":
            return named
        with suppress(OSError, struct.error, OverflowError, UnicodeDecodeError):
            thread = self._word(outermost + self._layout.first_local) & ~_TAGS
            at, tag, within = self._layout.attributes
            value = self._word(thread + at)
            return self._text(value if within < 0 else self._word(value + tag + within)) or named
        return named

    def places(self, stack: int) -> tuple[Place, ...]:
        """Return the places of a stack by its number, from the outermost to the innermost."""
        compiled, *rest = self.stacks[stack]
        pairs = [*zip(rest[::2], rest[1::2], strict=True)]
        inner = [
            _place(self._codes[code], at, bool(compiled) and not number) for number, (code, at) in enumerate(pairs)
        ]
        return tuple(reversed(inner))


_ENCODINGS = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}


@cache
def _text_form() -> tuple[int, int, int, int]:
    """Return at which bits of its state a text has the width of its characters, and that it is in ASCII.

    Then follow where the characters begin of a text in ASCII, and of another one.
    """
    texts = ["".join([character] * 99) for character in "aé∑\U0001f600"]
    states = [ctypes.c_uint32.from_address(id(text) + 32).value for text in texts]
    ascii_bit = next(bit for bit in range(2, 24) if [state >> bit & 1 for state in states] == [1, 0, 0, 0])
    width_bit = next(bit for bit in range(2, 24) if [state >> bit & 7 for state in states] == [1, 1, 2, 4])
    return width_bit, ascii_bit, sys.getsizeof(texts[0]) - 100, sys.getsizeof(texts[1]) - 100


def _form_of(state: int) -> tuple[int, int]:
    """Return how wide the characters of a text are, and where they begin."""
    width, ascii_only, of_ascii, of_others = _text_form()
    return state >> width & 7, of_ascii if state >> ascii_only & 1 else of_others


def _place(code: _Code, instruction: int, compiled: bool) -> Place:
    # A function with this table and as many instructions has the positions that the process's one has.
    alike = (lambda: None).__code__.replace(
        co_linetable=code.table, co_firstlineno=code.first, co_code=_NOP * (code.length // 2)
    )
    columns = next(islice(alike.co_positions(), max(instruction, 0) // 2, None), (None, None, None, None))
    return Place(code.file, code.function, code.first, columns[0] or code.first, columns, compiled)
