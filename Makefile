# The doors into the project. `make` alone shows them.
# Everything runs from a bare clone as root or as a normal user; nothing needs sudo.

SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
# Container images often forbid Python to keep what it compiled; then each of the hundreds of processes of a test run compiles the
# service anew, a fifth of its start.
export PYTHONDONTWRITEBYTECODE :=
# Two workers pay off on two cores; the suite is made for running in parallel on one database.
TEST_WORKERS ?= 2
# Long faults have servers of their own and run side by side, but for those that load and kill whole services and measure what
# stands still meanwhile.
CHAOS_ALONE := tests/chaos/test_demos.py tests/chaos/test_kills.py

.DEFAULT_GOAL := help
.PHONY: help venv run first-key test chaos oracle oracle-proof check bench lock clean

help:
	@echo "make run        the service with its demo hotel, embedded PostgreSQL and Valkey"
	@echo "make first-key  the shortest proof: one booking becomes one key that opens the door"
	@echo "make test       the suite (random order, no network but loopback)"
	@echo "make chaos      the long fault injections"
	@echo "make oracle     random stays against the doors, judged by a model; MINUTES=30 SEED=1"
	@echo "make oracle-proof  random stays on a product with planted faults, each of which must be found"
	@echo "make check      lint, types, import contract, migrations, event schemas, API document"
	@echo "make bench      figures beside their raw baselines"
	@echo "make lock       solve the dependencies anew and write the hashed lock files"
	@echo "make clean      stop the embedded servers and remove what was made here"

venv: $(READY)

# Rebuilt only when a lock file or the interpreter's version changes.
$(READY): requirements.txt requirements-dev.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing the locked dependencies into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.txt
	@touch $@

run: $(READY)
	@exec $(BIN)/python manage.py up --end-with-parent $(UP_ARGS)

first-key: $(READY)
	@exec $(BIN)/python manage.py first_key

test: $(READY)
	@exec $(BIN)/python -m pytest -n $(TEST_WORKERS) --dist worksteal $(PYTEST_ARGS)

chaos: $(READY)
ifdef PYTEST_ARGS
	@exec $(BIN)/python -m pytest -m chaos $(PYTEST_ARGS)
else
	@$(BIN)/python -m pytest -m chaos -n $(TEST_WORKERS) --dist worksteal $(addprefix --ignore=,$(CHAOS_ALONE))
	@exec $(BIN)/python -m pytest -m chaos $(CHAOS_ALONE)
endif

oracle: $(READY)
	@exec env ORACLE_MINUTES=$(or $(MINUTES),30) ORACLE_SEED=$(SEED) $(BIN)/python -m pytest -q -n 0 -p no:randomly --timeout 0 \
		--show-capture=no tests/oracle/draw_seeds.py $(PYTEST_ARGS)

oracle-proof: $(READY)
	@exec env ORACLE_SEED=$(or $(SEED),1) $(BIN)/python -m pytest -q -n 0 -p no:randomly --timeout 0 --show-capture=no \
		tests/oracle/find_mutations.py $(PYTEST_ARGS)

bench: $(READY)
	@exec $(BIN)/python -m tests.bench $(BENCH_ARGS)

check: $(READY)
	@exec env BIN=$(BIN) .ci/check

# pip-tools lives apart, so that the environment holds what is locked and nothing else. No address
# of an index is written down.
LOCK_VENV := .venv-lock
LOCK := $(LOCK_VENV)/bin/python -m piptools compile --quiet --generate-hashes --no-header --no-emit-index-url \
	--no-emit-find-links --no-emit-trusted-host --no-emit-options --strip-extras --allow-unsafe
lock:
	@test -x $(LOCK_VENV)/bin/python || $(PYTHON) -m venv $(LOCK_VENV)
	@$(LOCK_VENV)/bin/python -m pip install --quiet --disable-pip-version-check pip-tools
	$(LOCK) -o requirements-dev.txt requirements-dev.in
	$(LOCK) -c requirements-dev.txt -o requirements.txt requirements.in
	@sed -i 's#-c /[^ ]*/requirements-dev.txt#-c requirements-dev.txt#' requirements.txt

clean:
	@if test -x $(BIN)/python; then $(BIN)/python -m lockservice.embedded stop || true; fi
	@rm -rf $(VENV) $(LOCK_VENV) .local .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache staticfiles
