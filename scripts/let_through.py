"""What of its caller's environment reaches the jobs of this repository: what is on a list, and nothing else.

`python -I scripts/let_through.py NAME=VALUE ... ARGUMENT ...` runs this Python anew with the arguments and with these
variables besides, and works before anything is installed. So neither a profile of the shell nor a setting that some
other tool needs decides what is measured, tested or installed. What the pages' kernels get is steered further by
`scripts.building.settings`; what steers results is in the key of each page (`measured_book.execution.key`).
"""

import os
import re
import sys
from collections.abc import Mapping

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
_TELLS = ("TERM", "COLORTERM", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")


def let_through(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the environment that are on the list."""
    beginnings = tuple(name for name in LET_THROUGH if name.endswith("_"))
    return {name: value for name, value in environment.items() if name in LET_THROUGH or name.startswith(beginnings)}


def without_terminal(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables but those of a terminal, by whose width and colours no page may change."""
    return {name: value for name, value in environment.items() if name not in _TELLS}


def main() -> None:
    """Do what the command line says, in the place of this process."""
    settings, arguments = let_through(os.environ), sys.argv[1:]
    while arguments and (given := re.fullmatch(r"([A-Za-z_]\w*)=(.*)", arguments[0], re.DOTALL)):
        settings[given[1]] = given[2]
        del arguments[0]
    os.execve(sys.executable, [sys.executable, *arguments], settings)


if __name__ == "__main__":
    main()
