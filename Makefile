# Two commands on a fresh machine: `make demo` and `make test`. Each sets up .venv first, with what it needs.
PYTHON ?= python3
VENV := .venv
STAMP := $(VENV)/.installed
TESTABLE := $(VENV)/.testable
RAY := $(VENV)/.ray
PIP := $(VENV)/bin/python -m pip install -qq --disable-pip-version-check
comma := ,
COMPILE := $(VENV)/bin/python -m uv pip compile --quiet --upgrade --universal --generate-hashes --no-annotate \
	--no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock'
# Installs the locked versions of a file, each checked by its hash; nothing is fetched to build one of them.
LOCKED = @echo "installing $$(grep -c '==' $(1)) packages of $(1) …" && \
	$(PIP) --require-hashes --no-build-isolation --requirement $(1) || \
	{ echo "make: the locked versions cannot be installed; without the lock: make install LOCK=no" >&2; exit 1; }
# Installs the newest versions that pyproject.toml allows, for some extras of this checkout.
NEWEST = @echo "installing the newest versions of what .[$(1)] needs …" && $(PIP) --editable '.[$(1)]'

.PHONY: install lock launchers demo test test-lowest test-agents test-cluster test-peers lint docs man bench coverage chaos fuzz release clean bench-quick
.DEFAULT_GOAL := help

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

install: $(STAMP) $(RAY) ## .venv with every executable and every extra; bin/ae-* work after it

ifeq ($(LOCK),no)
$(STAMP): pyproject.toml docs/man_pages.py | $(VENV)/bin/python
	$(call NEWEST,dev)
else
$(STAMP): pyproject.toml docs/man_pages.py requirements-build.lock requirements.lock | $(VENV)/bin/python
	$(call LOCKED,requirements-build.lock)
	$(call LOCKED,requirements.lock)
	@echo "installing this checkout …"
	@$(PIP) --no-deps --no-build-isolation --editable .
endif
	@$(VENV)/bin/python -m pip uninstall --quiet --yes setuptools 2>/dev/null || true  # only needed to build; it slows every start
	@$(VENV)/bin/python -m compileall -q agenteval
	@$(MAKE) --no-print-directory launchers
	@touch $@

$(VENV)/bin/python:
	@echo "making $(VENV) …"
	@$(PYTHON) -m venv $(VENV)

# Ray is large and has no wheels for some machines, so neither the demo nor the tests wait for it.
$(RAY): $(STAMP) requirements-ray.lock
ifeq ($(LOCK),no)
	$(call NEWEST,ray)
	@touch $@
else
	@echo "installing Ray …"
	@$(PIP) --require-hashes --no-build-isolation --requirement requirements-ray.lock && touch $@ || \
		echo "make: Ray cannot be installed here; all tools but ae-ray work" >&2
endif

# What only the tests need: independent references such as scipy, the driver of a browser, …
$(TESTABLE): $(STAMP) requirements-test.lock
ifeq ($(LOCK),no)
	$(call NEWEST,dev$(comma)references)
else
	$(call LOCKED,requirements-test.lock)
endif
	@touch $@

lock: $(STAMP) ## requirements*.lock: the newest versions that pyproject.toml allows, with hashes, for all its Pythons
	@$(PIP) uv
	@$(COMPILE) --extra dev --extra references pyproject.toml --output-file requirements-test.lock
	@$(COMPILE) --extra dev --constraint requirements-test.lock pyproject.toml --output-file requirements.lock
	@$(COMPILE) --extra ray --constraint requirements-test.lock pyproject.toml --output-file requirements-ray.lock
	@printf 'hatchling\npip\nsetuptools\nwheel\n' | $(COMPILE) --python-version 3.11 - --output-file requirements-build.lock
	@touch $(STAMP) $(TESTABLE) $(RAY)

launchers: ## bin/ae-*: a link to bin/ae for each of [project.scripts]
	@rm -f bin/ae-*
	@for tool in $$(sed -n 's/^\(ae-[a-z-]*\) = .*/\1/p' pyproject.toml); do ln -s ae bin/$$tool; done

demo: $(STAMP) ## run the pipeline offline on two variants of a small agent
	@$(MAKE) --no-print-directory -C examples/quickstart AE_BIN=$(CURDIR)/bin/ show

test: $(TESTABLE) ## the whole test suite
	@PYTHONDONTWRITEBYTECODE= $(VENV)/bin/python -m pytest -n auto --dist worksteal

test-lowest: ## the command line with the lowest versions that pyproject.toml allows, in a copy of the last commit
	@copy=$$(mktemp -d) && trap 'rm -rf "$$copy"' EXIT && git archive HEAD | tar -x -C "$$copy" && cd "$$copy" && \
	lowest=$$(sed -n '/^dependencies/,/^]/s/.*"\(.*\)>=\([^,]*\).*".*/\1==\2/p' pyproject.toml) && echo $$lowest && \
	$(PYTHON) -m venv $(VENV) && \
	$(VENV)/bin/python -m pip install -qq --disable-pip-version-check --editable '.[dev]' $$lowest && \
	$(VENV)/bin/python -m pytest -n auto tests/cli/test_startup.py tests/cli/test_ae.py tests/cli/test_completion.py \
		tests/test_contract.py tests/test_layers.py

chaos: $(TESTABLE) ## random faults against the tools that run agents: ROUNDS=500, SEED=N and ROUND=N repeat one; a quarter of an hour
	@$(VENV)/bin/python -m tests.chaos $(addprefix --rounds ,$(ROUNDS)) $(addprefix --seed ,$(SEED)) $(addprefix --round ,$(ROUND))

fuzz: $(TESTABLE) ## generated input for every parser and tool, ACP and adapter schemas: SEED=N repeats a run; some minutes
	@seed=$${SEED:-$$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')} && echo "seed $$seed" && \
	AE_FUZZ=long PYTHONDONTWRITEBYTECODE= $(VENV)/bin/python -m pytest -n auto --dist worksteal --hypothesis-seed=$$seed $(FUZZ) tests/fuzz && \
	echo "again: make fuzz SEED=$$seed"

test-agents: $(STAMP) ## real agents against a scripted model: AGENTS="claude codex@VERSION" for some; writes docs/agents.md
	@$(VENV)/bin/python -m tests.agent_rig $(AGENTS)

test-cluster: $(TESTABLE) $(RAY) ## ae-ray on a Ray cluster of several nodes on this machine, and a Slurm array job
	@$(PIP) kubernetes-validate || echo "make: kubernetes-validate cannot be installed" >&2
	@$(VENV)/bin/python -m pytest -m 'cluster or not cluster' -rs tests/cli/test_ray*.py tests/test_cluster_recipes.py \
		$(addprefix tests/cli/test_mistakes.py::,test_of_many_refused_lines_ten_are_shown_and_the_rest_is_counted \
		test_fewer_at_a_time_than_asked_for test_another_share_of_the_prompts_is_refused)

# harbor asks for Python 3.12 and TRL for torch, but what validates and renders in them needs neither; to run jobs, harbor has
# an environment of its own. uv finds versions that fit together in a minute; pip downloads one release of boto3 after the
# other. promptfoo needs a newer Node than many systems have. What cannot be installed is named, and its tests are skipped.
PEER_NODE := .peers/node/node_modules/.bin
NPM := npm install --prefix .peers/node --no-audit --no-fund --loglevel=error
test-peers: $(TESTABLE) ## the exports in the programs that read them; suites and results of claude, promptfoo, inspect_ai and harbor
	@test -x .peers/bin/python || $(PYTHON) -m venv .peers
	@.peers/bin/python -m pip install -qq --disable-pip-version-check uv
	@.peers/bin/python -m uv pip install --quiet --python .peers/bin/python --editable '.[dev,references,peers]'
	@.peers/bin/python -m pip install -qq --disable-pip-version-check --no-deps --ignore-requires-python harbor trl
	@test -x .peers/harbor/bin/harbor || { .peers/bin/python -m uv venv --quiet --clear --python '>=3.12' .peers/harbor && \
		.peers/bin/python -m uv pip install --quiet --python .peers/harbor/bin/python harbor podman-compose; } || \
		echo "make: harbor cannot be installed" >&2
	@test -x $(PEER_NODE)/promptfoo || { $(NPM) node@22 && \
		PATH="$(CURDIR)/$(PEER_NODE):$$PATH" $(NPM) promptfoo @anthropic-ai/claude-code; } || \
		echo "make: promptfoo and claude cannot be installed" >&2
	@AE_PEERS=.peers .peers/bin/python -m pytest -rs tests/reports/test_peers.py tests/suites/test_live_peers.py

release: $(TESTABLE) ## dist/: sdist and wheel, installed with pip, pipx and uv on every Python 3.11+ of this machine (network)
	@rm -rf dist
	@$(VENV)/bin/python -m hatchling build -d dist
	@$(VENV)/bin/python -m pytest -m 'network or not network' tests/test_release.py

lint: $(TESTABLE) ## ruff and mypy --strict
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy

docs: $(TESTABLE) ## docs/wire-format.md, docs/tools.md and docs/agents/ from the code, and with Chromium the pictures
	@$(VENV)/bin/python -m docs.build
	@$(VENV)/bin/python -m docs.pictures

man: $(STAMP) ## man/man1/*.1: a man page for every executable, from docs/tools.md; pip installs them, too
	@$(VENV)/bin/python docs/man_pages.py

bench: $(STAMP) ## time and memory beside every peer; writes bench/results.json and the curves of docs/
	@$(VENV)/bin/python bench/run.py --write --curves

bench-quick: $(STAMP) ## the same in a few minutes: a tenth of the data, one round without warm-up, which misses no goal of time
	@$(VENV)/bin/python bench/run.py --quick --repeat 1

coverage: $(TESTABLE) ## how often intervals hold and verdicts are wrong, by simulation; writes the tables of docs/statistics.md
	@$(VENV)/bin/python bench/simulations/coverage.py --write

clean: ## remove what make made
	rm -rf $(VENV) .peers .mypy_cache .ruff_cache .pytest_cache .scratch build dist man examples/*/build examples/*/results *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
