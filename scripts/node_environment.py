"""Install what the checks of the built site run on Node.js, or leave an installation that is already right.

The versions and hashes are those of book/_checks/package-lock.json; no package runs a script as it is installed.
A stamp, removed first and written last, says what an installation was made from, as in `environment.py`.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

from scripts.environment import STAMP, is_made

ROOT = Path(__file__).resolve().parent.parent
CHECKS = ROOT / "book" / "_checks"
FOLDER = ROOT / ".node"
HOW_TO_INSTALL = (
    "Debian 13, Ubuntu 25.04 and newer: sudo apt-get install nodejs npm; macOS: brew install node; "
    "elsewhere: https://nodejs.org/en/download"
)


class NoNodeError(Exception):
    """There is no Node.js that the checks can run on; the message says what is needed."""


def oldest_version() -> tuple[int, int]:
    """Return the oldest major and minor version of Node.js that package.json allows."""
    wanted = json.loads((CHECKS / "package.json").read_text("utf-8"))["engines"]["node"]
    found = re.fullmatch(r">=(\d+)\.(\d+)", wanted)
    if found is None:
        raise ValueError(f"engines.node in book/_checks/package.json must read like '>=20.19', not {wanted!r}")
    return int(found[1]), int(found[2])


def node_version() -> str:
    """Return the version of Node.js, such as ``v20.19.2``.

    Raises:
        NoNodeError: if it or npm is missing, or it is too old.
    """
    oldest = oldest_version()
    needed = f"The built pages are checked with programs for Node.js {'.'.join(map(str, oldest))} or newer"
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        raise NoNodeError(f"{needed}, but {'npm' if node else 'node'} is not on the path: {HOW_TO_INSTALL}")
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    numbers = [int(number) for number in re.findall(r"\d+", said)]
    if tuple(numbers[:2]) < oldest:
        raise NoNodeError(f"{needed}, but {node} is {said}: {HOW_TO_INSTALL}")
    return said


def ensure(folder: Path) -> None:
    """Leave a complete installation in ``folder``, made now unless its stamp says that it is up to date.

    Raises:
        NoNodeError: if there is no Node.js that is new enough.
        subprocess.CalledProcessError: if npm fails.
    """
    version = node_version()
    files = [CHECKS / name for name in ("package.json", "package-lock.json")]
    wanted = hashlib.sha256(b"\0".join([version.encode(), *(file.read_bytes() for file in files)])).hexdigest()
    if is_made(folder, wanted):
        return
    stamp = folder / STAMP
    stamp.unlink(missing_ok=True)
    folder.mkdir(exist_ok=True)
    for file in files:
        shutil.copyfile(file, folder / file.name)
    print(f"Making {folder.name} from {files[1].name} with Node.js {version} ...", flush=True)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-progress", "--loglevel=error"]
    subprocess.run(command, cwd=folder, check=True, stdin=subprocess.DEVNULL)
    aside = folder / f"{STAMP}.part"
    aside.write_text(wanted + "\n", encoding="ascii")
    aside.replace(stamp)


def main() -> int:
    """Install into the checkout's folder and return the exit code."""
    try:
        ensure(FOLDER)
    except NoNodeError as error:
        print(error, file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"{FOLDER.name} could not be made: `{' '.join(error.cmd)}` failed. Try again.", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"Interrupted: the next run makes {FOLDER.name} anew.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
