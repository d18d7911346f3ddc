"""Show the built book on this machine: `python -m scripts.serve_book PORT`; with `--check`, only try the port."""

import argparse
import os
import socket
import sys
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SITE = Path(__file__).resolve().parent.parent / "_build" / "html"
HOST = "127.0.0.1"


def bound(port: str) -> socket.socket:
    """Return a socket that has the port of this machine, for a server.

    Raises:
        ValueError: if ``port`` is no number of a port, or cannot be had; one sentence says why and what to do.
    """
    if not (port.isascii() and port.isdecimal() and 0 < int(port) < 2**16):
        raise ValueError(f"PORT must be a whole number from 1 to 65535, not {port!r}.")
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # also soon after another server of ours ended
    try:
        made.bind((HOST, int(port)))
        made.listen()
    except OSError as error:
        made.close()
        why = (error.strerror or str(error)).lower()
        raise ValueError(
            f"The book cannot be shown on port {port} ({why}): choose another one, such as PORT=8001."
        ) from None
    return made


def serve(site: Path, taken: socket.socket) -> None:
    """Serve the folder on the port of the socket until interrupted."""
    handler = partial(SimpleHTTPRequestHandler, directory=os.fspath(site))
    with ThreadingHTTPServer(taken.getsockname(), handler, bind_and_activate=False) as server:
        server.socket.close()
        server.socket = taken
        server.serve_forever()


def main() -> int:
    """Do what the command line asks for and return the exit code."""
    parser = argparse.ArgumentParser(description="Show the built book on this machine.")
    parser.add_argument("port", help="port of this machine")
    parser.add_argument("--check", action="store_true", help="only see whether the port can be had")
    asked = parser.parse_args()
    try:
        taken = bound(asked.port)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    with taken:
        if not asked.check:
            print(f"The book is on http://{HOST}:{asked.port}; Ctrl+C ends this.", flush=True)
            with suppress(KeyboardInterrupt):
                serve(SITE, taken)
    return 0


if __name__ == "__main__":
    sys.exit(main())
