# Two commands on a fresh machine: `make demo` and `make test`. Each sets up .venv first.
PYTHON ?= python3
VENV := .venv
STAMP := $(VENV)/.installed

.PHONY: install demo test test-agents lint docs bench clean
.DEFAULT_GOAL := help

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

install: $(STAMP) ## .venv with every executable and every extra; bin/ae-* work after it

$(STAMP): pyproject.toml
	@test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@$(VENV)/bin/python -m pip uninstall --quiet --yes setuptools 2>/dev/null || true  # its hook slows every start
	@$(VENV)/bin/python -m compileall -q agenteval  # a start-up without it takes twice as long
	@touch $@

demo: $(STAMP) ## run the pipeline offline on two variants of a small agent
	@$(MAKE) --no-print-directory -C examples/quickstart AE_BIN=$(CURDIR)/bin/ show

test: $(STAMP) ## the whole test suite
	@$(VENV)/bin/python -m pytest -n auto --dist worksteal

test-agents: $(STAMP) ## real agents against a scripted model: AGENTS="claude codex@VERSION" for some; writes docs/agents.md
	@$(VENV)/bin/python -m agent_rig $(AGENTS)

lint: $(STAMP) ## ruff and mypy --strict
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy

docs: $(STAMP) ## docs/wire-format.md and docs/tools.md, made from the code
	@$(VENV)/bin/python docs/build.py

bench: $(STAMP) ## time and memory against agent-eval-harness, xargs and bare orjson
	@$(VENV)/bin/python bench/run.py

clean: ## remove what make made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .scratch build examples/*/build *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
