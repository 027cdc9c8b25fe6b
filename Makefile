# The commands of this project, the same by hand, in CI and before a commit. `make` lists them.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help speak serve test check format bench train browser recogniser lock clean

PYTHON ?= python3
VENV ?= .venv
RUN := $(VENV)/bin
INSTALL := $(RUN)/python -m pip install --disable-pip-version-check --constraint requirements.lock --editable
LOCK_VENV := build/lock

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

speak: $(VENV)/.base ## set up, then speak a text while it is being written (TEXT="..." for your own)
	@$(RUN)/python -m clients.demo $(if $(value TEXT),-- '$(subst ','\'',$(value TEXT))')

serve: $(VENV)/.base ## the server and its web page, http://127.0.0.1:8060 (ARGS="--port 9000")
	$(RUN)/footlights serve $(ARGS)

test: $(VENV)/.dev browser recogniser check ## set up, then check the code and run all tests
	OMP_NUM_THREADS=1 $(RUN)/python -m pytest $(ARGS)

check: $(VENV)/.dev ## formatting, lint and types
	$(RUN)/ruff format --check .
	$(RUN)/ruff check .
	$(RUN)/mypy

format: $(VENV)/.dev ## format the code and fix what can be fixed
	$(RUN)/ruff format .
	$(RUN)/ruff check --fix .

bench: $(VENV)/.eval ## measure quality and speed here, beside other voices (takes an hour; fetches 330 MB)
	$(RUN)/footlights bench setup
	$(RUN)/footlights bench quality --peers
	$(RUN)/footlights bench speed

train: $(VENV)/.train ## train the built-in voice from nothing (ARGS="--hours 0.2 --steps 30" for a quick pass)
	$(RUN)/footlights train $(ARGS)

browser: ## Chromium for the tests of the web page, where it is absent
	@sh .ci/browser

recogniser: $(VENV)/.dev ## what understands the speech in tests (Whisper base, 110 MB, once)
	$(RUN)/footlights bench setup whisper

lock: ## resolve all dependencies anew into requirements.lock
	rm -rf $(LOCK_VENV)
	$(PYTHON) -m venv $(LOCK_VENV)
	$(LOCK_VENV)/bin/python -m pip install --disable-pip-version-check --editable '.[dev,eval,gguf,scripts,train]'
	{ sed -n '/^#/p' requirements.lock; \
	  $(LOCK_VENV)/bin/python -m pip freeze --exclude-editable | sed 's/+cpu$$//'; } > build/requirements.lock
	mv build/requirements.lock requirements.lock

clean: ## remove what these commands made, but for runs/ (measurements and trainings)
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find engine realtime clients deploy tests -name __pycache__ -prune -exec rm -rf {} +

# Each stamp says that the environment holds what these files ask for.

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed; name one with: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.base: pyproject.toml requirements.lock | $(VENV)/.made
	$(INSTALL) .
	@touch $@

$(VENV)/.%: pyproject.toml requirements.lock | $(VENV)/.made
	$(INSTALL) '.[$*]'
	@touch $@ $(VENV)/.base
