"""cgroup CPU and memory limits of this process, and the hosting service that it runs on."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

#: Variables that a service sets in each of its machines, and the service's name.
#: Sources: BinderHub and repo2docker set the first two, Google Colab and GitHub's Codespaces and Actions the others.
_SERVICES = {
    "BINDER_SERVICE_HOST": "Binder",
    "BINDER_REPO_URL": "Binder",
    "COLAB_RELEASE_TAG": "Google Colab",
    "CODESPACES": "GitHub Codespaces",
    "GITHUB_ACTIONS": "GitHub Actions",
}
_GROUPS = Path("/sys/fs/cgroup")
_OWN_GROUPS = Path("/proc/self/cgroup")


@dataclass(frozen=True, slots=True)
class Hosting:
    """Grants of the host. What it does not say is None.

    Attributes:
        service: name of the service that runs the machine, such as "Binder".
        cpu_quota: CPU seconds that this process's control groups may use in a second, of all cores together.
        memory_limit: bytes that they may hold.
    """

    service: str | None
    cpu_quota: float | None
    memory_limit: int | None


def service_of(environment: Mapping[str, str]) -> str | None:
    """Return the name of the service whose variables are set in ``environment``; None if no known one's are."""
    return next((service for name, service in _SERVICES.items() if environment.get(name)), None)


def _read(path: Path) -> str:
    try:
        return path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _folders(own_groups: str, groups: Path) -> Iterator[Path]:
    """Yield the folders of the control groups that this process is in, and of those around them.

    A line of ``own_groups`` is ``number:controllers:path``; version 2 has one line without controllers. Within a
    container the path may be the host's, which is not there: the container's own group then is the root.
    Source: cgroups(7).
    """
    for line in own_groups.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        for root in {groups / name for name in (controllers, *controllers.split(","))}:
            inner = root / path.lstrip("/")
            yield from (folder for folder in (inner, *inner.parents) if folder == root or root in folder.parents)


def _quota(folder: Path) -> float | None:
    """Return the CPU seconds a second that the group in ``folder`` may use, of either version; None without limit."""
    quota, _, period = _read(folder / "cpu.max").partition(" ")
    if not quota:
        quota, period = _read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")
    if not (quota.isdecimal() and period.isdecimal() and int(quota) and int(period)):
        return None
    return int(quota) / int(period)


def _limit(folder: Path) -> int | None:
    """Return the bytes that the group in ``folder`` may hold, of either version; None without limit."""
    limit = _read(folder / "memory.max") or _read(folder / "memory.limit_in_bytes")
    return int(limit) if limit.isdecimal() else None


def _held(folder: Path) -> int:
    """Return the bytes that the group in ``folder`` holds and cannot drop; those of this process if it does not say.

    Files that were read and not used lately are dropped when memory is short: they are not counted. Source: the
    working set of Kubernetes' cAdvisor.
    """
    held = _read(folder / "memory.current") or _read(folder / "memory.usage_in_bytes")
    if not held.isdecimal():
        return int(psutil.Process().memory_info().rss)
    counted: dict[str, str] = dict(re.findall(r"^(\w+) (\d+)$", _read(folder / "memory.stat"), re.MULTILINE))
    # Version 1 counts the groups within a group under a name of their own.
    dropped = counted.get("total_inactive_file", counted.get("inactive_file", "0"))
    return max(0, int(held) - int(dropped))


def free_memory(groups: Path = _GROUPS, own_groups: Path = _OWN_GROUPS) -> int:
    """Return the bytes that this process may still take: what the system has left, or a control group if that is less.

    Args:
        groups, own_groups: as in `hosting`.
    """
    left = [psutil.virtual_memory().available]
    for folder in dict.fromkeys(_folders(_read(own_groups), groups)):
        limit = _limit(folder)
        if limit is not None:
            left.append(max(0, limit - _held(folder)))
    return min(left)


def _tightest_quota(folders: Iterable[Path]) -> float | None:
    return min((quota for folder in folders if (quota := _quota(folder)) is not None), default=None)


@cache
def cpu_quota() -> float | None:
    """Return the CPU seconds a second that this process may use, as it began; None without limit."""
    return _tightest_quota(_folders(_read(_OWN_GROUPS), _GROUPS))


def hosting(
    cores: int,
    memory_bytes: int,
    environment: Mapping[str, str] = os.environ,
    groups: Path = _GROUPS,
    own_groups: Path = _OWN_GROUPS,
) -> Hosting:
    """Return what the host grants this process; a quota or limit that is no less than the machine has is none.

    Args:
        cores: that this process may run on.
        memory_bytes: of the machine.
        environment: variables in which a service names itself.
        groups: where the control groups are mounted.
        own_groups: the system's list of the groups that this process is in.
    """
    folders = list(dict.fromkeys(_folders(_read(own_groups), groups)))
    quota = _tightest_quota(folders)
    limits = [limit for folder in folders if (limit := _limit(folder)) is not None and limit < memory_bytes]
    return Hosting(
        service_of(environment), quota if quota is not None and quota < cores else None, min(limits, default=None)
    )
