# The developer's manual: `make` lists what there is to do.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# More arguments for pytest, such as ARGS="tests/survey -k moments".
ARGS ?=
# Processes that share the tests, each with one thread: on two cores two of four often wait.
PROCESSES ?= 4
# A file's tests share what they are made from, so that one process runs them all.
PYTEST = $(BIN)/python -m pytest -n $(PROCESSES) --dist loadfile --no-loadscope-reorder
# uv installs the lock, with its hashes, many times as fast as pip, which brings uv by its own lines
# of the lock. Where uv cannot reach a registry (it does not read pip's settings), pip does it all.
UV_INSTALL = sed -n '/^uv==/,/\# via/p' requirements.lock > $(VENV)/uv.lock \
  && $(BIN)/python -m pip install -qq --no-input --require-hashes -r $(VENV)/uv.lock \
  && $(BIN)/uv pip install $$([ -t 2 ] || echo --quiet) --python $(BIN)/python --require-hashes \
     -r requirements.lock
# Studies to run again for `make figures`; all by default.
STUDIES ?=

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Byte code is kept whatever the caller prefers: tests start many processes.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help install demo check test test-long test-gpu lint bench docs figures zoo lock

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile

install: $(STAMP)  ## Make .venv with the pinned packages and this one (PYTHON=python3.12 chooses)

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "Python 3.11 or newer is needed; '$(PYTHON)' is: $$($(PYTHON) --version 2>&1)" >&2; \
	  echo "Try: make install PYTHON=python3.12" >&2; exit 2; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV) || { \
	  echo "$(PYTHON) cannot make a virtual environment; on Debian: apt install python3-venv" >&2; \
	  exit 2; }
	@echo "Installing the $$(grep -c '^[a-z].*==' requirements.lock) packages of requirements.lock" \
	  "into $(VENV): 7 GB with torch, half a minute and up ..."
	@$(UV_INSTALL) || { echo "uv could not install them; pip goes on, which takes minutes ..." >&2; \
	  $(BIN)/python -m pip install --no-input --progress-bar off --require-hashes \
	    -r requirements.lock; }
	@$(BIN)/python -m pip install -qq --no-input --no-deps --no-build-isolation -e .
	@touch $@
	@echo "Installed: $(BIN)/survey"

demo: $(STAMP)  ## Survey the bundled zoo on a local Ray and print the signatures
	@$(BIN)/survey demo

# Quick tests do not wait, and each process collects all tests.
check: PROCESSES = 2
check: lint  ## Run lint and the tests that are quick: about two minutes
	@$(PYTEST) -m quick $(ARGS)

test: $(STAMP)  ## Run the tests but for the long ones (ARGS="tests/survey -x" narrows)
	@$(PYTEST) -m "not long and not gpu" $(ARGS)

# Two files at most have clusters at once (tests/conftest.py), and many wait for servers: meanwhile a
# third process computes on two cores.
test-long: PROCESSES = 3
test-long: $(STAMP)  ## Run the tests that take minutes each
	@$(PYTEST) -m long $(ARGS)

# Each process holds a part of the device's memory, and bounds it in one test.
test-gpu: PROCESSES = 2
test-gpu: $(STAMP)  ## Run the tests that need a GPU
	@$(PYTEST) -m gpu $(ARGS)

lint: $(STAMP)  ## Check style, format, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(STAMP)  ## Print speed beside its targets, over an hour (PHOTOGRAPHS=FOLDER)
	@OMP_NUM_THREADS=1 $(BIN)/python -m bench.targets \
	  $(or $(PHOTOGRAPHS),$(error PHOTOGRAPHS=FOLDER names 512 pictures or more, by class))

docs: $(STAMP)  ## Write docs/cli.md, schema.md, metrics.md and measures.md again from the code
	@$(BIN)/python -m docs.generate.cli_page > docs/cli.md
	@$(BIN)/python -m docs.generate.schema_page > docs/schema.md
	@$(BIN)/python -m docs.generate.metrics_page > docs/metrics.md
	@$(BIN)/python -m docs.generate.measures_page > docs/measures.md

figures: $(STAMP)  ## Write docs/activations.md and its figures again (STUDIES="comparison" narrows)
	@$(BIN)/python -m docs.generate.studies_page docs $(STUDIES)

zoo: $(STAMP)  ## Train the bundled zoo again (about two minutes)
	@$(BIN)/python -m catalog.zoo.train

lock: $(STAMP)  ## Resolve requirements.lock again from pyproject.toml, keeping pins that still fit
	@$(BIN)/uv pip compile --quiet --universal --generate-hashes --extra dev --extra postgresql \
	  --python-version 3.11 --fork-strategy fewest --no-config --no-emit-index-url --no-header \
	  --output-file requirements.lock pyproject.toml
