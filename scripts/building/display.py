"""Shows a build as it goes: a bar on a terminal, plain lines in a log."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from scripts.building.story import Story, duration

#: Times a second that the bar is drawn: rarely, as drawing takes time from the pages that measure.
REDRAWN = 1


class Display:
    """Takes events, and shows what they mean."""

    def __init__(self, story: Story, console: Console, bar: Progress | None) -> None:
        self._story, self._console, self._bar = story, console, bar
        self._task = None if bar is None else bar.add_task("starting", total=None, rest="")

    def take(self, event: dict[str, Any]) -> None:
        """Show one event."""
        line = self._story.take(event)
        if line is not None:
            self._console.print(line, markup=False, emoji=False, highlight=False, soft_wrap=True)
        if self._bar is not None and self._task is not None:
            if self._story.preparing is not None:
                step, done, steps = self._story.preparing
                self._bar.update(self._task, total=steps, completed=done, description=step, rest="")
                return
            rest = self._story.rest()
            self._bar.update(
                self._task,
                total=len(self._story.pages) or None,
                completed=self._story.done,
                description=self._story.current or ("writing" if self._story.writing else "starting"),
                rest=f"about {duration(rest)} left" if rest else "",
            )


@contextmanager
def display_of(story: Story, console: Console) -> Iterator[Display]:
    """Yield what shows the events of `story`: with a bar below the lines if the console is a terminal."""
    if not console.is_terminal:
        yield Display(story, console, None)
        return
    columns = (BarColumn(30), TextColumn("{task.description}"), TimeElapsedColumn(), TextColumn("{task.fields[rest]}"))
    with Progress(*columns, console=console, refresh_per_second=REDRAWN, transient=True) as bar:
        yield Display(story, console, bar)
