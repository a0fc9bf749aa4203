# setup: install; sweep: the first example; test: lint and suite; chaos: every kill;
# gpu: what only a GPU shows; slurm: a real Slurm; lint: style and types; suite: the tests.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin

.PHONY: setup sweep test suite chaos gpu slurm lint clean

setup: $(VENV)/installed

$(VENV)/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "PYTHON=$(PYTHON): expected Python 3.11 or newer. Try: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --no-compile --quiet --disable-pip-version-check --constraint constraints.txt torch
	$(BIN)/python -m pip install --no-compile --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@# On all cores at once, where pip takes one; one file of torch is for later Pythons alone.
	$(BIN)/python -m compileall -q -j 0 -x '/tests?/|/py312_intrinsics' $(VENV)/lib dpcore trainables sweeps
	touch $@

sweep: setup
	$(BIN)/sweeps run quickstart

test: setup
	@# Types are checked beside tests that wait for processes.
	$(MAKE) --jobs 2 lint suite

suite: setup
	@# Three at a time, whole files each, in the order of tests/conftest.py: half of the suite waits for processes.
	$(BIN)/python -m pytest -q -n 3 --dist loadfile --no-loadscope-reorder

chaos: setup
	@# Theorems are tried on all cores at once; what kills has the machine to itself. -rP: each prints what it found,
	@# killed, charged, drew and needed.
	SWEEPS_CHAOS_MECHANISMS=3000 $(BIN)/python -m pytest -q -n auto -rP -m chaos --timeout=3600 tests/dpcore
	SWEEPS_CHAOS_KILLS=40 $(BIN)/python -m pytest -q -n 0 -rP -m chaos --timeout=3600 --ignore=tests/dpcore

gpu: setup
	@# One table, and the same as JSON; what the machine lacks is skipped by name.
	$(BIN)/python -m tests.gpu --json .sweeps/gpu.json

slurm: setup
	@# As root, on Debian or Ubuntu: daemons and namespaces of its own, gone afterwards. -rP prints what was done and seen.
	which slurmctld slurmd munged > /dev/null || apt-get install --yes --no-install-recommends slurm-wlm munge
	$(BIN)/python -m pytest -q -n 0 -rP -m slurm tests/slurm

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy dpcore trainables sweeps tests/benchmarks tests/gpu

clean:
	rm -rf $(VENV) .sweeps
