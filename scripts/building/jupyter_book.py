"""Jupyter Book's command line, which tells the build in a sentence what ended it: file, line and remedy."""

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tinytorch import settings

# A parser of international addresses, which jsonschema loads where it is installed, in a second of each build, for a
# format that nothing here has.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]


def cause_of(error: BaseException) -> BaseException:
    """Return what went wrong in the code that Sphinx called: it says of that only whose turn it was."""
    inner = getattr(error, "orig_exc", None)
    return error if inner is None else cause_of(inner)


def _sources(root: Path) -> Iterator[Path]:
    yield from (root / "_config.yml", root / "_toc.yml")
    for suffix in ("md", "bib", "svg", "css", "js", "html", "py"):
        yield from sorted((root / "book").rglob(f"*.{suffix}"))
    yield from sorted((root / "tinytorch").rglob("*.py"))


def not_utf8(root: Path) -> str | None:
    """Return in a sentence which source of the book is not UTF-8; None if all are."""
    for path in _sources(root):
        content = path.read_bytes() if path.is_file() else b""
        try:
            content.decode("utf-8")
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            return f"{path.relative_to(root)}:{line} is not UTF-8: save the file in this encoding."
    return None


def sentence(error: BaseException, root: Path) -> str:
    """Return what ended the build of the checkout at ``root``."""
    cause = cause_of(error)
    if isinstance(cause, SyntaxError):
        return f"{_below(cause.filename, root)}:{cause.lineno} is no Python: {cause.msg}."
    if isinstance(cause, UnicodeDecodeError) and (said := not_utf8(root)):
        return said
    mark = getattr(cause, "problem_mark", None)
    if mark is not None:  # of YAML
        file = mark.name if Path(mark.name).is_file() else root / "_config.yml"
        return f"{_below(file, root)}:{mark.line + 1} is no YAML: {getattr(cause, 'problem', None) or 'mend it'}."
    if "home directory" in str(cause):
        return "This user has no home folder: set HOME to a folder that can be written, and build again."
    words = " ".join(re.sub(r"\x1b\[\d*m|={9,}", "", str(cause)).split())
    if type(cause).__module__.startswith("pybtex."):
        file = getattr(cause, "filename", None) or root / "book" / "references.bib"
        return f"{_below(file, root)}:{getattr(cause, 'lineno', None) or 1} is no BibTeX: {words}."
    if type(cause).__module__.startswith("sphinx."):
        return words
    frame = cause.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    at = "" if frame is None else f" ({_below(frame.tb_frame.f_code.co_filename, root)}:{frame.tb_lineno})"
    return f"{type(cause).__name__}: {words}{at}"


def _below(file: object, root: Path) -> str:
    path = Path(str(file))
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def tell(error: BaseException) -> None:
    """Tell the process that started the build, if there is one."""
    if events := settings.SETTINGS.build_events:
        root = Path(sys.argv[2]).parent
        event = {"event": "failed", "error": sentence(error, root)}
        os.write(int(events), (json.dumps(event) + "\n").encode())


def main() -> None:
    """Run Jupyter Book."""
    try:
        import jupyter_book.sphinx as inside
        from jupyter_book.cli.main import main as build

        handle = inside.handle_exception

        def heard(app: object, arguments: object, error: BaseException, stream: object) -> None:
            tell(error)
            handle(app, arguments, error, stream)

        inside.handle_exception = heard
        build()
    except Exception as error:
        if "Look above" not in str(error):  # what ended the build was told before, or it was warnings
            tell(error)
        raise


if __name__ == "__main__":
    main()
