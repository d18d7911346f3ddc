"""Opens each chapter in JupyterLab as a launch button does, runs all its cells, and reports what a reader would miss.

The environment is made of `binder/` alone. Problems are: a page that does not open as a notebook, a cell that fails or
writes to standard error, and an output of the book that is not seen or not legible in the light or the dark theme.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from chromium import launched
from notebook_lab import ROOT, Lab, make, running
from playwright.sync_api import Page, TimeoutError

from tinytorch.settings import variable

FOLDER = ROOT / "_build" / "binder"
THEMES = ("JupyterLab Light", "JupyterLab Dark")
#: Milliseconds for a page to open on a busy machine.
OPENS = 120_000
#: WCAG 2.2, 1.4.3: of text to what is behind it.
CONTRAST = 4.5

_IS_READY = """() => {
  const panel = window.jupyterapp?.shell.currentWidget;
  return Boolean(panel?.content?.model && panel.context?.isReady && panel.sessionContext?.session?.kernel);
}"""
_RUN_ALL = "async () => { await window.jupyterapp.commands.execute('notebook:run-all-cells'); }"
_FAULTS = """() => {
  const faults = [];
  let number = 0;
  for (const cell of window.jupyterapp.shell.currentWidget.content.model.cells) {
    if (cell.type !== 'code') continue;
    number += 1;
    if (cell.executionCount === null && cell.sharedModel.getSource().trim())
      faults.push(`code cell ${number} did not run`);
    for (let i = 0; i < cell.outputs.length; i++) {
      const output = cell.outputs.get(i).toJSON();
      if (output.output_type === 'error') faults.push(`code cell ${number}: ${output.ename}: ${output.evalue}`);
      if (output.name === 'stderr') faults.push(`code cell ${number} wrote to stderr: ${output.text}`);
    }
  }
  return faults;
}"""
# Every output that the book makes: rendered, of some size, and its text legible on what is behind it.
_UNSEEN = """contrast => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const parts = color => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const luminance = color => parts(color).slice(0, 3).map(part => part / 255)
    .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, i) => sum + part * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = element => {
    for (let at = element; at; at = at.parentElement)
      if (parts(getComputedStyle(at).backgroundColor)[3] > 127) return getComputedStyle(at).backgroundColor;
    return 'white';
  };
  const ratio = element => {
    const pair = [luminance(getComputedStyle(element).color), luminance(behind(element))].sort((a, b) => b - a);
    return (pair[0] + 0.05) / (pair[1] + 0.05);
  };
  const faults = [];
  const panel = window.jupyterapp.shell.currentWidget.node;
  for (const output of panel.querySelectorAll('.jp-RenderedHTMLCommon.jp-OutputArea-output')) {
    const name = output.textContent.trim().slice(0, 40) || 'an output';
    const box = output.getBoundingClientRect();
    if (box.width < 1 || box.height < 1) faults.push(`${name}: not seen`);
    for (const part of output.querySelectorAll('strong, td, th, p, svg'))
      if (ratio(part) < contrast) { faults.push(`${name}: contrast ${ratio(part).toFixed(1)}`); break; }
    const drawing = output.querySelector('svg');
    if (drawing && drawing.getBoundingClientRect().height < 50) faults.push(`${name}: the drawing is not seen`);
  }
  return faults;
}"""
# Cells out of sight are not drawn unless told so.
_DRAW_ALL = """() => {
  const notebook = window.jupyterapp.shell.currentWidget.content;
  notebook.notebookConfig = {...notebook.notebookConfig, windowingMode: 'none'};
}"""
_COUNT = "() => document.querySelectorAll('.jp-RenderedHTMLCommon.jp-OutputArea-output').length"


def chapters(root: Path) -> list[str]:
    """Return the names of the pages of `root`/book that have cells, sorted."""
    pages = sorted((root / "book").glob("*.md"))
    return [page.stem for page in pages if "```{code-cell}" in page.read_text("utf-8")]


def legibility(page: Page) -> list[str]:
    """Return what is not seen or not legible in an open notebook that ran, in each theme."""
    found: list[str] = []
    page.evaluate(_DRAW_ALL)
    for theme in THEMES:
        page.evaluate("theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})", theme)
        page.wait_for_selector(f'body[data-jp-theme-name="{theme}"]', timeout=OPENS, state="attached")
        found += [f"{theme}: {fault}" for fault in page.evaluate(_UNSEEN, CONTRAST)]
    if page.evaluate(_COUNT) == 0:
        found.append("no output of the book is shown")
    return found


def run_page(page: Page, lab: Lab, name: str) -> list[str]:
    """Open the page ``name`` by its launch path, run all its cells, and return what a reader would miss."""
    try:
        page.goto(lab.launch(f"book/{name}.md"))
        page.wait_for_selector(".jp-NotebookPanel .jp-Cell", timeout=OPENS)
        page.wait_for_function(_IS_READY, timeout=OPENS)
    except TimeoutError:
        return ["did not open as a notebook"]
    page.evaluate(_RUN_ALL)
    problems = [*page.evaluate(_FAULTS), *legibility(page)]
    page.evaluate("() => window.jupyterapp.commands.execute('kernelmenu:shutdown')")
    return problems


def check(names: Sequence[str], folder: Path) -> int:
    """Make the environment, open the pages one after the other, print a line for each; return how many problems.

    Raises:
        FileNotFoundError: if there is no browser.
        RuntimeError, subprocess.CalledProcessError: if the environment cannot be made or started.
    """
    count = 0
    with running(make(folder)) as lab, launched() as browser:
        for name in names:
            context = browser.new_context(viewport={"width": 1280, "height": 1000})
            problems = run_page(context.new_page(), lab, name)
            context.close()
            print("\n  ".join([f"{name}: {len(problems) or 'no'} problems", *problems]), flush=True)
            count += len(problems)
    return count


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the pages named on the command line, or all; return 0 if there is no problem, else 1."""
    known = chapters(ROOT)
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pages", nargs="*", metavar="page", help=f"of {', '.join(known)}; all if none is named")
    names = parser.parse_args(arguments).pages or known
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"No page with cells is named {', '.join(unknown)}: there are {', '.join(known)}.", file=sys.stderr)
        return 1
    os.environ.pop(variable("building_book"), None)
    try:
        return 1 if check(names, FOLDER) else 0
    except (FileNotFoundError, RuntimeError) as error:
        print(error, file=sys.stderr)
    except subprocess.CalledProcessError as error:
        print(f"The environment of binder/ could not be made: {error}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
