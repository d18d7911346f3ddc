"""Settings of this process: the variables ``TINYTORCH_*`` of its environment, read once as it starts.

A process that starts another one hands it its settings by `variables`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Settings:
    """Each field is the text of the variable of its name, ``TINYTORCH_ROUGH`` for ``rough``; "" if it is not set.

    Attributes:
        rough: "1" gives measurements a tiny budget: they then show that code runs, and nothing else.
        repeats: "0" keeps this process from sampling how far runs differ, as in tests, which run next to each other.
        cores: the largest number of cores that this process may keep busy.
        cpu: an older CPU, such as "avx2", to whose instructions all kernels are held. Variables of Numba, OpenBLAS and
            NumPy, which do so, are set along with it: see scripts/building/older_cpu.py.
        peers: path of the Python that has the engines beside ours.
        building_book: "1" in a build: numbers and words then show nothing below their cell, prose takes them by key.
        build_pages: names of the pages of a build of some, separated by spaces.
        build_outcome: "other" writes the outcomes, too, that the pages did not get.
        build_preparation: command, as a list in JSON, that makes what pages need and is no measurement. It is given a
            word for the machine and the names of the pages, and prints events, a line of JSON each.
        build_events: file descriptor to which a build writes events, a line of JSON each.
        pdf: not empty if the site links to its file for paper.
        site_url: address of the site's root.
    """

    rough: str = ""
    repeats: str = ""
    cores: str = ""
    cpu: str = ""
    peers: str = ""
    building_book: str = ""
    build_pages: str = ""
    build_outcome: str = ""
    build_preparation: str = ""
    build_events: str = ""
    pdf: str = ""
    site_url: str = ""


def variable(name: str) -> str:
    """Return the name of the environment's variable of a setting: "TINYTORCH_ROUGH" of "rough"."""
    return f"TINYTORCH_{name.upper()}"


def variables(**chosen: str) -> dict[str, str]:
    """Return the variables that give a process these settings: {"TINYTORCH_ROUGH": "1"} for ``rough="1"``."""
    Settings(**chosen)  # which refuses an unknown name
    return {variable(name): value for name, value in chosen.items()}


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Return the settings that an environment holds."""
    return Settings(**{field.name: environment.get(variable(field.name), "") for field in fields(Settings)})


#: Those of this process.
SETTINGS = read_settings(os.environ)
