"""What a build may trust after one that was cut off: results that can be read, and nothing else."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jupyter_cache.cache.db import NbCacheRecord
from jupyter_cache.cache.main import JupyterCacheBase
from sqlalchemy.exc import SQLAlchemyError


@contextmanager
def open_cache(folder: Path) -> Iterator[JupyterCacheBase]:
    """Yield the execution cache in a folder, and close its database afterwards."""
    cache = JupyterCacheBase(folder)
    try:
        yield cache
    finally:
        cache.db.dispose()


def discard_broken_results(folder: Path) -> None:
    """Remove from an execution cache what cannot be read."""
    with open_cache(folder) as cache:
        for record in cache.list_cache_records():
            try:
                cache.get_cache_bundle(record.pk)
            except (KeyError, ValueError):  # no file, or half a file
                NbCacheRecord.remove_record(record.pk, cache.db)
                shutil.rmtree(folder / "executed" / record.hashkey, ignore_errors=True)


def discard_untrusted(output: Path) -> None:
    """Remove from the folder ``output`` what an unfinished build left and the next would take as good."""
    for name in (".doctrees", "html", "jupyter_execute"):
        shutil.rmtree(output / name, ignore_errors=True)
    for index in list(output.glob(".jupyter_cache/**/global.db")):
        try:
            discard_broken_results(index.parent)
        except (RuntimeError, SQLAlchemyError):  # the index itself is unreadable or was never completed
            shutil.rmtree(index.parent)
