"""Provenance of a page: machine, BLAS, threads, package, and whether something else ran on the machine meanwhile."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from tinytorch.perf.host.identity import Identity, identity, is_narrower, reported_capacities
from tinytorch.perf.host.pinned_threads import usable_cores
from tinytorch.perf.measuring.judge import WHOLE_CORE, had_less_than_a_core
from tinytorch.report.numbers import conditions_of_record, format_number
from tinytorch.report.records import Json
from tinytorch.settings import variable
from tinytorch.sources import package_files

PACKAGE = "tinytorch"
#: Characters of a variable's value that are shown.
_LONGEST_VALUE = 60


def package_folder() -> Path:
    """Return the folder of the package's sources."""
    return Path(__file__).resolve().parents[1]


def package_hash(folder: Path) -> str:
    """Return the SHA-256 over all files of the package in ``folder``, names and bytes, sorted by path.

    Raises:
        ValueError: if it has none.
    """
    paths = package_files(folder)
    if not paths:
        raise ValueError(f"folder must hold a package's files, but {folder} has none")
    digest = hashlib.sha256()
    for path in paths:
        content = path.read_bytes()
        digest.update(f"{path.relative_to(folder).as_posix()}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def git_environment() -> dict[str, str]:
    """Return the environment for git without the variables, such as GIT_DIR, that lead it to another checkout."""
    return {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or "CONFIG" in name}


def _git(folder: Path, *arguments: str) -> str | None:
    """Return what git says about ``folder``; None where there is no git or no repository."""
    settings: dict[str, Any] = {"cwd": folder, "env": git_environment(), "timeout": 20}
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=True, **settings)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def package_provenance(folder: Path | None = None) -> Json:
    """Return name, version, hash, commit and whether it was changed of the package in ``folder``, else of this one."""
    folder = folder or package_folder()
    commit = _git(folder, "rev-parse", "HEAD")
    tracked = commit is not None and bool(_git(folder, "ls-files", "--", "."))
    changes = _git(folder, "status", "--porcelain", "--", ".") if tracked else None
    try:
        number = version(PACKAGE)
    except PackageNotFoundError:
        number = "not installed"
    return {
        "name": PACKAGE,
        "version": number,
        "sha256": package_hash(folder),
        "commit": commit if tracked else None,
        "changed": None if changes is None else bool(changes),
    }


def hosting_words(hosting: Json, cores: int) -> str | None:
    """Return what a host grants in words: "Binder, CPU quota 1.5 of 8 cores, memory limit 2 GiB"; None if no limit."""
    quota, limit = hosting["cpu_quota"], hosting["memory_limit"]
    parts = [
        hosting["service"],
        f"CPU quota {quota:.3g} of {cores} core{'s' if cores > 1 else ''}" if quota is not None else None,
        f"memory limit {format_number(limit, 'B').text}" if limit is not None else None,
    ]
    return ", ".join(part for part in parts if part) or None


def shared_host(provenance: Json) -> str | None:
    """Return a sentence on what a host that others share grants, and what that does to times; None if none is known."""
    machine = provenance["machine"]
    # Records of before hosts were asked for have none.
    words = hosting_words(machine["hosting"], machine["cores_logical"]) if "hosting" in machine else None
    if words is None:
        return None
    quota = machine["hosting"]["cpu_quota"]
    throttled = (
        " A program that uses more CPU time than the quota is stopped for a while, so several threads look slower."
    )
    return (
        f"This page was measured on a shared host: {words}. "
        f"Expect more noise there than on your own machine.{throttled if quota is not None else ''}"
    )


def blas_label(blas: Json) -> str:
    """Return the BLAS in words, with the package whose own copy it is: "openblas 0.3.30 of numpy"."""
    number = f" {blas['version']}" if blas["version"] else ""
    owner = f" of {blas['of']}" if blas["of"] else ""
    return f"{blas['name']}{number}{owner}"


def blas_threads_words(threads: int | None) -> str:
    """Return how many threads a BLAS may use in words: "1 thread", "threads not known"."""
    if threads is None:
        return "threads not known"
    return f"{threads} thread{'s' if threads > 1 else ''}"


def steering_words(environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the variables that steer threads and kernels, each with its value; of a long value the beginning.

    A list of all features of a CPU fills a page; the records hold the whole.
    """
    return [
        (name, value if len(value) <= _LONGEST_VALUE else f"{value[:_LONGEST_VALUE]}… ({len(value):,} characters)")
        for name, value in environment.items()
    ]


class Fact(NamedTuple):
    """One thing that the system or a library reports, in words."""

    what: str
    value: str


def identity_rows(made: Identity) -> list[Fact]:
    """Return what the system and the libraries report of the machine and of this process."""
    caches = reported_capacities(made.caches, usable_cores()[:1])
    sizes = ", ".join(f"L{level} {bytes_text(size)}" for level, size in caches.items())
    blas = [f"{one.label()}, {blas_threads_words(one.threads)}, of {one.of or 'the system'}" for one in made.blas]
    rows = [
        ("CPU", f"{made.cpu}, {made.vectors or 'vectors unknown'}"),
        ("Cores", f"{made.cores_physical} physical, {made.cores_logical} logical, {made.cores_usable} usable"),
        ("Caches that one core reaches", sizes or "not reported"),
        ("Memory", bytes_text(made.memory_bytes)),
        *([("Host", hosted)] if (hosted := hosting_words(asdict(made.hosting), made.cores_logical)) else []),
        ("System", made.system),
        ("Huge pages", made.huge_pages or "none"),
        ("Python", f"{made.python}, NumPy {made.numpy}, Numba {made.numba}, LLVM {made.llvm} for {made.numba_cpu}"),
        *(("BLAS", one) for one in blas),
        *steering_words(made.environment),
        ("Load", "unknown" if made.load is None else f"{made.load:.2f}"),
    ]
    return [Fact(*row) for row in rows]


def bytes_text(size: int | None) -> str:
    """Return a size as a table shows it; a dash for None."""
    return "–" if size is None else str(format_number(size, "B"))


def narrower_blas(provenance: Json) -> str | None:
    """Return a sentence on the BLAS libraries whose kernels use narrower vectors than the CPU has; None if none."""
    cpu = provenance["machine"]["vectors"]
    narrow = [blas for blas in provenance["blas"] if is_narrower(blas["vectors"], cpu)]
    if not narrow:
        return None
    names = " and ".join(blas_label(blas) for blas in narrow)
    kernels = " and ".join(sorted({f"{blas['core']} ({blas['vectors']})" for blas in narrow}))
    verb = "runs" if len(narrow) == 1 else "run"
    return (
        f"{names} {verb} kernels for {kernels} although this CPU has {cpu}: "
        "the speeds on this page are those of narrower vectors."
    )


def cautions(provenance: Json) -> list[str]:
    """Return what a reader must know of the machine before comparing a page's numbers with others', a sentence each."""
    is_rough = provenance["environment"].get(variable("rough")) == "1"
    rough = "Each measurement of this page had very little time. Its numbers show that the code runs, and nothing else."
    told = (rough if is_rough else None, narrower_blas(provenance), shared_host(provenance))
    return [sentence for sentence in told if sentence is not None]


def provenance() -> Json:
    """Return where this process runs: the ``provenance`` of `record.schema.json` but for the time."""
    made = identity()
    names = ("system", "cpu", "vectors", "cores_physical", "cores_logical", "cores_usable", "memory_bytes", "load")
    return {
        "machine": {name: getattr(made, name) for name in names} | {"hosting": asdict(made.hosting)},
        "blas": [asdict(blas) for blas in made.blas],
        "environment": made.environment,
        "package": package_provenance(),
        "python": made.python,
        "numpy": made.numpy,
    }


#: Share of a page's timed numbers from which on the page is called disturbed.
_MANY = 0.25
#: What a claim's evidence says where its verdict is withheld.
WITHHELD = "Other programs were using the machine during this measurement, so this build does not judge the claim."
#: What stands behind a word that is withheld, before the reason that it would have had.
WITHHELD_WORD = "other programs were using the machine during this measurement, so this build does not decide it"


def caution(numbers: Sequence[Json]) -> str | None:
    """Return a sentence for the page whose timed numbers often lacked a core; None if few did or none is timed."""
    known = [short for number in numbers if (short := had_less_than_a_core(conditions_of_record(number))) is not None]
    if not known or sum(known) < _MANY * len(known):
        return None
    return (
        f"{sum(known)} of the {len(known)} numbers timed on one thread had less than {WHOLE_CORE:.0%} of a core, "
        "because other programs were running. So intervals are wider, and more verdicts are open."
    )
