"""Names in errors: an error about an unknown name says which names there are, and which of them may be meant."""

from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches

#: The part of the book whose pages are to be looked up, not read in order.
REFERENCE = "Reference"
#: Known names that an error lists if none of them is near.
_LISTED = 6
#: How much less like an unknown name another one may be than the nearest, to be told as well.
_AS_NEAR = 0.1


def meant(name: str, known: Iterable[str]) -> str:
    """Return the end of an error about an unknown name: ``: did you mean 'far-over-near'?``, or which names there are.

    Examples:
        >>> meant("neer", ["near", "far"])
        ": did you mean 'near'?"
        >>> meant("x", ["near", "far"])
        ": there are 'far', 'near'"
        >>> meant("x", [])
        ': there is none'
    """
    names = sorted(set(known))
    near = get_close_matches(name, names, 3)
    if near:
        like = [SequenceMatcher(a=name, b=each).ratio() for each in near]
        nearest = [each for each, ratio in zip(near, like, strict=True) if ratio > max(like) - _AS_NEAR]
        return f": did you mean {' or '.join(map(repr, nearest))}?"
    if not names:
        return ": there is none"
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f": there are {', '.join(map(repr, names[:_LISTED]))}{more}"


def choices_fault(kind: str, key: str, choices: object) -> str | None:
    """Return why a prediction cannot ask for a number, verdict or claim with such ``choices``; None if it can."""
    if kind == "number" and choices:
        return f"{{predict}} {key} asks for a number, so it takes no :choices:"
    if kind in ("verdict", "claim") and not choices:
        return f"{{predict}} {key} asks for a {kind}, so it needs :choices: one | another"
    return None


def unknown_key(page: str, wanted: str, key: str, known: Iterable[str]) -> str:
    """Return the error about a key that names no record of a page; ``wanted`` is what was asked for, as a number."""
    return f"page {page!r} has no {wanted} {key!r}{meant(key, known)}"


def split_reference(reference: str, docname: str) -> tuple[str, str]:
    """Return the page and the key that ``key`` or ``page:key`` means on the page ``docname``."""
    page, colon, key = reference.rpartition(":")
    return (page, key) if colon else (docname, reference)
