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

.PHONY: help demo test test-postgres docs lint typecheck unit browser clean

help:
	@echo "make demo          rankwise tune on a new table, from the studies of earlier ones; a picture and a report"
	@echo "make test          every check: lint, typecheck, unit tests (JOBS=2 processes)"
	@echo "make lint          ruff: rules and format"
	@echo "make typecheck     mypy, strict, on src"
	@echo "make unit          pytest alone; ARGS='-k forest' selects"
	@echo "make test-postgres workers that are killed, on a PostgreSQL server of their own"
	@echo "make docs          build the documentation into site/"
	@echo "make clean         remove caches and build output; keeps $(VENV)"

demo: $(CORE)
	@$(RUN) examples/demo.py

test: lint typecheck unit

lint: $(DEV)
	@echo "ruff: rules and format"
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .

typecheck: $(DEV)
	@echo "mypy: strict on src"
	@$(RUN) -m mypy

unit: $(DEV) browser
	@echo "pytest: $(JOBS) processes"
	@$(RUN) -m pytest -n $(JOBS) --dist worksteal $(ARGS)

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

# Where `initdb` is missing, Debian's PostgreSQL is installed.
test-postgres: $(POSTGRES)
	@command -v initdb >/dev/null 2>&1 || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || { \
		echo "Installing PostgreSQL"; \
		export DEBIAN_FRONTEND=noninteractive; \
		apt-get -qq update && apt-get -qq install -y --no-install-recommends postgresql; } || { \
		echo "PostgreSQL is not installed and could not be (that takes apt-get and root):" \
			"install the package postgresql, then repeat make test-postgres."; \
		exit 1; }
	@echo "pytest: tests/postgres"
	@$(RUN) -m pytest tests/postgres $(ARGS)

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
	@$(PIP_INSTALL) -e .
	@touch $@

$(DEV): $(CORE)
	@echo "Installing the tools for development"
	@$(PIP_INSTALL) -e ".[dev,bench,dask,networks]"
	@touch $@

$(POSTGRES): $(DEV)
	@echo "Installing the driver of PostgreSQL"
	@$(PIP_INSTALL) -e ".[postgres]"
	@touch $@

$(DOCS): $(CORE)
	@echo "Installing the tools for documentation"
	@$(PIP_INSTALL) -e ".[docs,networks]"
	@touch $@

clean:
	@rm -rf build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .benchmarks
	@find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + \
		2>/dev/null || true
	@echo "Kept $(VENV); remove it to start from nothing"
