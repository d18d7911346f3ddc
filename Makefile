# The jobs of this repository. `make help` lists them.
SHELL := bash
# No .SHELLFLAGS, which the make 3.81 of macOS ignores: each line of a recipe is one command, or a pipe that ends in one.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

# The first Python on the path that is new enough; `make PYTHON=... TARGET` chooses another.
ifeq ($(origin PYTHON), undefined)
PYTHON := $(shell for name in python3.11 python3.12 python3.13 python3.14 python3; do \
	if "$$name" -I -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then echo "$$name"; break; fi; done)
endif

# Settings of one run count only on its command line: systems and shells have variables of these names for other things.
NAME :=
TITLE :=
VENV := .venv
PEERS_VENV := .venv-peers
# `make book PEERS=1` compares with other engines, each run in a process of the peers' environment.
PEERS :=
ifneq ($(filter-out 0 1,$(PEERS)),)
$(error PEERS must be 1, to compare with other engines, or 0, not $(PEERS))
endif
WITH_PEERS := $(filter 1,$(PEERS))
# `make book PAGES="profiling"` runs some pages and leaves the others as they were, `make check PAGES="profiling"` reads some.
PAGES :=
# `make book CPU=avx2` and `make test CPU=avx2` limit all kernels to the instructions of that CPU; this book gets its own folder.
CPU :=
# `make book PAGES="profiling" OUTCOME=other` writes the pages a second time, with the texts of the outcomes that were not chosen.
OUTCOME :=
# `make book PAGES="profiling" ROUGH=1` shows in seconds that a page runs.
ROUGH :=
# `make test TESTS=tests/core` runs some tests.
TESTS :=
PORT := 8000
# PyPI's torch for Linux brings gigabytes of CUDA; this index has the build without it.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
LOCK_FLAGS :=
COMPILE := $(VENV)/bin/uv pip compile pyproject.toml --python-version 3.11 --generate-hashes --quiet \
	--custom-compile-command "make lock"
LOCK := $(COMPILE) --universal --fork-strategy fewest $(LOCK_FLAGS)

# Runs a Python on what follows, with the variables that are let through to it: see the script.
LET := -I scripts/environment.py run
RUN := $(VENV)/bin/python $(LET)
PEERS_RUN := $(PEERS_VENV)/bin/python $(LET)

BENCHMARKS := $(patsubst benchmarks/%.py,bench-%,$(shell grep -l __main__ benchmarks/*.py))
LINTS := lint-style lint-layout lint-types lint-pages lint-imports lint-spelling
.PHONY: help chapter environment peers-environment book pdf live check test serve port format lint lock clean peers bench check-site check-readme check-links check-notebooks pictures $(LINTS) $(BENCHMARKS)

help:  ## list the commands
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)$$/  make \1|\2/p' Makefile | while IFS='|' read -r job what; do printf '%-20s %s\n' "$$job" "$$what"; done

book: environment $(if $(WITH_PEERS),peers-environment)  ## run the chapters and write the site to _build/html (PAGES="profiling ...": only these pages; ROUGH=1: fast, with rough measurements, into _build/rough; CPU=avx2: with the kernels of that CPU; PEERS=1: also race PyTorch, JAX and ONNX Runtime; OUTCOME=other: also show the texts of the outcomes that were not chosen)
	@$(RUN) $(if $(WITH_PEERS),TINYTORCH_PEERS="$(CURDIR)/$(PEERS_VENV)/bin/python" )-m scripts.build_book $(if $(CPU),--cpu "$(CPU)") $(if $(ROUGH),--rough) $(if $(OUTCOME),--outcome "$(OUTCOME)") $(PAGES)

pdf: environment  ## build the book and also print it to _build/html/measured.pdf (needs Chromium)
	@$(RUN) TINYTORCH_PDF=1 -m scripts.build_book
	@$(RUN) -m scripts.print_book

# BLAS threads that have nothing to do then sleep at once: else each process that loads NumPy or SciPy, of which tests
# start hundreds, keeps another core busy for a tenth of a second.
test: environment  ## run all tests (TESTS="tests/core ...": only these tests; CPU=avx2: with the kernels of that CPU)
	@$(RUN) OPENBLAS_THREAD_TIMEOUT=4 $(if $(CPU),-m scripts.building.older_cpu "$(CPU)" $(VENV)/bin/python )-m pytest --numprocesses logical --dist worksteal $(TESTS)

serve: port book  ## build the book and show it at http://127.0.0.1:8000 (PORT=...: at another port)
	@$(RUN) -m scripts.serve_book "$(PORT)"

# Before hours of building.
port: environment
	@$(RUN) -m scripts.serve_book "$(PORT)" --check

live: port  ## show the book with rough measurements, and rebuild a page when you save it (PAGES="profiling ...": only these pages; PORT=...: at another port)
	@$(RUN) PORT="$(PORT)" -m scripts.live_book $(PAGES)

check: environment  ## check pages and their modules without running them: form, references, spelling, types (PAGES="profiling ...": only these pages)
	@$(RUN) PYTHONPATH=book/_ext:book/_checks -m scripts.check_pages $(PAGES)

chapter: environment  ## create the draft of a new chapter, NAME=batching (TITLE="...": with this title)
	@$(RUN) PYTHONPATH=book/_ext:book/_checks -m scripts.new_chapter $(if $(NAME),$(NAME),$(error Give the chapter a name: make chapter NAME=batching)) $(if $(TITLE),--title "$(TITLE)")

check-site: environment .node/made  ## check the built site: links, HTML, spelling, browser, Lighthouse (PAGES="profiling ...": only these pages)
	@$(if $(PAGES),,$(RUN) -m pytest book/_checks --numprocesses 3 --dist loadfile --no-loadscope-reorder)
	@$(RUN) PYTHONPATH=book/_ext book/_checks/check_site.py _build/html $(if $(PAGES),--page $(PAGES:=.html))

check-readme: environment  ## run all commands of README and of the pages in a fresh clone
	@$(RUN) -m scripts.check_readme

check-links: environment  ## check that the links to other sites still work
	@$(RUN) book/_checks/external_links.py _build/html

pictures: environment  ## renew the reference pictures of the page that shows every element
	@$(RUN) book/_checks/appearance.py

check-notebooks: environment  ## run all chapters in JupyterLab, as Binder does (PAGES="machine ...": only these pages)
	@$(RUN) book/_checks/notebooks.py $(PAGES)

format: environment  ## fix the layout and style of code and cells, and update the table of pages in README and the schema of records
	@$(VENV)/bin/ruff check --fix-only .
	@$(VENV)/bin/ruff format .
	@$(RUN) PYTHONPATH=book/_ext:book/_checks -m scripts.format_pages

lint: environment  ## check style, types, the form of pages, layers and spelling
	@$(MAKE) --no-print-directory --keep-going $(LINTS)  # each to its end: make names those that failed

lint-style: ; @$(RUN) -m ruff check .
lint-layout: ; @$(RUN) -m ruff format --check . || { echo "\`make format\` mends that."; exit 1; }
lint-types: ; @$(RUN) -m mypy
lint-pages: ; @$(RUN) PYTHONPATH=book/_ext:book/_checks -m scripts.check_pages
lint-imports: ; @$(RUN) PYTHONPATH=book/_ext -c "from importlinter.cli import lint_imports_command; lint_imports_command()"
lint-spelling: ; @$(RUN) -m codespell_lib

peers: peers-environment  ## test tinytorch against PyTorch (in a separate environment; large download)
	@$(PEERS_RUN) -m pytest peers

bench: peers-environment  ## run benchmarks/, which race PyTorch, each library with its best BLAS
	@$(MAKE) --no-print-directory --keep-going $(BENCHMARKS)  # one that misses its target stops no other

$(BENCHMARKS): bench-%: ; @echo "== benchmarks.$*"; $(PEERS_RUN) -m benchmarks.$*

lock: environment  ## update the lock files after a change of pyproject.toml
	@$(LOCK) --all-extras --output-file requirements.lock
	@$(LOCK) --group peers --constraints requirements.lock --output-file requirements-peers.lock
	@$(COMPILE) binder/requirements.in --extra notebook --extra mpi --extra onnx --python-platform x86_64-manylinux_2_28 \
		--constraints requirements.lock --output-file binder/requirements.txt

clean:  ## remove everything that was built, except the environments
	rm -rf _build build .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -path './.venv*' -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

environment:
	@$(if $(PYTHON),,$(error This needs Python 3.11 to 3.14 and found none on the path: install one or give it with PYTHON=/path/to/python))"$(PYTHON)" -I scripts/environment.py make $(VENV) requirements.lock

peers-environment:
	@$(if $(PYTHON),,$(error This needs Python 3.11 to 3.14 and found none on the path: install one or give it with PYTHON=/path/to/python))"$(PYTHON)" -I scripts/environment.py make $(PEERS_VENV) requirements-peers.lock --group torch --index "$(TORCH_INDEX)"

# What the checks of the built site run on Node.js, exactly as locked; npm says so if Node.js is older than package.json asks.
.node/made: book/_checks/package.json book/_checks/package-lock.json
	@command -v npm >/dev/null || { echo "The built pages are checked with programs for Node.js 20.19 or newer, and npm is not on the path: https://nodejs.org/en/download" >&2; exit 1; }
	@mkdir -p .node && rm -f $@ && cp $^ .node
	@cd .node && npm ci --engine-strict --ignore-scripts --no-audit --no-fund --no-progress --loglevel=error
	@touch $@
