"""Repository of the book, whose address is typed nowhere, and the theme's links to it.

The address comes from GITHUB_REPOSITORY on GitHub, else from git's remote `origin`. Where there is none that
a reader could open, the pages have no source, issue or Binder button.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.config import Config

PROVIDERS = ("github", "gitlab", "bitbucket")  # the hosts that the theme can make links for
BINDER = "https://mybinder.org"
# Both GitHub and Binder read HEAD as the default branch, whatever its name is.
BRANCH = "HEAD"

_SCP_FORM = re.compile(r"^(?:[^@/:]+@)?(?P<host>[^/:@]{2,}):(?P<path>[^\\].*)$")  # git@host:owner/name.git


@dataclass(frozen=True)
class Repository:
    """Repository that a reader can open in a browser: its address and the kind of host it is on."""

    url: str
    provider: str


def provider_of(host: str) -> str | None:
    """Return which of PROVIDERS a host name belongs to, or None."""
    labels = host.lower().split(".")
    return next((provider for provider in PROVIDERS if provider in labels), None)


def parse_remote(remote: str) -> Repository | None:
    """Return the repository that a git remote names, or None if it has no page that the theme can link to.

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
    provider = provider_of(host)
    names = path.strip("/").removesuffix(".git").split("/")
    if provider is None or len(names) < 2 or not all(re.fullmatch(r"[\w.~-]+", name) for name in names):
        return None
    address = host.lower() if port is None else f"{host.lower()}:{port}"
    return Repository(f"{scheme}://{address}/{'/'.join(names)}", provider)


def from_environment(environment: Mapping[str, str]) -> Repository | None:
    """Return the repository that GitHub's runner names in the environment, or None elsewhere."""
    name = environment.get("GITHUB_REPOSITORY", "")
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        return None
    server = environment.get("GITHUB_SERVER_URL", "https://github.com").rstrip("/")
    return Repository(f"{server}/{name}", "github")


def from_git(folder: Path) -> Repository | None:
    """Return the repository that the remote `origin` of the checkout at `folder` names, or None without one."""
    folder = folder.resolve()
    command = ["git", "-C", str(folder), "remote", "get-url", "origin"]
    # A copy without .git that lies inside another checkout is not that checkout's.
    settings = {**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent)}
    try:
        found = subprocess.run(
            command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, env=settings
        )
    except FileNotFoundError:  # a source archive on a machine without git
        return None
    return parse_remote(found.stdout) if found.returncode == 0 else None


def find(environment: Mapping[str, str], folder: Path) -> Repository | None:
    """Return where the book's source can be read, or None if nobody says."""
    return from_environment(environment) or from_git(folder)


def theme_options(repository: Repository | None) -> dict[str, Any]:
    """Return the theme's options for a repository; without one, those that draw no button for it."""
    if repository is None:
        # The theme stops on a launch button without an address, so there must be none at all.
        return {
            "repository_url": "",
            "use_source_button": False,
            "use_issues_button": False,
            "use_repository_button": False,
            "launch_buttons": {},
        }
    return {
        "repository_url": repository.url,
        "repository_provider": repository.provider,
        "repository_branch": BRANCH,
        "path_to_docs": "book",
        "use_source_button": True,
        # Under each title stands a form with the machine's card filled in: records/card.py.
        "use_issues_button": False,
        "use_repository_button": True,
        "launch_buttons": {"binderhub_url": BINDER, "notebook_interface": "jupyterlab"},
    }


def set_theme_options(app: Sphinx, config: Config) -> None:
    """Put the repository's address into the theme's options, before the theme reads them."""
    repository = find(os.environ, Path(app.srcdir).parent)
    config.html_theme_options = {**config.html_theme_options, **theme_options(repository)}


def setup(app: Sphinx) -> None:
    """Connect to the reading of the configuration."""
    app.connect("config-inited", set_theme_options)
