"""Which entries of a lock a Python on a system installs, whichever Python asks."""

import re

from packaging.requirements import Requirement

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PLATFORMS = (("linux", "Linux"), ("darwin", "Darwin"))


def applies(requirement: Requirement, python: str, platform: tuple[str, str]) -> bool:
    """Return whether CPython of a version such as 3.11 on a platform, its ``sys_platform`` and system, installs it.

    Raises:
        KeyError: if the marker asks for a fact that is not stated here: the running Python's would be taken.
    """
    facts = {"python_version": python, "python_full_version": f"{python}.0", "implementation_name": "cpython"}
    facts |= {"platform_python_implementation": "CPython", "sys_platform": platform[0], "platform_system": platform[1]}
    facts |= {"os_name": "posix", "extra": "", "platform_machine": {"Linux": "x86_64", "Darwin": "arm64"}[platform[1]]}
    if requirement.marker is None:
        return True
    for name in re.findall(r"[a-z_]+(?= (?:[<>=!~]|in |not in ))", re.sub(r'"[^"]*"', '""', str(requirement.marker))):
        facts[name]
    return requirement.marker.evaluate(facts)
