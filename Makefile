# Every command sets up .venv by itself; all it needs is Python 3.11 to 3.13, git and a package index.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
WORKERS ?= 2

.DEFAULT_GOAL := help
.PHONY: help setup demo test shake check format bench corpus soak web lock

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## prepare .venv with everything the other commands use

demo: $(READY) ## watch a task run: no key, no network, a scripted model
	@$(BIN)/joey demo

test: $(READY) ## run all tests
	@$(BIN)/python -m pytest -n $(WORKERS)

shake: $(READY) ## run all tests while the disk, threads and event loops stutter, to find what holds by luck
	@$(BIN)/python -m pytest -n $(WORKERS) -p tests.latency_injection

check: $(READY) ## lint, formatting, names and types, without changing anything
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/python -m scripts.vocabulary
	@$(BIN)/mypy

format: $(READY) ## repair what can be repaired: imports, layout
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

bench: $(READY) ## measure joey against its goals and a bare loop, and the page in a browser
	@env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m bench
	@$(BIN)/python -m bench.page

corpus: $(READY) ## judge thousands of hostile commands, run what would run unasked, and see what it does
	@$(BIN)/python -m tests.permissions.corpus

soak: $(READY) ## for some minutes: try other examples, send 100,000 broken frames; kill, cancel and resume tasks at random
	@$(BIN)/python -m pytest -n $(WORKERS) -m hypothesis --hypothesis-profile chance
	@JOEY_FUZZ=100000 $(BIN)/python -m pytest -s tests/server/test_fuzz.py
	@JOEY_KILLS=200 $(BIN)/python -m pytest tests/e2e/test_kill.py
	@JOEY_STREAM_RUNS=20 $(BIN)/python -m pytest tests/front/test_stdin_stream.py
	@JOEY_LONG_STEPS=20000 JOEY_LONG_SEED=$$(date +%s) $(BIN)/python -m pytest --timeout 3600 tests/engine/test_long_task.py tests/engine/test_long_task_files.py
	@JOEY_PROGRAMS=1000 $(BIN)/python -m pytest -n $(WORKERS) tests/system/test_programs.py
	@JOEY_STOPS=20 $(BIN)/python -m pytest tests/front/test_pipes_stopped.py
	@JOEY_SWAPS=200000 $(BIN)/python -m pytest tests/workspace/test_path_races.py
	@env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m bench.soak
	@env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m bench.trees 200000
	@env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m bench.task_list 100000
	@env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m bench.adoption 100000

# `npm ci` misreads a lock without addresses; this installs the same versions, checked by their hashes.
web: ## build the web page and run its own tests (needs node 20 or newer)
	@node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' || { echo "make web needs node 20 or newer"; exit 1; }
	@cd web && { test node_modules/.package-lock.json -nt package-lock.json || npm install --no-save --silent; }
	@cd web && npm run --silent test && npm run --silent build

lock: ## renew both requirement locks (needs uv)
	uv pip compile pyproject.toml -o requirements.lock --custom-compile-command 'make lock' \
		--universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links -q
	uv pip compile pyproject.toml --group dev -o requirements-dev.lock --custom-compile-command 'make lock' \
		--universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links -q

$(READY): pyproject.toml requirements-dev.lock
	@$(PYTHON) -c 'import sys; ok = (3, 11) <= sys.version_info < (3, 14); \
		sys.exit(None if ok else "joey needs Python 3.11 to 3.13; name one: make PYTHON=python3.12 …")'
	@echo "Setting up $(VENV) with $$($(PYTHON) --version): installing the locked requirements (about a minute)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@echo "Setting up $(VENV): installing joey from this folder"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@
