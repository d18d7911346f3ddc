"""Failed builds: what they read without fault is kept, and the next build reads again only what failed.

Sphinx drops its environment after an error, and after warnings believes pages whose warnings it will not say again.
Here the pages that warned, that failed or that were not reached are marked to be read again. Of a build that failed
otherwise nothing is told, and the next begins anew: see scripts/build_book.py.
"""

import logging as standard_logging
import pickle
import shutil
from pathlib import Path

from sphinx.application import ENV_PICKLE_FILENAME, Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import SphinxError

from measured_book.execution.events import listen, tell
from measured_book.execution.results import executed_notebook, results_of


class Failures(standard_logging.Handler):
    """Keeper of the environment of one build, should it fail.

    It is no handler of Sphinx's kind, as these get what a page warns of only when all are read.
    """

    def __init__(self, app: Sphinx) -> None:
        super().__init__()
        self.app = app
        #: The pages that are planned and not begun; None until it is known what to read, and when all are read.
        self.waiting: set[str] | None = None
        #: The pages that warned; "" among them for a warning of no page.
        self.warned: set[str] = set()
        self.known: dict[int, standard_logging.LogRecord] = {}

    def emit(self, record: standard_logging.LogRecord) -> None:
        """Keep the page of a warning: the one that is being read or resolved, else the one at its place."""
        if id(record) in self.known:  # Sphinx held it back, and tells it again
            return
        self.known[id(record)] = record
        env = getattr(self.app, "env", None)
        place = str(getattr(record, "location", "")).partition(":")[0]
        pages = [] if env is None else [env.temp_data.get("docname"), place, env.path2doc(place)]
        self.warned.add(next((page for page in pages if env is not None and page in env.found_docs), ""))

    def plan(self, _: Sphinx, __: BuildEnvironment, docnames: list[str]) -> None:
        """Keep the pages that will be read."""
        self.waiting = set(docnames)

    def begin_page(self, _: Sphinx, docname: str, __: list[str]) -> None:
        """Take a page as begun; until it is read Sphinx does not know it."""
        if self.waiting is not None:
            self.waiting.discard(docname)

    def end_reading(self, _: Sphinx, __: BuildEnvironment) -> None:
        """Take all pages as read."""
        self.waiting = None

    def finish(self, app: Sphinx, exception: Exception | None) -> None:
        """After a failed build keep what may be kept, and tell that it is."""
        foreseen = isinstance(exception, SphinxError) and getattr(exception, "orig_exc", None) is None
        failed = bool(self.warned) if exception is None else foreseen and self.waiting is not None
        if failed and "" not in self.warned:
            self._keep(app.env)

    def _keep(self, env: BuildEnvironment) -> None:
        """Write the environment with pages to be read again; one that wrote to standard error is to run again."""
        for docname in self.warned:
            notebook, results = executed_notebook(env, docname), results_of(env, docname)
            outputs = [out for cell in notebook.cells for out in cell.get("outputs", [])] if notebook else []
            if results is not None and any(output.get("name") == "stderr" for output in outputs):
                shutil.rmtree(results)
        env.reread_always |= (self.warned | (self.waiting or set())) & set(env.all_docs)
        env.temp_data.clear()  # of the page that was being read
        env.ref_context.clear()
        Path(self.app.doctreedir, ENV_PICKLE_FILENAME).write_bytes(pickle.dumps(env, pickle.HIGHEST_PROTOCOL))
        tell("kept")


def setup(app: Sphinx) -> None:
    """Connect to the events of a build, behind all other parts."""
    failures = Failures(app)
    listen(app, failures)
    app.connect("builder-inited", lambda _: tell("begun"))
    app.connect("env-before-read-docs", failures.plan)
    app.connect("source-read", failures.begin_page, priority=1)
    app.connect("env-updated", failures.end_reading, priority=1)
    app.connect("build-finished", failures.finish, priority=900)
