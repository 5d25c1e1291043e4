# `make demo` and `make test` need nothing prepared but Python 3.11 or later. What they install lands in .venv and
# .cache; only Slurm, which the tests of the hook run for real, comes from apt where that is allowed.

# Hundreds of tests start the program: let Python keep what it has compiled, but not beside the sources.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX = $(CURDIR)/.cache/bytecode

VENV  := .venv
BIN   := $(VENV)/bin
READY := $(VENV)/.ready

# Tests wait for servers half of the time, so there may be more workers than cores.
WORKERS ?= 3

# `make lock UPGRADE=--upgrade` takes the newest releases instead of those already locked.
COMPILE = uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--custom-compile-command 'make lock' $(UPGRADE)

FUZZ_SECONDS ?= 600
BROWSER ?= chromium

.PHONY: help demo hook test coverage test-kubernetes test-image placements fuzz lint format docs pictures lock bench bench-quick clean slurm

help:
	@echo 'make demo     replay a real failed job and show the message that the channel would get'
	@echo 'make test     lint, types and all tests'
	@echo 'make coverage  all tests, and which lines no test runs'
	@echo 'make test-kubernetes  watcher and chart on a real Kubernetes API server, which is built once (ten minutes)'
	@echo 'make test-image  build the image on Debian packages and run it (root only)'
	@echo 'make placements  is the decisive line sent, wherever it stands in 64 logs of 50 MB? (some minutes)'
	@echo 'make fuzz     search for input that breaks something, for FUZZ_SECONDS (600)'
	@echo 'make lint     ruff, mypy and the import contracts'
	@echo 'make format   let ruff rewrite what it can'
	@echo 'make hook     make the one file of the Slurm hook out of its modules'
	@echo 'make docs     write docs/catalogue/ from the catalogue'
	@echo 'make pictures draw the pictures of docs/slack.md with Chromium: make BROWSER=/usr/bin/chromium pictures'
	@echo 'make bench    how fast everything is, beside ripgrep and other tools: writes docs/performance.md'
	@echo 'make bench-quick  the same on a tenth of the data'
	@echo 'make lock     bring the lock files up to date with pyproject.toml (needs uv)'
	@echo 'make clean    remove everything that make made'

demo: $(READY)
	@$(BIN)/firstfault demo

test: $(READY) lint slurm
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile $(PYTEST)

coverage: $(READY) slurm
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --cov --cov-report=term:skip-covered $(PYTEST)

test-kubernetes: $(READY)
	@sh .ci/kubernetes .cache/kube-apiserver-1.20.2
	@test ! -x .cache/kube-apiserver-1.20.2/kube-apiserver || \
		$(BIN)/python -m pytest -m kubernetes -n 2 --dist loadfile tests/e2e $(PYTEST)

test-image: $(READY)
	@sh .ci/image .cache/image-base.tar
	@test ! -s .cache/image-base.tar || $(BIN)/python -m pytest -m image tests/helm $(PYTEST)

placements: $(READY)
	@$(BIN)/python -m tests.hooks.placements

fuzz: $(READY)
	@$(BIN)/python -m tests.fuzz $(FUZZ_SECONDS)

lint: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(READY)
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

hook: $(READY)
	@$(BIN)/python -m hooks.slurm.assemble

docs: $(READY)
	@$(BIN)/python -m bot.cli.catalogue_docs

pictures: $(READY)
	@$(BIN)/python -m tests.slack.pictures $(BROWSER) docs/images

bench: $(READY)
	@$(BIN)/python -m benchmarks --write $(BENCH)

bench-quick: $(READY)
	@$(BIN)/python -m benchmarks --scale 0.1 --rounds 1 $(BENCH)

lock:
	$(COMPILE) -o requirements.lock
	$(COMPILE) --group dev --constraint requirements.lock -o requirements-dev.lock
	$(subst pyproject.toml,,$(COMPILE)) --group build --constraint requirements-dev.lock -o requirements-build.lock

clean:
	rm -rf $(VENV) .cache .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .coverage build dist var
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

slurm:
	@sh .ci/slurm

$(READY): requirements-dev.lock pyproject.toml
	@sh .ci/venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@
