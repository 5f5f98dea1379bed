# Every target installs what it needs into .venv, and nothing that is already there.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip --quiet --disable-pip-version-check
INSTALL := $(PIP) install -c constraints.txt -e
MANIFEST := pyproject.toml constraints.txt

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: demo test lint bench docs fuzz clean help

demo: .venv/.stamp-core  ## See it work: a short tour on real data
	$(BIN)/python -m csot.demo

# One thread a worker: threads that share cores with other workers only wait for each other.
test: lint  ## Lint, then all tests with branch coverage
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses=auto --cov --cov-branch --cov-report=term

lint: .venv/.stamp-dev  ## Style, format and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy --strict src

bench: .venv/.stamp-bench  ## The solver side by side with its peers
	$(BIN)/python benchmarks/solver.py --budget 0.3

docs: .venv/.stamp-docs  ## The pages of docs/ as HTML in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# Some hours; goes on where it was interrupted. What escapes is kept in fuzz-out/.
fuzz: .venv/.stamp-dev  ## 100,000 damaged files and requests for each reader
	OMP_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python -m fuzz.run --inputs 100000 --out fuzz-out

clean:  ## Remove what the targets wrote, except .venv
	rm -rf build dist site htmlcov .coverage .coverage.* .hypothesis
	rm -rf .mypy_cache .pytest_cache .ruff_cache
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

help:  ## This list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST)

# Editable installs by pyproject.toml need pip 21.3; Python 3.10.0 came with an older one.
.venv/.stamp-venv:
	$(PYTHON) -m venv .venv
	$(PIP) install 'pip>=23'
	@touch $@

.venv/.stamp-core: $(MANIFEST) | .venv/.stamp-venv
	$(INSTALL) .
	@touch $@

.venv/.stamp-%: $(MANIFEST) | .venv/.stamp-venv
	$(INSTALL) '.[$*]'
	@touch .venv/.stamp-core $@
