"""Gate: the HTML of each page keeps the standard, as html-validate reads it; `htmlvalidate.mjs` has the rules."""

import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

CONFIGURATION = Path(__file__).with_name("htmlvalidate.mjs")


def check(site: Path, addresses: Sequence[str], node: Path) -> dict[str, list[str]]:
    """Return the problems of each page that has any, a line for each element.

    Args:
        site: folder of the site.
        addresses: of the pages, relative to it.
        node: folder that html-validate is installed in.

    Raises:
        RuntimeError: if html-validate does not run.
    """
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder, "answer.json")  # it stops before a pipe has taken all
        command = [str(node / "node_modules/.bin/html-validate"), "--config", str(CONFIGURATION)]
        command += ["--formatter", f"json={answer}", *addresses]
        done = subprocess.run(command, cwd=site, capture_output=True, text=True, check=False)
        if not answer.is_file():
            raise RuntimeError(f"html-validate does not run: {(done.stderr or done.stdout).strip()[:500]}")
        results: list[dict[str, Any]] = json.loads(answer.read_text("utf-8"))
    return {
        Path(result["filePath"]).resolve().relative_to(site.resolve()).as_posix(): [
            f"{said['ruleId']}: line {said['line']}, {said.get('selector') or 'no element'}: {said['message']}"
            + (f" ({said['ruleUrl']})" if said.get("ruleUrl") else "")
            for said in result["messages"]
        ]
        for result in results
        if result["messages"]
    }
