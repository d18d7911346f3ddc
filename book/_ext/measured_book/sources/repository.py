"""Repository of the book, whose address is typed nowhere, the links to it that pages offer, and the book's edition.

The address comes from GITHUB_REPOSITORY on GitHub, else from git's remote `origin`. Where there is none that
a reader could open, the pages have no link to their source, to a new issue or to Binder.
"""

import os
import re
import subprocess
import tomllib
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from sphinx.application import Sphinx
from sphinx.config import Config

from tinytorch.report.provenance import git_environment

BINDER = "https://mybinder.org"
#: The folder of the pages' sources.
FOLDER = "book"
_SCP_FORM = re.compile(r"^(?:[^@/:]+@)?(?P<host>[^/:@]{2,}):(?P<path>[^\\].*)$")  # git@host:owner/name.git


class Repository(NamedTuple):
    """Repository on a host of GitHub's kind that a reader can open in a browser."""

    url: str


def parse_remote(remote: str) -> Repository | None:
    """Return the repository that a git remote names, or None if GitHub does not have it.

    Takes the forms that git takes: https, http, ssh and git addresses, and `user@host:owner/name`. User names,
    passwords, tokens, ssh ports and a final `.git` are left out of the result.
    """
    remote = remote.strip()
    if "://" in remote:
        try:
            parts = urlsplit(remote)
            port = parts.port
        except ValueError:
            return None
        if parts.scheme not in ("https", "http", "ssh", "git", "git+ssh"):
            return None
        host, path = parts.hostname or "", parts.path
        port = port if parts.scheme in ("https", "http") else None
        scheme = "http" if parts.scheme == "http" else "https"
    elif match := _SCP_FORM.match(remote):
        host, path, port, scheme = match["host"], match["path"], None, "https"
    else:
        return None
    names = path.strip("/").removesuffix(".git").split("/")
    if (
        "github" not in host.lower().split(".")
        or len(names) < 2
        or not all(re.fullmatch(r"[\w.~-]+", name) for name in names)
    ):
        return None
    address = host.lower() if port is None else f"{host.lower()}:{port}"
    return Repository(f"{scheme}://{address}/{'/'.join(names)}")


def from_environment(environment: Mapping[str, str]) -> Repository | None:
    """Return the repository that GitHub's runner names in the environment, or None elsewhere."""
    name = environment.get("GITHUB_REPOSITORY", "")
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        return None
    server = environment.get("GITHUB_SERVER_URL", "https://github.com").rstrip("/")
    return Repository(f"{server}/{name}")


def _git(folder: Path, *arguments: str) -> str | None:
    """Return what git says of the checkout at ``folder``; None if there is none, or no git."""
    folder = folder.resolve()
    # A copy without .git that lies inside another checkout is not that checkout's.
    settings = {**git_environment(), "GIT_CEILING_DIRECTORIES": str(folder.parent)}
    command = ["git", "-C", str(folder), *arguments]
    try:
        found = subprocess.run(
            command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, env=settings
        )
    except FileNotFoundError:  # a source archive on a machine without git
        return None
    return found.stdout.strip() if found.returncode == 0 else None


def from_git(folder: Path) -> Repository | None:
    """Return the repository that the remote `origin` of the checkout at ``folder`` names, or None without one."""
    remote = _git(folder, "remote", "get-url", "origin")
    return None if remote is None else parse_remote(remote)


def edition(folder: Path) -> str:
    """Return what this build is called, in words: version, and commit with its day, as far as they are known."""
    project = folder / "pyproject.toml"
    number = tomllib.loads(project.read_text("utf-8"))["project"]["version"] if project.is_file() else None
    made = _git(folder, "show", "--no-patch", "--format=%h of %cs", "HEAD")
    if made is not None:
        commit, _, day = made.partition(" of ")
        made = f"built from commit {commit} of {date.fromisoformat(day):%d %B %Y}"
    return ", ".join(part for part in (number and f"Version {number}", made) if part)


def find(environment: Mapping[str, str], folder: Path) -> Repository | None:
    """Return where the book's source can be read, or None if nobody says."""
    return from_environment(environment) or from_git(folder)


def binder_address(repository: Repository, path: str) -> str:
    """Return where Binder opens the repository's file ``path`` in JupyterLab."""
    host, _, name = repository.url.partition("://")[2].partition("/")
    kind = f"gh/{name}" if host == "github.com" else f"git/{quote(repository.url, safe='')}"
    return f"{BINDER}/v2/{kind}/HEAD?urlpath=lab/tree/{path}"


def launches(repository: Repository, source: str, *, runs: bool) -> list[tuple[str, str]]:
    """Return names and addresses of what the repository offers for a page, by its source in the book's folder."""
    path = f"{FOLDER}/{source}"
    # HEAD is the default branch, whatever its name. What a reader edits is a copy of their own.
    found = [("Source", f"{repository.url}/blob/HEAD/{path}?plain=1"), ("Edit", f"{repository.url}/edit/HEAD/{path}")]
    return [("Launch in Binder", binder_address(repository, path)), *found] if runs else found


def set_repository(app: Sphinx, config: Config) -> None:
    """Put repository and edition into the configuration, so that pages are written again when they are others."""
    root = Path(app.srcdir).parent
    config.book_repository, config.book_edition = find(os.environ, root), edition(root)


def setup(app: Sphinx) -> None:
    """Connect to the reading of the configuration."""
    app.add_config_value("book_edition", "", "html", str)
    app.add_config_value("book_repository", None, "html", (Repository, type(None)))
    app.connect("config-inited", set_repository)
