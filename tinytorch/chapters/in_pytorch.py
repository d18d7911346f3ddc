"""The same in PyTorch: a page's snippet for PyTorch, run in a process of the peers' and shown with what it printed."""

from __future__ import annotations

from collections.abc import Callable

from tinytorch.perf.engines.presence import available
from tinytorch.perf.engines.snippets import printed_by
from tinytorch.perf.measuring import Unmeasured
from tinytorch.report import Page


def show_in_pytorch(page: Page, snippet: Callable[[], None], key: str = "in-pytorch") -> None:
    """Print what ``snippet`` printed in PyTorch's own process; where this build has no PyTorch, print nothing.

    The page includes the same function by its name, so that a reader sees the code that ran. ``{if-measured} key``
    holds what the page says of the output, ``{if-absent} key`` the one sentence for a build without PyTorch.

    Args:
        page: that records.
        snippet: see `printed_by`.
        key: of the number of lines that were printed.
    """
    printed = printed_by(snippet)
    if isinstance(printed, Unmeasured):
        page.absent(key, reason=printed.reason)
        return
    lines = printed.splitlines()
    page.number(key, len(lines), unit="lines", what=f"printed by PyTorch {available()['PyTorch eager']}")
    print("\n".join(lines))
