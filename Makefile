# Every target makes its own virtual environment in .venv and installs into it what it needs: only Python 3.11 to 3.13
# and make have to be there. Another interpreter: make test PYTHON=python3.12 (after make clean).

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help demo test lint format docs bench chaos simulate clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# What the demo shows is typed as a user would type it; $(1) is the command.
show = @printf '\n$$ %s\n' '$(1)'; $(BIN)/$(1)

demo: $(VENV)/.installed  ## shard the embedded dataset and sweep three methods over two graphs, with a report
	@rm -rf demo
	$(call show,dtoken-data ingest tiny --nodes 9 --partition shuffled --store demo/stores)
	$(call show,dtoken-data inspect $$(ls -d demo/stores/*.zarr) --sigma 1e-3)
	$(call show,dtoken -m +experiment=quickstart problem.sigma=1e-3 data=tiny data.store=demo/stores partition.kind=shuffled \
		hydra.sweep.dir=demo/sweep)
	@printf '\nOpen demo/sweep/report/index.html in a browser.\n'

test: $(VENV)/.installed-test  ## run all tests, and the examples in docstrings and documentation
	$(BIN)/python -m pytest --numprocesses=auto --dist=loadfile --no-loadscope-reorder

lint: $(VENV)/.installed-dev  ## check style, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.installed-dev  ## format the code and fix what ruff can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# not --quiet, with which mkdocs would not count warnings
docs: $(VENV)/.installed-dev  ## check the documentation (links, examples, keys, API), build it as a site
	$(BIN)/python docs/configuration.py --check
	$(BIN)/python docs/check_links.py
	$(BIN)/python docs/check_api.py
	$(BIN)/mkdocs build --strict
	$(BIN)/python -m pytest --quiet README.md docs

SIZE ?= full
bench: $(VENV)/.installed-bench  ## measure everything, write the tables of docs/performance.md (SIZE=small: some minutes)
	$(BIN)/python benchmarks/suite.py --size $(SIZE)

chaos: $(VENV)/.installed-test  ## kill a hundred Dask workers in runs of all methods; every result must stay the same
	$(BIN)/python -m tests.engine.dask.chaos --kills 100

FAULTS ?= 100000
simulate: $(VENV)/.installed-test  ## inject faults into simulated runs on Dask (FAULTS=1000000: a night); equal bits, every time
	$(BIN)/python -m tests.simulation --faults $(FAULTS)

clean:  ## remove the virtual environment, the demo and what tools left behind
	rm -rf $(VENV) demo build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' || \
		{ echo 'dtoken needs Python 3.11 to 3.13; choose one with make PYTHON=python3.12' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# One stamp per set of requirements; a larger set contains the smaller ones.
$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.installed-test: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --disable-pip-version-check --editable '.[test]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-bench: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --disable-pip-version-check --editable '.[bench]'
	@touch $@ $(VENV)/.installed $(VENV)/.installed-test

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(VENV)/.installed $(VENV)/.installed-test
