"""What a build tells while it runs and at its end, in lines: which page, why, how long, what is left, what failed."""

import errno
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

#: How the text of an error says that the disk is full.
FULL = (
    *("No space left", "disk is full", "Disk quota"),
    *(f"OSError({number}," for number in (errno.ENOSPC, errno.EDQUOT)),
)


def duration(seconds: float) -> str:
    """Return a duration in words for people: `8 s` or `3 min 05 s`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def counted(number: int, word: str) -> str:
    """Return a number with its word: `1 page`, `2 pages`."""
    return f"{number} {word}{'' if number == 1 else 's'}"


@dataclass
class Story:
    """A build as its events tell it.

    Attributes:
        pages: what was planned for each page that is read, in their order.
        done: pages read so far, the present one not among them.
        took: seconds that pages ran in this build.
        complaints: what must be mended, as lines: the warnings, each with its place, then what ended the build.
        warnings: how many.
        writing: whether all pages are read.
        kept: whether the next build may trust what this one leaves, should it fail.
    """

    pages: list[dict[str, Any]] = field(default_factory=list)
    done: int = 0
    took: dict[str, float] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)
    warnings: int = 0
    writing: bool = False
    kept: bool = True

    def take(self, event: dict[str, Any]) -> str | None:
        """Take the next event; return a line that tells it, or None if there is nothing to say."""
        match event["event"]:
            case "begun" | "kept" as state:
                self.kept = state == "kept"
            case "plan":
                return self._plan(event["pages"])
            case "preparing":
                steps, about = counted(event["steps"], "step"), duration(event["seconds"])
                return f"Before that, training, compiling and measuring what they share ({steps}, about {about})."
            case "prepared-step":
                return f"  {event['step']}"
            case "prepared":
                return f"Trained, compiled and measured in {duration(event['seconds'])}."
            case "page" if not self.writing:  # else it is read once more, for what its verdicts did not find
                return self._page(event["page"])
            case "ran":
                return self._ran(event["page"], event["seconds"])
            case "writing":
                self.done, self.writing = len(self.pages), True
                return "Writing the pages." if self.pages else None
            case "warning":
                place = _below_book(event["where"])
                self.complaints.insert(self.warnings, f"  {place}: {event['text']}" if place else f"  {event['text']}")
                self.warnings += 1
            case "failed" if len(self.complaints) == self.warnings:
                self.complaints.append(f"  {sentence_of(event['error'])}")
            case "failed-cell":
                self.complaints[self.warnings :] = _failed_cell(event)
        return None

    def _rest(self) -> float | None:
        """Return the seconds that the pages left will run: as they did last time, or by their budgets; None if unknown.

        A page of which neither is known counts as the mean of the others.
        """
        left = [page for page in self.pages[self.done :] if page["runs"] and page["page"] not in self.took]
        known = [page["seconds"] for page in self.pages if page["seconds"] is not None] + list(self.took.values())
        if not left or not known:
            return 0.0 if not left else None
        mean = sum(known) / len(known)
        return sum(page["seconds"] if page["seconds"] is not None else mean for page in left)

    def _plan(self, pages: list[dict[str, Any]]) -> str:
        self.pages = pages
        if not pages:
            return "No page changed."
        rest = self._rest()
        about = f", about {duration(rest)}" if rest else ""
        running = sum(page["runs"] for page in pages)
        return f"{counted(len(pages), 'page')} to read, {running or 'none'} of them to run{about}."

    def _page(self, name: str) -> str:
        self.done = [page["page"] for page in self.pages].index(name)
        page = self.pages[self.done]
        about = "" if page["seconds"] is None else f" (about {duration(page['seconds'])})"
        if page["runs"]:
            state = f"runs{about}, because {page['why']}"
        elif page["left_out"]:
            state = "is left out"
        else:
            state = "is taken from the cache" if page["cells"] else "has no cells"
        return f"{self.done + 1:>3} of {len(self.pages)}  {name} {state}"

    def _ran(self, name: str, seconds: float | None) -> str:
        if seconds is not None:
            self.took[name] = seconds
        rest = self._rest()
        left = f"; about {duration(rest)} left" if rest else ""
        took = "" if seconds is None else f" in {duration(seconds)}"
        return f"{'':>{len(f'  1 of {len(self.pages)}')}}  {name} ran{took}{left}"


def _below_book(place: str) -> str:
    """Return a place in a source from the book's folder on: `book/profiling.md:12`."""
    path, colon, line = place.partition(":")
    parts = PurePath(path).parts
    if "book" in parts:
        path = PurePath(*parts[len(parts) - 1 - parts[::-1].index("book") :]).as_posix()
    return f"{path}{colon}{line}"


def _failed_cell(failure: dict[str, Any]) -> list[str]:
    if "cell" not in failure:
        return [f"  Page {failure['page']} ({failure['source']}) did not run to its end: {failure['error']}"]
    at = f"{failure['source']}:{failure['source_line']}" if failure["source_line"] else failure["source"]
    lines = [f"  Page {failure['page']}, code cell {failure['cell']}, its line {failure['line']} ({at}) failed:"]
    if failure["code"]:
        lines.append(f"      {failure['code']}")
    for module in failure["modules"]:
        lines.append(f"  in {module['file']}:{module['line']}:")
        if module["code"]:
            lines.append(f"      {module['code']}")
    return [*lines, f"  {failure['error']}"]


def sentence_of(error: str) -> str:
    """Return an error of the system as what to do about it; any other as it is, its first line."""
    first = error.strip().splitlines()[0] if error.strip() else "unknown error"
    if any(words in error for words in FULL):
        return f"The disk is full: make space, for example by `make clean`, and build again ({first})."
    if "Read-only file system" in error or "readonly database" in error or "Permission denied" in error:
        return f"A file cannot be written: see that _build and all in it can be changed ({first})."
    if "Not a directory" in error or "File exists" in error:
        return f"A file stands where the build needs a folder: remove it, and build again ({first})."
    return first
