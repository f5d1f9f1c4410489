# Two commands: `make crawl` and `make test`. Each sets up what it needs in .venv first; the second time nothing is left to do.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
DEV := $(VENV)/.dev
SEEDS ?=
ARGS ?=
WORKERS ?= 2
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet install

.PHONY: help setup crawl test test-all test-long check format clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "Longline needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) -V 2>&1 || true). Install one and run: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "$(PYTHON) cannot make a virtual environment; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }

$(RUNTIME): requirements.txt | $(BIN)/python
	@echo "Setting up .venv (once)"
	@$(PIP) -r requirements.txt
	@touch $@

$(DEV): requirements-dev.txt $(RUNTIME)
	@echo "Adding what tests and checks need (once)"
	@$(PIP) -r requirements-dev.txt
	@touch $@

setup: $(DEV) ## make .venv with everything

crawl: $(RUNTIME) ## crawl the demo web, or the real one: make crawl SEEDS=urls.txt ARGS='-s CRAWL_ID=news'
ifeq ($(SEEDS),)
	@$(BIN)/python -m crawler.demo crawl $(ARGS)
else
	@$(BIN)/scrapy crawl broad -a seeds='$(SEEDS)' $(ARGS)
endif

test: check ## checks, and all tests but the long ones
	@$(BIN)/python -m pytest -m "not long" -n $(WORKERS) $(PYTEST_ARGS)

test-long: $(DEV) ## only the long tests
	@$(BIN)/python -m pytest -m long $(PYTEST_ARGS)

test-all: test test-long ## everything, up to an hour

check: $(DEV) ## style, types, import directions, generated pages
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python -m crawler.options | diff - docs/settings.md || { \
	  echo "docs/settings.md is not current: python -m crawler.options > docs/settings.md" >&2; exit 1; }

format: $(DEV) ## put the code in order
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

clean: ## remove .venv, caches and builds; crawls and corpora stay
	@rm -rf $(VENV) build dist *.egg-info .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -not -path './.git/*' -exec rm -rf {} +
