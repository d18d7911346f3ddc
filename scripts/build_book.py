"""Build the book into _build/html, trusting nothing that a failed or interrupted build left behind.

Sphinx reports a warning only when it reads a page. A second build after a failed one would not read the page
again, see no warning and succeed. A mark therefore lies in _build/ from before the build until after its
success; a build that finds one first removes what Sphinx would trust. Results of executed pages are kept,
except those that cannot be read and those that failed the build themselves.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jupyter_cache.cache.db import NbCacheRecord
from jupyter_cache.cache.main import JupyterCacheBase
from nbformat import NotebookNode
from sqlalchemy.exc import SQLAlchemyError

from scripts.blas_settings import without_blas_settings

ROOT = Path(__file__).resolve().parent.parent


def is_usable(notebook: NotebookNode) -> bool:
    """Return whether an executed notebook may be shown again: no cell of it wrote to standard error."""
    outputs = (output for cell in notebook.cells for output in cell.get("outputs", []))
    return not any(output.get("name") == "stderr" for output in outputs)


@contextmanager
def open_cache(folder: Path) -> Iterator[JupyterCacheBase]:
    """Yield the execution cache in a folder, and close its database afterwards."""
    cache = JupyterCacheBase(folder)
    try:
        yield cache
    finally:
        cache.db.dispose()


def discard_unusable_results(folder: Path) -> None:
    """Remove from an execution cache what cannot be read and what failed the build by writing to stderr."""
    with open_cache(folder) as cache:
        for record in cache.list_cache_records():
            try:
                usable = is_usable(cache.get_cache_bundle(record.pk).nb)
            except (KeyError, ValueError):  # no file, or half a file
                usable = False
            if not usable:
                NbCacheRecord.remove_record(record.pk, cache.db)
                shutil.rmtree(folder / "executed" / record.hashkey, ignore_errors=True)


def discard_untrusted(output: Path) -> None:
    """Remove from the folder `output` what an unfinished build left and the next would take as good."""
    for name in (".doctrees", "html", "jupyter_execute"):
        shutil.rmtree(output / name, ignore_errors=True)
    for index in list(output.glob(".jupyter_cache/**/global.db")):
        try:
            discard_unusable_results(index.parent)
        except (RuntimeError, SQLAlchemyError):  # the index itself is unreadable or was never completed
            shutil.rmtree(index.parent)


def build_settings(output: Path) -> dict[str, str]:
    """Return the environment variables of the build, free of the user's own notebook, plot and BLAS settings.

    Pages run on the `python3` kernel of this environment, even where the user has another of that name, and
    without the user's IPython start-up files or matplotlib styles, which would change what is measured. A BLAS
    held to a narrower CPU's kernels would be a straw man: every speedup over it would be too large.
    """
    kept = without_blas_settings(os.environ)
    settings = {name: value for name, value in kept.items() if name not in ("JUPYTER_PATH", "MATPLOTLIBRC")}
    user = output / ".user"
    settings["JUPYTER_PREFER_ENV_PATH"] = "1"
    settings["IPYTHONDIR"] = str(user / "ipython")
    settings["MPLCONFIGDIR"] = str(user / "matplotlib")
    settings["PYTHONNOUSERSITE"] = "1"
    return settings


def run_jupyter_book(root: Path, output: Path) -> int:
    """Run Jupyter Book on `root`/book and return its exit code. Any warning is an error."""
    command = [str(Path(sys.executable).with_name("jupyter-book")), "build", str(root / "book")]
    command += ["--path-output", str(output.parent)]
    # Absolute, or Jupyter Book looks for the pages beside the list of pages.
    command += ["--config", str(root / "_config.yml"), "--toc", str(root / "_toc.yml")]
    command += ["-W", "--keep-going", "-n"]
    return subprocess.run(command, cwd=root, env=build_settings(output), stdin=subprocess.DEVNULL).returncode


def duration(seconds: float) -> str:
    """Return a duration in words for people: `8 s` or `3 min 05 s`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def build(root: Path) -> int:
    """Build the book of the checkout at `root`; return 0, or 1 if anything failed or warned."""
    output = root / "_build"
    mark = output / "build-in-progress"
    start = time.monotonic()
    (output / ".user").mkdir(parents=True, exist_ok=True)
    if mark.exists():
        print("The last build did not succeed: reading every page anew.", flush=True)
        discard_untrusted(output)
    mark.touch()
    if run_jupyter_book(root, output) != 0:
        print(f"The book was not built: see the messages above ({duration(time.monotonic() - start)}).")
        return 1
    mark.unlink()
    page = (output / "html" / "index.html").relative_to(root)
    print(f"The book is in {page} (built in {duration(time.monotonic() - start)}).")
    return 0


def main() -> int:
    """Build the book of this checkout and return the exit code."""
    try:
        return build(ROOT)
    except KeyboardInterrupt:
        print("Interrupted: the next build reads every page anew.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
