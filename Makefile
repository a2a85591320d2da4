# Every command sets up .venv by itself; all it needs is Python 3.11 or newer, git and a package index.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Two processes at a time: some tests kill programs and wait for timers, which need room.
WORKERS ?= 2
# Without bytecode, each of the many processes that tests start compiles what it imports anew.
CACHED := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python
TESTS := $(CACHED) -m pytest -n $(WORKERS) --dist worksteal -p tests.harness.memory_disk

.DEFAULT_GOAL := help
.PHONY: help setup demo test e2e shake check renew format bench corpus soak llamacpp npmclients ray nightly web dist screenshot release lock

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## prepare .venv with everything the other commands use

demo: $(READY) ## watch a task run: no key, no network, a scripted model
	@$(BIN)/joey demo

test: $(READY) ## run the tests, but for those of whole programs
	@$(TESTS) -m "not e2e or smoke"

e2e: $(READY) ## run the tests that start programs: joey, terminals, a browser, sandboxes, Postgres
	@$(TESTS) -m "e2e and not smoke"

shake: $(READY) ## run all tests while the disk, threads and event loops stutter, to find what holds by luck
	@$(TESTS) -p tests.harness.latency_injection

check: $(READY) ## lint, formatting, names and types, without changing anything
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/python -m scripts.vocabulary
	@$(BIN)/mypy

renew: $(READY) ## rewrite what is generated: ARCHITECTURE.md, schemas, golden files, tables of the documents
	@$(BIN)/python -m scripts.architecture
	@$(BIN)/python -m scripts.config_schemas
	@$(BIN)/python -m joey.core.wire.schema > docs/websocket.schema.json
	@JOEY_RENEW=1 $(CACHED) -m pytest tests/presentation/test_tool_calls.py tests/engine/test_roo_workspace.py \
		tests/test_capability_table.py tests/test_settings_document.py tests/test_tool_table.py
	@$(CACHED) -m tests.golden.renew

format: $(READY) ## repair what can be repaired: imports, layout
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

bench: $(READY) ## measure joey against its goals and a bare loop, and the page in a browser
	@$(CACHED) -m scripts.lanes bench

corpus: $(READY) ## judge thousands of hostile commands, run what would run unasked, and see what it does
	@$(BIN)/python -m tests.harness.permissions.corpus

soak: $(READY) ## for some minutes: try other examples, send 100,000 broken frames; kill, cancel and resume tasks at random
	@$(CACHED) -m scripts.lanes soak

llamacpp: $(READY) ## install a llama.cpp server with a small model (130 MB), and run tasks with it for some minutes
	@$(CACHED) -m scripts.lanes llamacpp

npmclients: $(READY) ## install Claude Code, Codex, opencode, Qwen Code and pi (1.4 GB), and record them with joey proxy
	@$(CACHED) -m scripts.lanes npmclients

ray: $(READY) ## install Ray (260 MB), and start workers of a batch with it
	@$(CACHED) -m scripts.lanes ray

nightly: $(READY) ## run everything, for about an hour: tests, corpus, soak, bench, llama.cpp, real clients and Ray; ends with a table of results
	@$(CACHED) -m scripts.lanes llamacpp npmclients ray test corpus soak bench

# `npm ci` misreads a lock without addresses; this installs the same versions, checked by their hashes.
web: ## build the web page and run its own tests (needs node 20 or newer)
	@node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' || { echo "make web needs node 20 or newer"; exit 1; }
	@cd web && { test node_modules/.package-lock.json -nt package-lock.json || npm install --no-save --silent; }
	@cd web && npm run --silent test && npm run --silent build

dist: $(READY) ## build the wheel and the source distribution, and try them on each Python found here
	@$(BIN)/python -m scripts.release

screenshot: $(READY) ## renew the images of README.md (the page's needs `make web` and Chromium)
	@$(BIN)/python -m scripts.screenshot
	@$(BIN)/python -m scripts.page_screenshot

release: $(READY) ## make a version: make release VERSION=0.2.0 (docs/releasing.md)
	@test -n "$(VERSION)" || { echo "name the version: make release VERSION=0.2.0"; exit 2; }
	@$(BIN)/python -m scripts.release "$(VERSION)"

lock: ## renew both requirement locks (needs uv)
	uv pip compile pyproject.toml -o requirements.lock --custom-compile-command 'make lock' \
		--universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-strip-extras -q
	uv pip compile pyproject.toml --group dev -o requirements-dev.lock --custom-compile-command 'make lock' \
		--universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-strip-extras -q

$(READY): pyproject.toml requirements-dev.lock
	@$(PYTHON) -c 'import sys; ok = sys.version_info >= (3, 11); \
		sys.exit(None if ok else "joey needs Python 3.11 or newer; name one: make PYTHON=python3.12 …")'
	@echo "Setting up $(VENV) with $$($(PYTHON) --version): installing the locked requirements (about a minute)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@echo "Setting up $(VENV): installing joey from this folder"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@
