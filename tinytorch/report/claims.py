"""Claims: what a textbook says, who says it, and what a page found; the judge's verdict stands with it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tinytorch.perf.measuring.judge import VERDICTS
from tinytorch.report.records import Json, checked_key, checked_text

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_REFERENCE = re.compile(r"(?:[\w./-]+:)?[a-z0-9]+(?:-[a-z0-9]+)*")


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim that a chapter repeats: what is said, who says it, and what this page found.

    ``evidence`` may hold ``{key}`` where a number of the page belongs; ``numbers`` are the keys of all numbers
    that the verdict rests on, ``page:key`` for another page's. ``quote`` is what the source says in its own words,
    with the condition that it sets. What is ``counted`` follows from definitions and shapes: no machine decides it.
    """

    key: str
    statement: str
    source: str
    quote: str
    verdict: str
    evidence: str
    numbers: tuple[str, ...] = ()
    source_url: str | None = None
    counted: bool = False

    def __post_init__(self) -> None:
        checked_key(self.key)
        checked_text(self.statement, "statement", self.key)
        checked_text(self.source, "source", self.key)
        checked_text(self.quote, "quote", self.key)
        checked_text(self.evidence, "evidence", self.key)
        if self.verdict not in VERDICTS:
            raise ValueError(f"verdict of {self.key!r} must be one of {', '.join(VERDICTS)}, not {self.verdict!r}")
        if self.source_url is not None and not re.match(r"https?://\S+$", self.source_url):
            raise ValueError(f"source_url of {self.key!r} must begin with http:// or https://, not {self.source_url!r}")

    def body(self) -> Json:
        """Return the body of the claim's record; its numbers are those named and those in the evidence."""
        named = dict.fromkeys([*self.numbers, *placeholders(self.evidence, self.key)])
        return {
            "statement": self.statement.strip(),
            "source": self.source.strip(),
            "source_url": self.source_url,
            "quote": self.quote.strip(),
            "counted": self.counted,
            "verdict": self.verdict,
            "evidence": self.evidence.strip(),
            "numbers": list(named),
        }


def placeholders(text: str, key: str) -> list[str]:
    """Return the keys of numbers that stand in braces in ``text``.

    Raises:
        ValueError: if what stands in braces is not a key or ``page:key``, or a brace has no partner.
    """
    found = _PLACEHOLDER.findall(text)
    wrong = [name for name in found if not _REFERENCE.fullmatch(name)]
    if wrong or re.search(r"[{}]", _PLACEHOLDER.sub("", text)):
        raise ValueError(
            f"braces in the text of {key!r} must hold the key of a number, as in {{mlp-latency}}: {text!r}"
        )
    return found


def split_at_placeholders(text: str) -> Sequence[tuple[str, str | None]]:
    """Return the pieces of ``text``: each as plain text and the key that follows it, None at the end."""
    pieces = _PLACEHOLDER.split(text)
    keys = [*pieces[1::2], None]
    return list(zip(pieces[0::2], keys, strict=True))


def filled_text(text: str, number: Callable[[str], str]) -> str:
    """Return ``text`` with the plain ``number(key)`` for each key in braces."""
    return "".join(piece + (number(key) if key is not None else "") for piece, key in split_at_placeholders(text))
