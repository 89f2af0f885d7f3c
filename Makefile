# Two commands on a fresh machine: `make demo` and `make test`. Each sets up .venv first.
PYTHON ?= python3
VENV := .venv
STAMP := $(VENV)/.installed

.PHONY: install launchers demo test test-lowest test-agents lint docs bench clean
.DEFAULT_GOAL := help

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

install: $(STAMP) ## .venv with every executable and every extra; bin/ae-* work after it

$(STAMP): pyproject.toml
	@test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	@$(VENV)/bin/python -m pip install -qq --disable-pip-version-check --editable '.[dev]'
	@$(VENV)/bin/python -m pip uninstall --quiet --yes setuptools 2>/dev/null || true  # its hook slows every start
	@$(VENV)/bin/python -m compileall -q agenteval  # a start-up without it takes twice as long
	@$(MAKE) --no-print-directory launchers
	@touch $@

launchers: ## bin/ae-*: a link to bin/ae for each of [project.scripts]
	@rm -f bin/ae-*
	@for tool in $$(sed -n 's/^\(ae-[a-z-]*\) = .*/\1/p' pyproject.toml); do ln -s ae bin/$$tool; done

demo: $(STAMP) ## run the pipeline offline on two variants of a small agent
	@$(MAKE) --no-print-directory -C examples/quickstart AE_BIN=$(CURDIR)/bin/ show

test: $(STAMP) ## the whole test suite
	@PYTHONDONTWRITEBYTECODE= $(VENV)/bin/python -m pytest -n auto --dist worksteal

test-lowest: ## the command line with the lowest versions that pyproject.toml allows, in a copy of the last commit
	@copy=$$(mktemp -d) && trap 'rm -rf "$$copy"' EXIT && git archive HEAD | tar -x -C "$$copy" && cd "$$copy" && \
	lowest=$$(sed -n '/^dependencies/,/^]/s/.*"\(.*\)>=\(.*\)".*/\1==\2/p' pyproject.toml) && echo $$lowest && \
	$(PYTHON) -m venv $(VENV) && \
	$(VENV)/bin/python -m pip install -qq --disable-pip-version-check --editable '.[dev]' $$lowest && \
	$(VENV)/bin/python -m pytest -n auto tests/cli/test_startup.py tests/cli/test_ae.py tests/cli/test_completion.py \
		tests/test_contract.py tests/test_layers.py

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
