"""Files of measured collectives: JSON with every sample, so that a cluster's links can be read anywhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tinytorch.perf.distributed.messages.collective_times import KINDS
from tinytorch.perf.distributed.messages.collectives import Collectives
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.atomic_io import write_whole

#: What such a file calls itself, and the version, which rises whenever a reader of it would have to change.
SCHEMA, VERSION = "tinytorch-collectives", 1


def save_collectives(collectives: Collectives, path: str | Path) -> Path:
    """Write what was measured, all samples and conditions, as JSON; return the path."""
    times = [
        {"kind": kind, "nbytes": size, **_written(seconds)}
        for kind, sizes in collectives.times.items()
        for size, seconds in sizes.items()
    ]
    kept = {
        "schema": SCHEMA,
        "schema_version": VERSION,
        "ranks": collectives.ranks,
        "hosts": collectives.hosts,
        "library": collectives.library,
        "oversubscribed": collectives.oversubscribed,
        "times": times,
        "barrier": _written(collectives.barrier),
    }
    return write_whole(path, json.dumps(kept, allow_nan=False))


def load_collectives(path: str | Path) -> Collectives:
    """Return what `save_collectives` wrote.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it holds something else, or is of another version.
    """
    try:
        kept: dict[str, Any] = json.loads(Path(path).read_text("utf-8"))
        if (kept["schema"], kept["schema_version"]) != (SCHEMA, VERSION):
            raise ValueError(f"it is {kept['schema']!r} of version {kept['schema_version']!r}")
        times: dict[Any, dict[int, Measurement]] = {}
        for one in kept["times"]:
            if one["kind"] not in KINDS:
                raise ValueError(f"it holds the unknown kind {one['kind']!r}")
            times.setdefault(one["kind"], {})[int(one["nbytes"])] = _read(one)
        return Collectives(
            int(kept["ranks"]),
            int(kept["hosts"]),
            str(kept["library"]),
            bool(kept["oversubscribed"]),
            times,
            _read(kept["barrier"]),
        )
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f"{Path(path).name} must be a file of collectives, {SCHEMA!r} of version {VERSION}: {error}"
        ) from None


def _written(seconds: Measurement) -> dict[str, Any]:
    return {"name": seconds.name, "samples": list(seconds.samples), "how": dict(seconds.how)}


def _read(one: dict[str, Any]) -> Measurement:
    return Measurement(str(one["name"]), tuple(map(float, one["samples"])), "s", one["how"])
