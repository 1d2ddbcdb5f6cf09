# Each target is sufficient alone on a machine with python3 (with venv), make and git.
PY := .venv/bin/python
STAMP := .venv/.installed
# One more than there are processors: many tests wait for processes they started.
WORKERS := $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)

help: ## show what there is to make
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(STAMP): pyproject.toml constraints.txt
	@echo 'Making .venv (once, takes a minute or two)'
	@test -x $(PY) || python3 -m venv .venv
	@$(PY) -m pip install -q -e '.[dev]' -c constraints.txt
	@touch $(STAMP)

install: $(STAMP) ## make .venv with CodeFrame and its tools

demo: $(STAMP) ## see the whole thing work, offline, with a scripted model
	@.venv/bin/cf demo

test: $(STAMP) ## fast tests, offline, no engine needed
	@$(PY) -m pytest -n $(WORKERS) --dist worksteal -m 'not engine and not slow' tests

.engines/.installed: tests/engines/package.json tests/engines/package-lock.json tests/engines/requirements.txt
	@scripts/install-engines

test-engines: $(STAMP) .engines/.installed ## drive the real CLIs against a scripted model
	@$(PY) -m pytest -n $(WORKERS) --dist worksteal -m engine tests

test-real: $(STAMP) .engines/.installed ## repair a bug in a public project from the package index (slow)
	@$(PY) -m pytest -m slow tests/engines/test_real_project.py

test-chaos: $(STAMP) ## kill cf at a hundred seeded moments of a run (slow; CODEFRAME_CHAOS_SEED=N to repeat)
	@$(PY) -m pytest -m slow tests/hostile/test_seeded_kills.py

lint: $(STAMP) ## ruff, mypy --strict on core, import-linter
	@.venv/bin/ruff check codeframe tests bench
	@.venv/bin/ruff format --check codeframe tests bench
	@.venv/bin/mypy codeframe/core
	@.venv/bin/lint-imports --no-logo

bench: $(STAMP) ## measure starts, runs, snapshots, streams, corrections; writes bench/results.json
	@$(PY) -m bench

clean: ## remove what make made
	@rm -rf .venv .engines .mypy_cache .ruff_cache .hypothesis

.PHONY: help install demo test test-engines test-real test-chaos lint bench clean
