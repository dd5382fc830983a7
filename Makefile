# On a fresh machine with only Python 3.10 or newer: `make run`, `make test`. Everything lands in .venv.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
LOG ?= tests/data/logs/demo.log
ARGS ?=
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help setup dev run test check format bench soak faultlab packages calibrate ablation suspects ranks baseline recovery clean

help:  ## Show what there is
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 18

# A stamp is newer than what it was made from, so that a second call has nothing to do.
$(VENV)/.base: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "logdiag needs Python 3.10 or newer: make PYTHON=python3.x")'
	@echo "setting up $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.base
	@echo "adding the tools for tests and checks"
	@$(PIP) -e '.[dev]'
	@touch $@

$(VENV)/.lab: $(VENV)/.base
	@echo "adding what the jobs of the fault lab run on: PyTorch and others, some gigabytes"
	@$(PIP) -e '.[lab]'
	@touch $@

setup: $(VENV)/.base  ## Install logdiag into .venv

dev: $(VENV)/.dev  ## Install the tools for tests and checks too

run: $(VENV)/.base  ## Diagnose a log: make run LOG=slurm-4711.out ARGS='--format json'
	@$(BIN)/logdiag $(ARGS) '$(LOG)'

test: $(VENV)/.dev  ## Run all tests
	$(BIN)/python -m pytest

check: $(VENV)/.dev  ## Formatting, lint, types, forms and tests, which prove the rules too
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/logdiag forms test
	$(BIN)/python -m pytest

format: $(VENV)/.dev  ## Format the code and fix what lint can fix
	$(BIN)/ruff check --fix --exit-zero .
	$(BIN)/ruff format .

bench: $(VENV)/.dev  ## Measure speed and memory: make bench ARGS=--small for a quick one
	$(BIN)/python -m evals.bench $(ARGS)

soak: $(VENV)/.dev  ## Measure that 10,000 diagnoses in one process leave memory flat
	$(BIN)/python -m evals.soak $(ARGS)

faultlab: $(VENV)/.lab  ## Make the labelled cases from real jobs: make faultlab ARGS='--only dev/'
	$(BIN)/python -m evals.faultlab $(ARGS)

packages:  ## Install the Debian packages that the fault lab and some tests use (as root)
	xargs apt-get install -y --no-install-recommends <evals/faultlab/packages.txt

calibrate: $(VENV)/.dev  ## Fit the confidence again: make calibrate ARGS='--collect NAME CASES...'
	$(BIN)/python -m evals.calibrate $(ARGS)

suspects: $(VENV)/.dev  ## Train the ranking of suspects again: make suspects ARGS='--measure CASES...' measures it
	$(BIN)/python -m evals.suspects $(ARGS)

ranks: $(VENV)/.dev  ## Fit again what tells the first rank to fail: make ranks ARGS='CASES...' learns from these too
	$(BIN)/python -m evals.ranks $(ARGS)

ablation: $(VENV)/.dev  ## Switch each special case of the judgement off in turn, to see what it is worth
	$(BIN)/python -m evals.ablation $(ARGS)

recovery: $(VENV)/.dev  ## Run a real job of four processes through 25 faults under logdiag run
	$(BIN)/python -m evals.recovery $(ARGS)

baseline: $(VENV)/.dev  ## Measure the committed cases anew, as what later changes are held against
	$(BIN)/logdiag eval evals/cases --baselines --json evals/results/cases.json
	@# What is committed quotes no log: the line's number says which it is.
	@sed -i 's/^   "root_text": ".*",$$/   "root_text": null,/' evals/results/cases.json

clean:  ## Remove everything that can be made again
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
