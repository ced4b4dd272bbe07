# Every target does its own set-up: a virtual environment, made once by scripts/setup. Only Python (3.11 to 3.14), pip
# and make must be there.

SHELL := /bin/sh
# Hundreds of tests start an interpreter, which would compile all that it imports anew.
unexport PYTHONDONTWRITEBYTECODE
MAKEFLAGS += --no-print-directory

# Each recipe asks scripts/setup where the environment lies; where all is done already that takes milliseconds.
in_venv = venv=$$(scripts/setup) && PATH="$$(cd "$$venv" && pwd)/bin:$$PATH"
# Not the documents: ruff would also lay out the code blocks in them.
code = $(wildcard src tests benchmarks examples)

# The suite ends with a list of what could not run (tests/conftest.py), so -r leaves the skipped out.
pytest = python -m pytest -rfEX
# Two more than there are processors: many tests wait for time to pass. A further one would take longer to collect the
# tests than it saves.
workers = -n $$(python -c 'import os; print((os.cpu_count() or 1) + 2)')
# What `make test-hyperlight` measures beside the tests, so that no machine starts twice.
emulated = build/hyperlight-figures.json
# What benchmarks/engines.py is told at the end of `make test-engines`: figures=--check measures nothing.
figures = --figures $(emulated)

.DEFAULT_GOAL := help

.PHONY: help
help: ## show these targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

.PHONY: demo
demo: ## an agent solves a task with code, in a sandbox; needs no account and no network once installed
	@$(in_venv) && actbox demo

.PHONY: test
test: ## run the tests, on all processors; ends with what could not run here, and why
	@$(in_venv) && $(pytest) $(workers) -m "not long and not engines"

.PHONY: test-long
test-long: ## run the tests that take minutes
	@$(in_venv) && $(pytest) -n auto --timeout 3600 -m long

.PHONY: test-engines
# `make` as a word: with $(MAKE) in it, `make -n` would run the line.
test-engines: ## try the engines that need more than pip: installs Podman, gVisor, sshd and QEMU from Debian (as root)
	@scripts/engines
	@log=$$(mktemp) && { make test-hyperlight >"$$log" 2>&1 & machine=$$!; }; \
	trap 'kill $$machine; cat "$$log"; rm -f "$$log"; exit 130' INT TERM; failed=0; \
	( $(in_venv) && timeout --foreground --kill-after 60 2400 $(pytest) $(workers) -m "engines and not long and not hyperlight" ) || failed=$$?; \
	echo "engines: waiting for Hyperlight's machine" >&2; \
	wait $$machine || failed=$$?; echo; echo "Hyperlight:"; cat "$$log"; rm -f "$$log"; exit $$failed
	@$(MAKE) engines-page

.PHONY: test-hyperlight
test-hyperlight: ## try Hyperlight, in emulated machines where this one has no hypervisor (which takes long)
	@scripts/engines
	@$(in_venv) && tests/vm/test-hyperlight -t 1500

.PHONY: engines-page
engines-page: ## measure every engine that works here, and Hyperlight in an emulated machine; make the table and picture
	@$(in_venv) && { [ "$(figures)" = --check ] || [ -e $(emulated) ] || tests/vm/test-hyperlight -f; } && \
	timeout --kill-after 60 1200 python benchmarks/engines.py $(figures)

.PHONY: escape
escape: ## try to break out of each sandbox that works here; prints a table (ESCAPE_JSON=path keeps it)
	@$(in_venv) && python -m tests.escape

.PHONY: check
check: ## lint, formatting, types, and which room imports which
	@$(in_venv) && ruff check $(code) && ruff format --check $(code) && mypy && lint-imports

.PHONY: bench
bench: ## measure speed and memory beside peers, for a quarter of an hour; prints a table
	@$(in_venv) && { python -c 'import agent_framework_openai, eryx, pydantic_monty, tiktoken' 2>/dev/null || pip install --quiet --editable '.[bench]' \
		|| echo "some peers cannot be had here; the table says which"; }
	@$(in_venv) && python benchmarks/run.py

.PHONY: soak
soak: ## ten minutes of programs that end in every way; nothing may be left behind or grow
	@$(in_venv) && PYTHONPATH=. python benchmarks/soak.py

.PHONY: clean
clean: ## remove what the targets above made (another user's is left alone)
	find . -maxdepth 1 -user "$$(id -u)" \( -name '.venv*' -o -name '.*_cache' -o -name actbox-demo \) -exec rm -rf {} +
	find . -path './.venv*' -prune -o -name __pycache__ -type d -user "$$(id -u)" -prune -exec rm -rf {} +
