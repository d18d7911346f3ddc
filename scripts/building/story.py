"""What a build tells while it runs and at its end, in words: which page, why, how long, what is left, what failed.

On a terminal a bar stands below the lines.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

#: Times a second that the bar is drawn: rarely, as drawing takes time from the pages that measure.
_REDRAWN = 1


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
        current: the page being read; None before and after.
        took: seconds that pages ran in this build.
        warnings: each with its place.
        failure: the event of what ended the build, if something did.
        writing: whether all pages are read.
        preparing: what was prepared last, and how many steps of how many are done; None before and after.
        kept: whether the next build may trust what this one leaves, should it fail.
    """

    pages: list[dict[str, Any]] = field(default_factory=list)
    done: int = 0
    current: str | None = None
    took: dict[str, float] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    failure: dict[str, Any] | None = None
    writing: bool = False
    preparing: tuple[str, int, int] | None = None
    kept: bool = True

    def take(self, event: dict[str, Any]) -> str | None:
        """Take the next event; return a line that tells it, or None if there is nothing to say."""
        teller: Callable[[dict[str, Any]], str | None] = getattr(self, f"_{event['event'].replace('-', '_')}")
        return teller(event)

    def rest(self) -> float | None:
        """Return the seconds that the pages left will run: as they did last time, or by their budgets; None if unknown.

        A page of which neither is known counts as the mean of the others.
        """
        left = [page for page in self.pages[self.done :] if page["runs"] and page["page"] not in self.took]
        known = [page["seconds"] for page in self.pages if page["seconds"] is not None] + list(self.took.values())
        if not left or not known:
            return 0.0 if not left else None
        mean = sum(known) / len(known)
        return sum(page["seconds"] if page["seconds"] is not None else mean for page in left)

    def _begun(self, _: dict[str, Any]) -> None:
        self.kept = False

    def _kept(self, _: dict[str, Any]) -> None:
        self.kept = True

    def _plan(self, event: dict[str, Any]) -> str:
        self.pages = event["pages"]
        running = [page for page in self.pages if page["runs"]]
        if not self.pages:
            return "No page changed."
        rest = self.rest()
        about = f", about {duration(rest)}" if running and rest is not None else ""
        return f"{counted(len(self.pages), 'page')} to read, {len(running) or 'none'} of them to run{about}."

    def _preparing(self, event: dict[str, Any]) -> str:
        self.preparing = ("preparing", 0, event["steps"])
        about = duration(event["seconds"])
        steps = counted(event["steps"], "step")
        return f"Before that, training, compiling and measuring what they share ({steps}, about {about})."

    def _prepared_step(self, event: dict[str, Any]) -> None:
        assert self.preparing is not None
        _, done, steps = self.preparing
        self.preparing = (event["step"], done + 1, steps)

    def _prepared(self, event: dict[str, Any]) -> str:
        self.preparing = None
        return f"Trained, compiled and measured in {duration(event['seconds'])}."

    def _page(self, event: dict[str, Any]) -> str | None:
        if self.writing:  # it is read once more, for what its verdicts did not find
            return None
        names = [page["page"] for page in self.pages]
        self.current = event["page"]
        self.done = names.index(self.current)
        page = self.pages[self.done]
        if page["runs"]:
            expected = "" if page["seconds"] is None else f" (about {duration(page['seconds'])})"
            said = f"runs{expected}, because {page['why']}"
        else:
            said = "is taken from the cache" if page["cells"] else "has no cells"
            said = "is left out" if page["left_out"] else said
        return f"{self.done + 1:>3} of {len(names)}  {self.current} {said}"

    def _ran(self, event: dict[str, Any]) -> str:
        seconds = event["seconds"]
        if seconds is not None:
            self.took[event["page"]] = seconds
        rest = self.rest()
        left = f"; about {duration(rest)} left" if rest else ""
        took = "" if seconds is None else f" in {duration(seconds)}"
        return f"{'':>{len(f'  1 of {len(self.pages)}')}}  {event['page']} ran{took}{left}"

    def _writing(self, _: dict[str, Any]) -> str | None:
        self.done, self.current, self.writing = len(self.pages), None, True
        return "Writing the pages." if self.pages else None

    def _warning(self, event: dict[str, Any]) -> None:
        place = _short(event["where"])
        self.warnings.append(f"{place}: {event['text']}" if place else event["text"])

    def _failed(self, event: dict[str, Any]) -> None:
        self.failure = self.failure or event

    def _failed_cell(self, event: dict[str, Any]) -> None:
        self.failure = event

    def complaints(self) -> list[str]:
        """Return what must be mended, as lines: the warnings, then what ended the build."""
        lines = [f"  {warning}" for warning in self.warnings]
        return lines if self.failure is None else lines + _failure_lines(self.failure)


@contextmanager
def display_of(story: Story, console: Console) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Yield what takes each event of `story` and shows what it means."""
    columns = (BarColumn(30), TextColumn("{task.description}"), TimeElapsedColumn(), TextColumn("{task.fields[rest]}"))
    bar = Progress(*columns, console=console, refresh_per_second=_REDRAWN, transient=True)
    task = bar.add_task("starting", total=None, rest="")

    def take(event: dict[str, Any]) -> None:
        line = story.take(event)
        if line is not None:
            console.print(line, markup=False, emoji=False, highlight=False, soft_wrap=True)
        if story.preparing is not None:
            step, done, steps = story.preparing
            bar.update(task, total=steps, completed=done, description=step, rest="")
            return
        rest, doing = story.rest(), story.current or ("writing" if story.writing else "starting")
        left = f"about {duration(rest)} left" if rest else ""
        bar.update(task, total=len(story.pages) or None, completed=story.done, description=doing, rest=left)

    with bar if console.is_terminal else nullcontext():
        yield take


def _short(place: str) -> str:
    """Return a place in a source as it is below the book's folder: `profiling.md:12`."""
    path, colon, line = place.partition(":")
    parts = PurePath(path).parts
    if "book" in parts:
        path = PurePath(*parts[len(parts) - 1 - parts[::-1].index("book") :]).as_posix()
    return f"{path}{colon}{line}"


def _failure_lines(failure: dict[str, Any]) -> list[str]:
    if failure["event"] == "failed":
        return [f"  {sentence_of(failure['error'])}"]
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
    if "Read-only file system" in error or "readonly database" in error or "Permission denied" in error:
        return f"A file cannot be written: see that _build and all in it can be changed ({first})."
    if "Not a directory" in error or "File exists" in error:
        return f"A file stands where the build needs a folder: remove it, and build again ({first})."
    return first
