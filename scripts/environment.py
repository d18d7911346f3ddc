"""Makes a virtual environment from a lock file, and runs jobs with the variables that are let through to them.

`environment.py make FOLDER LOCK` makes an environment, or leaves the one that is already right: its stamp says that it
was made from these very files by this very Python, and how long that took. The stamp is removed first and written last:
whatever interrupts the work leaves an environment without one, which the next run removes and makes anew.

`environment.py run NAME=VALUE ... ARGUMENT ...` runs this Python anew with the arguments, with these variables, and of
the caller's with those on a list alone. So neither a profile of the shell nor a setting that some other tool needs
decides what is measured, tested or installed. What the pages' kernels get is steered further by
`scripts.building.settings`; what steers results is in the key of each page (`measured_book.execution.key`).

Both work before anything is installed, so this file uses the standard library alone.
"""

import argparse
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STAMP = "made-from"
#: The Pythons that every package of the lock has a wheel for: the first, and the last.
PYTHONS = ((3, 11), (3, 14))
#: The least glibc of these wheels.
GLIBC = (2, 28)
#: The processors that they are made for on each system, both as `platform` calls them.
PROCESSORS = {"Linux": ("x86_64", "aarch64"), "Darwin": ("arm64",)}
SUPPORTED = (
    "Linux on x86-64 or 64-bit ARM with glibc 2.28 or newer (on Windows inside of WSL) and macOS 14 or newer on Apple "
    "silicon, each with a 64-bit CPython 3.11 to 3.14 that is built for its processor"
)


def unsupported() -> str | None:
    """Return in a few words what here has no wheels of the lock: the Python, the system or its C library; else None."""
    if not PYTHONS[0] <= sys.version_info[:2] <= PYTHONS[1]:
        return f"Python {platform.python_version()}"
    if sys.implementation.name != "cpython":
        return platform.python_implementation()
    if sys.maxsize < 2**32:
        return "a 32-bit Python"
    system, processor = platform.system(), platform.machine()
    if processor not in PROCESSORS.get(system, ()):
        return f"{'macOS' if system == 'Darwin' else system} on {processor}"
    library, version = platform.libc_ver()
    if system == "Linux" and library != "glibc":
        return f"Linux with another C library than glibc{f' ({library})' if library else ''}"
    if system == "Linux" and tuple(map(int, version.split(".")[:2])) < GLIBC:
        return f"Linux with glibc {version}"
    return None


def fingerprint(lock: Path, options: list[str]) -> str:
    """Return a SHA-256 of everything that an environment is made from, as 64 hexadecimal digits.

    That is the lock, pyproject.toml, this script, the options given to it, the Python that makes the
    environment, and where the checkout lies: an environment holds absolute paths and cannot be moved.
    """
    digest = hashlib.sha256()
    for file in (lock, ROOT / "pyproject.toml", Path(__file__)):
        content = file.read_bytes()
        digest.update(f"{file.name} {len(content)}\n".encode() + content)
    for fact in (sys.version, sys.platform, platform.machine(), sys.base_prefix, str(ROOT), *options):
        digest.update(f"{len(fact)} {fact}\n".encode())
    return digest.hexdigest()


def is_made(environment: Path, wanted: str) -> bool:
    """Return whether the environment was completed from what `wanted` is the fingerprint of."""
    stamp = environment / STAMP
    return stamp.is_file() and stamp.read_text(encoding="ascii").split()[:1] == [wanted]


def run(*command: str | Path) -> None:
    """Run a command in the checkout, without a keyboard; CalledProcessError if it fails.

    Where pip finds packages is this machine's matter, where it puts them is not.
    """
    settings = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
    settings |= {"PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0", "PYTHONNOUSERSITE": "1"}
    subprocess.run([str(part) for part in command], check=True, cwd=ROOT, stdin=subprocess.DEVNULL, env=settings)


def install(python: Path, lock: Path) -> None:
    """Install the lock with its hashes, by uv if it is among them, which needs a tenth of pip's time.

    Where uv fails, pip does it: it knows the settings of this machine for other indexes, which uv does not read.
    """
    pip = (python, "-m", "pip", "install", "--quiet", "--require-hashes", "--requirement")
    # The lines that pin it, with its hashes.
    if uv := re.search(r"^uv==(?:.*\\\n)*.*\n", lock.read_text("utf-8"), re.MULTILINE):
        only_uv = python.parents[1] / "only-uv.txt"
        only_uv.write_text(uv[0], "utf-8")
        try:
            run(*pip, only_uv)
            run(python.with_name("uv"), "pip", "install", "--quiet", "--python", python, *pip[-2:], lock)
        except subprocess.CalledProcessError:
            print("uv could not install the packages: pip does, which takes longer.", flush=True)
        else:
            return
    run(*pip, lock)


def make(environment: Path, lock: Path, group: str | None, index: str | None) -> None:
    """Make the environment: the lock with its hashes, the group from its index, and the package in place."""
    run(sys.executable, "-m", "venv", environment)
    python = environment / "bin" / "python"
    install(python, lock)
    pip = (python, "-m", "pip", "install", "--quiet", "--no-deps")
    if group is not None:
        import tomllib  # which Pythons do not have that are too old, and are told so

        groups = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["dependency-groups"]
        # Only this index: PyPI has the same versions in another build.
        run(*pip, *(() if index is None else ("--index-url", index)), *groups[group])
    run(*pip, "--no-build-isolation", "--editable", ".")
    run(python, "-m", "pip", "--quiet", "check")


def ensure(environment: Path, lock: Path, group: str | None, index: str | None) -> None:
    """Leave a complete environment at `environment`, made now unless its stamp says that it is up to date.

    A symbolic link leads to where it lies.

    Raises:
        RuntimeError: if the lock has no packages for this Python or system, or a link leads to a folder of something
            else; nothing is changed then.
        CalledProcessError: if a step of making it fails.
    """
    if found := unsupported():
        raise RuntimeError(f"{lock.name} has no packages for {found}: it has them for {SUPPORTED}.")
    wanted = fingerprint(lock, [group or "", index or ""])
    if is_made(environment, wanted):
        return
    linked, environment = environment.is_symlink(), environment.resolve()
    if linked and environment.exists() and any(environment.iterdir()) and not (environment / "pyvenv.cfg").is_file():
        raise RuntimeError(f"{environment} is no environment and is not emptied: remove the link that leads to it.")
    (environment / STAMP).unlink(missing_ok=True)
    print(f"Making {environment.name} from {lock.name} with Python {platform.python_version()} ...", flush=True)
    start = time.monotonic()
    if environment.exists():
        shutil.rmtree(environment)
    make(environment, lock, group, index)
    aside = environment / f"{STAMP}.part"
    aside.write_text(f"{wanted}\n{time.monotonic() - start:.1f} seconds\n", encoding="ascii")
    aside.replace(environment / STAMP)


#: Names of variables, or their beginnings where they end in an underscore, each for what needs it.
LET_THROUGH = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "TZDIR"),  # any program
    *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"),  # a Python whose own library lies elsewhere; in the key
    *("LANG", "LANGUAGE", "LC_"),  # names and text that are not ASCII
    *("TERM", "COLORTERM", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"),  # what is told at the terminal
    *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "GIT_CONFIG_"),  # git and caches
    *("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy"),  # the network
    *("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS"),
    *("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_NO_INDEX", "PIP_FIND_LINKS", "PIP_CONFIG_FILE"),  # where packages
    *("PIP_CERT", "PIP_CLIENT_CERT", "PIP_TRUSTED_HOST", "PIP_PROXY", "PIP_TIMEOUT", "PIP_DEFAULT_TIMEOUT"),  # are had
    *("PIP_RETRIES", "PIP_CACHE_DIR", "PIP_NO_CACHE_DIR", "PIP_KEYRING_PROVIDER", "npm_config_", "NPM_CONFIG_"),
    *("UV_CACHE_DIR", "UV_LINK_MODE", "UV_NATIVE_TLS"),
    *("CHROMIUM", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY"),  # the browser of the gates
    *("CI", "GITHUB_ACTIONS", "GITHUB_REPOSITORY", "GITHUB_SERVER_URL", "CODESPACES"),  # services that name themselves
    *("BINDER_SERVICE_HOST", "BINDER_REPO_URL", "COLAB_RELEASE_TAG"),
    *("TINYTORCH_SITE_URL", "TINYTORCH_PDF", "TINYTORCH_PEERS"),
)
#: Those of a terminal.
_TELLS = ("TERM", "COLORTERM", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")


def let_through(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the environment that are on the list."""
    beginnings = tuple(name for name in LET_THROUGH if name.endswith("_"))
    return {name: value for name, value in environment.items() if name in LET_THROUGH or name.startswith(beginnings)}


def without_terminal(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables but those of a terminal, by whose width and colours no page may change."""
    return {name: value for name, value in environment.items() if name not in _TELLS}


def run_anew(arguments: list[str]) -> None:
    """Run this Python with the arguments and the variables that stand before them, in the place of this process."""
    settings = let_through(os.environ)
    while arguments and (given := re.fullmatch(r"([A-Za-z_]\w*)=(.*)", arguments[0], re.DOTALL)):
        settings[given[1]] = given[2]
        arguments = arguments[1:]
    os.execve(sys.executable, [sys.executable, *arguments], settings)


def main() -> int:
    """Do what the command line says and return the exit code."""
    if sys.argv[1] == "run":
        run_anew(sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("make", choices=["make"], help=argparse.SUPPRESS)
    parser.add_argument("environment", help="folder of the environment, relative to the checkout")
    parser.add_argument("lock", help="lock file with a hash for every package, relative to the checkout")
    parser.add_argument("--group", help="dependency group of pyproject.toml to add without hashes")
    parser.add_argument("--index", help="the only package index for that group")
    arguments = parser.parse_args()
    kept = let_through(os.environ)
    os.environ.clear()
    os.environ.update(kept)
    try:
        ensure(ROOT / arguments.environment, ROOT / arguments.lock, arguments.group, arguments.index)
    except subprocess.CalledProcessError as error:
        print(
            f"{arguments.environment} could not be made: `{' '.join(error.cmd)}` failed. "
            "The next run starts from nothing. (On Debian and Ubuntu, Python's venv is the package python3-venv.)",
            file=sys.stderr,
        )
        return 1
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"Interrupted: the next run makes {arguments.environment} anew.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
