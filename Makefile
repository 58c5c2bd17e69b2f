# Set-up and checks; needs Python (3.10 or newer) and make. `make` alone lists the targets.

PYTHON ?= python3
JOBS ?= 2

VENV := .venv
RUN := $(VENV)/bin/python
PIP_INSTALL := $(RUN) -m pip install -qq --disable-pip-version-check -c constraints.txt

# A stamp is written when its install has succeeded, and is stale when the versions change.
CORE := $(VENV)/.installed-core
DEV := $(VENV)/.installed-dev
DOCS := $(VENV)/.installed-docs
POSTGRES := $(VENV)/.installed-postgres
TOOLS_VENV := .venv-tools
TOOLS := $(TOOLS_VENV)/.installed

# Environments of their own: without extras, with the newest releases, and for building.
CORE_VENV := .venv-core
LATEST_VENV := .venv-latest
DIST_VENV := .venv-dist

.PHONY: help demo check test test-core test-latest test-postgres test-kill test-integrations fuzz postgres-server dist hub docs lint typecheck quick unit browser clean

help:
	@echo "make demo          rankwise tune on a new table, from the studies of earlier ones; a picture and a report"
	@echo "make check         for the inner loop: lint, typecheck, a fast cross-section of the tests"
	@echo "make test          every check: lint, typecheck, unit tests (JOBS=2 processes)"
	@echo "make test-core     the tests that need no PyTorch, where it is not installed"
	@echo "make test-latest   the tests with the newest releases of all dependencies"
	@echo "make dist          build sdist and wheel into dist/, and try the wheel in a fresh environment"
	@echo "make hub           the package for OptunaHub against the registry's rules"
	@echo "make lint          ruff: rules and format"
	@echo "make typecheck     mypy, strict, on src"
	@echo "make unit          pytest alone; ARGS='-k forest' selects"
	@echo "make test-postgres workers that are killed, on a PostgreSQL server of their own"
	@echo "make test-kill     runs that are killed at random points and resumed, on SQLite, journals and PostgreSQL"
	@echo "make test-integrations  other tools, installed and run: MLflow, Ray, Dask, skorch, gRPC, dashboards, ..."
	@echo "make fuzz          random spaces, histories, past studies and objectives (CASES=10000 FIRST=0)"
	@echo "make docs          build the documentation into site/"
	@echo "make clean         remove caches and build output; keeps $(VENV)"

demo: $(CORE)
	@$(RUN) examples/demo.py

check: lint typecheck quick

test: lint typecheck unit

# Fast tests of every layer; they must stay below a minute in total.
QUICK := tests/test_layers.py tests/test_import.py tests/test_docs_tables.py tests/test_compatibility.py \
	tests/space/test_encoder.py tests/space/test_design.py tests/history tests/archive/test_common_space.py \
	tests/acquisition/test_functions.py tests/run/test_optimizer.py tests/strategies/guard/test_trust.py \
	tests/strategies/test_baselines.py tests/surrogates/single_study/test_gp.py tests/integrations/test_pruned_trials.py \
	tests/integrations/test_same_proposals.py tests/report/test_write.py tests/bench/test_statistics.py

quick: $(DEV)
	@echo "pytest: a fast cross-section"
	@$(RUN) -m pytest -q -n $(JOBS) --dist loadgroup $(QUICK)

lint: $(DEV)
	@echo "ruff: rules and format"
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .

typecheck: $(DEV)
	@echo "mypy: strict on src"
	@$(RUN) -m mypy

unit: $(DEV) browser
	@echo "pytest: $(JOBS) processes"
	@$(RUN) -m pytest -n $(JOBS) --dist loadgroup $(ARGS)

# Reports are looked at in a browser. Where there is none Debian's is installed, if that is possible;
# otherwise the tests that need it are skipped.
browser:
	@for name in chromium chromium-browser google-chrome; do \
		command -v $$name >/dev/null 2>&1 && exit 0; done; \
	command -v apt-get >/dev/null 2>&1 && [ "$$(id -u)" = 0 ] || exit 0; \
	echo "Installing Chromium"; \
	export DEBIAN_FRONTEND=noninteractive; \
	{ timeout 600 apt-get -qq update && \
		timeout 600 apt-get -qq install -y --no-install-recommends chromium; } >/dev/null 2>&1 || \
		echo "Chromium could not be installed: tests that need a browser are skipped"

test-postgres: $(POSTGRES) postgres-server
	@echo "pytest: tests/postgres"
	@$(RUN) -m pytest tests/postgres $(ARGS)

# RANKWISE_REPEATS=20 repeats each of them at other random points.
test-kill: $(POSTGRES) postgres-server
	@echo "pytest: tests/kill and tests/postgres"
	@$(RUN) -m pytest tests/kill tests/postgres $(ARGS)

# Where `initdb` is missing, Debian's PostgreSQL is installed.
postgres-server:
	@command -v initdb >/dev/null 2>&1 || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || { \
		echo "Installing PostgreSQL"; \
		export DEBIAN_FRONTEND=noninteractive; \
		apt-get -qq update && apt-get -qq install -y --no-install-recommends postgresql; } || { \
		echo "PostgreSQL is not installed and could not be (that takes apt-get and root):" \
			"install the package postgresql, then repeat make."; \
		exit 1; }

# A failing case prints its seed; again: make fuzz FIRST=<seed> CASES=1
CASES ?= 10000
FIRST ?= 0
fuzz: $(DEV)
	@$(RUN) tests/fuzz/run.py --cases $(CASES) --first $(FIRST)

# Tests that need PyTorch are skipped (tests/conftest.py).
test-core:
	@$(PYTHON) -m venv $(CORE_VENV)
	@echo "Installing rankwise without PyTorch into $(CORE_VENV)"
	@$(CORE_VENV)/bin/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e ".[test,bench]"
	@echo "pytest: without PyTorch, $(JOBS) processes"
	@$(CORE_VENV)/bin/python -m pytest -q -n $(JOBS) --dist loadgroup $(ARGS)

# PyTorch keeps its version: the newest one may bring gigabytes for GPUs. `make test-latest TORCH=torch`
# takes the newest.
TORCH ?= torch==2.13.0
test-latest:
	@$(PYTHON) -m venv --clear $(LATEST_VENV)
	@echo "Installing the newest releases into $(LATEST_VENV) (minutes)"
	@$(LATEST_VENV)/bin/python -m pip install -qq --disable-pip-version-check -U "$(TORCH)" -e ".[dev,bench,dask,neural]"
	@$(LATEST_VENV)/bin/python -m pip list --disable-pip-version-check --format=freeze | \
		grep -iE "^(configspace|numpy|optuna|pandas|scikit-learn|scipy|torch|typer)=="
	@echo "pytest: newest releases, $(JOBS) processes"
	@$(LATEST_VENV)/bin/python -m pytest -q -n $(JOBS) --dist loadgroup $(ARGS)

# With NEURAL=1 the smoke test is repeated with the extra neural.
dist:
	@$(PYTHON) -m venv --clear $(DIST_VENV)
	@echo "Building into dist/"
	@$(DIST_VENV)/bin/python -m pip install -qq --disable-pip-version-check build twine
	@rm -rf dist src/rankwise/_core/plotly.min.js.gz
	@PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(DIST_VENV)/bin/python -m build --outdir dist . >/dev/null
	@$(DIST_VENV)/bin/python -m twine check --strict dist/*
	@$(PYTHON) -m venv --clear $(DIST_VENV)
	@echo "Installing the wheel alone into $(DIST_VENV)"
	@$(DIST_VENV)/bin/python -m pip install -qq --disable-pip-version-check -c constraints.txt dist/*.whl
	@$(DIST_VENV)/bin/python -m pip check --disable-pip-version-check
	@$(DIST_VENV)/bin/python -W ignore tests/wheel/smoke.py
	@$(DIST_VENV)/bin/python -m pip install -qq --disable-pip-version-check -c constraints.txt mypy
	@cd tests/wheel && $(CURDIR)/$(DIST_VENV)/bin/python -m mypy --strict --config-file= --cache-dir=/dev/null typed_user.py
	@[ -z "$(NEURAL)" ] || { \
		$(DIST_VENV)/bin/python -m pip install -qq --disable-pip-version-check -c constraints.txt \
			"$$(ls dist/*.whl)[neural]" && \
		$(DIST_VENV)/bin/python -W ignore tests/wheel/smoke.py --neural; }
	@ls -l dist

# The rules are those of the registry's own checks (ruff and mypy with its settings, and its text).
HUB := optunahub/package/samplers/rankwise
hub: $(DEV)
	@$(PIP_INSTALL) optunahub
	@$(RUN) -m ruff check --config optunahub/ruff.toml $(HUB)
	@$(RUN) -m ruff format --config optunahub/ruff.toml --check $(HUB)
	@cd optunahub && $(CURDIR)/$(RUN) -m mypy --config-file mypy.ini package
	@$(RUN) -m pytest -q tests/test_optunahub.py
	@cd $(HUB) && $(CURDIR)/$(RUN) -m pytest -q tests

# MLflow and Ray pin packages of ours, so the neighbours have an environment of their own. The suite
# skips these tests where a neighbour is missing; tests/tools/test_installed.py fails there.
NEIGHBOURS := catboost grpcio lightgbm mlflow openpyxl optuna-dashboard optunahub protobuf pyarrow "ray[tune]" xgboost
INTEGRATIONS := tests/tools tests/integrations/test_other_tools.py tests/test_optunahub.py tests/cli/test_saved_models.py \
	tests/archive/sources/test_table_files.py tests/tabular/test_tabular.py tests/estimators/test_user_spaces.py

test-integrations: $(TOOLS)
	@echo "pytest: other tools"
	@$(TOOLS_VENV)/bin/python -m pytest $(INTEGRATIONS) $(ARGS)
	@$(TOOLS_VENV)/bin/python -m pytest tests/test_examples.py -k skorch $(ARGS)

$(TOOLS): pyproject.toml
	@echo "Installing the neighbours into $(TOOLS_VENV) (minutes the first time)"
	@$(PYTHON) -m venv $(TOOLS_VENV)
	@$(TOOLS_VENV)/bin/python -m pip install -qq --disable-pip-version-check "$(TORCH)" -e ".[test,neural,dask,plot]" $(NEIGHBOURS)
	@touch $@

docs: $(DOCS)
	@echo "mkdocs: building site/"
	@NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict --quiet
	@echo "open site/index.html"

$(CORE): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("rankwise needs Python 3.10 or newer; choose one: make PYTHON=python3.12 ..." if sys.version_info < (3, 10) else 0)'
	@$(RUN) -m pip --version >/dev/null 2>&1 || { \
		echo "Creating $(VENV)"; \
		$(PYTHON) -m venv --clear $(VENV); }
	@echo "Installing rankwise and what it builds on into $(VENV) (minutes the first time)"
	@$(PIP_INSTALL) -e ".[plot]"
	@touch $@

$(DEV): $(CORE)
	@echo "Installing the tools for development"
	@$(PIP_INSTALL) -e ".[dev,bench,dask,neural]"
	@touch $@

$(POSTGRES): $(DEV)
	@echo "Installing the driver of PostgreSQL"
	@$(PIP_INSTALL) -e ".[postgres]"
	@touch $@

$(DOCS): $(CORE)
	@echo "Installing the tools for documentation"
	@$(PIP_INSTALL) -e ".[docs,bench,neural,save]"
	@touch $@

clean:
	@rm -rf build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .benchmarks
	@find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + \
		2>/dev/null || true
	@rm -f src/rankwise/_core/plotly.min.js.gz
	@echo "Kept $(VENV); remove it to start from nothing"
