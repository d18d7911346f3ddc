"""Processes that a program starts: followed where they run Python, else named as unseen."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from types import CodeType, TracebackType
from typing import Any, Self

from tinytorch.perf.events import stack_samples
from tinytorch.perf.events.stack_samples import FOLLOW, Samples, follow_forks, read_samples

#: What a process of Python begins with: the sampler, and then whatever stood in this file's place.
_BEGIN = """import importlib.util, os, sys
here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [one for one in sys.path if one != here]
itself = sys.modules.pop("sitecustomize")
try:
    import sitecustomize
except ImportError:
    sys.modules["sitecustomize"] = itself
spec = importlib.util.spec_from_file_location("tinytorch_stack_samples", {path!r})
looks = importlib.util.module_from_spec(spec)
spec.loader.exec_module(looks)
looks.follow_this_process()
"""
#: Processes of Python's own that wait while others work.
_HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")


class Workers:
    """Follows the processes that are started in its body; ``samples`` and ``remarks`` say what they did.

    Args:
        below: as of `StackSampler`, for processes that are forked.
    """

    def __init__(self, below: CodeType | None = None) -> None:
        self._below = below
        self._folder: Path | None = None
        self._started: list[str] = []
        self._search: str | None = None
        self.samples: list[Samples] = []
        self.remarks: list[str] = []

    def __enter__(self) -> Self:
        global _watching
        try:
            self._folder = Path(tempfile.mkdtemp(prefix="tinytorch-"))
            begin = self._folder / "begin"
            begin.mkdir()
            (begin / "sitecustomize.py").write_text(_BEGIN.format(path=stack_samples.__file__), encoding="utf-8")
        except OSError as error:
            self.remarks.append(f"processes that the program started are not followed: {error}")
            self._folder = None
        else:
            self._search = os.environ.get("PYTHONPATH")
            os.environ["PYTHONPATH"] = os.pathsep.join([str(begin), *filter(None, [self._search])])
            os.environ[FOLLOW] = str(self._folder)
            follow_forks(self._below)
        _watching = self._started
        _watch()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        global _watching
        _watching = None
        if self._folder is None:
            return
        os.environ.pop(FOLLOW, None)
        if self._search is None:
            os.environ.pop("PYTHONPATH", None)
        else:
            os.environ["PYTHONPATH"] = self._search
        for path in sorted(self._folder.glob("*.json")):
            try:
                found = read_samples(str(path))
            except (OSError, ValueError):
                continue  # whose command stays among those that are unseen
            if found.process in self._started:
                self._started.remove(found.process)
            if not any(helper in found.process for helper in _HELPERS):
                self.samples.append(found)
        shutil.rmtree(self._folder, ignore_errors=True)
        if self.samples:
            names = ", ".join(f"{_short(one.process)} ({one.tracks[0].process})" for one in self.samples if one.tracks)
            self.remarks.append(f"processes that were followed too: {names}")
        unseen = [one for one in self._started if not any(helper in one for helper in _HELPERS)]
        if unseen:
            self.remarks.append(
                f"what these processes did was not seen: {', '.join(dict.fromkeys(map(_short, unseen)))}"
            )


def _short(command: str) -> str:
    words = " ".join(command.split())
    return words if len(words) <= 60 else f"{words[:59]}…"


_watching: list[str] | None = None
_watched = False


def _watch() -> None:
    """Have the interpreter tell of the processes that it starts, which it does from then on for ever."""
    global _watched
    if not _watched:
        sys.addaudithook(_started)
    _watched = True


def _started(event: str, details: tuple[Any, ...]) -> None:
    if _watching is None:
        return
    if event == "subprocess.Popen":
        given = details[1]
        words = [given] if isinstance(given, (str, bytes, os.PathLike)) else given
        _watching.append(" ".join(map(os.fsdecode, words)))
    elif event == "os.system":
        _watching.append(os.fsdecode(details[0]))
