# Every target installs what it needs, pinned by constraints.txt, and nothing that is already there.
PYTHON ?= python3
VENV ?= .venv
PINS ?= constraints.txt
TORCH ?= 2.13.0
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
# Compiled as it is imported: a minute less than compiling all that is installed. Container images
# often forbid Python to write what it compiled: each process would then compile torch anew.
unexport PYTHONDONTWRITEBYTECODE
INSTALL := $(PIP) install --no-compile -c $(PINS) --build-constraint $(PINS) -e
MANIFEST := pyproject.toml $(PINS)
RUN ?= csot-demo/run
TESTS ?= tests

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: demo review test pytest coverage lint bench docs gallery fuzz browser lock test-latest test-lowest clean help

demo: $(VENV)/.stamp-review  ## See it work: a short tour on real data
	$(BIN)/python -m csot.demo
	@echo 'Run `make review` to decide on the suggestions in your browser.'

review: $(VENV)/.stamp-review  ## Decide on the suggestions of the demo, or of RUN=folder
	$(BIN)/csot review $(RUN)

test: lint pytest  ## Lint, then all tests

coverage: $(VENV)/.stamp-dev browser  ## All tests with branch coverage; half again the time
	$(MAKE) pytest PYTEST_ARGS='--cov --cov-branch --cov-report=term'

# One thread per worker: threads that share cores with other workers only wait for each other.
# Work is stolen, not dealt: the tests of a file stay on one worker, which trains once for all of them.
# Runs are written durably: on a disk the tests would wait for it ten thousand times and more, so they
# write to memory where there is room. What failed tests wrote is kept.
SCRATCH := $(shell df -Pm /dev/shm 2> /dev/null | awk 'NR == 2 && $$4 > 4096 { print "/dev/shm" }')
pytest: $(VENV)/.stamp-dev browser
	scratch=$$(mktemp -d "$${TMPDIR:-$(or $(SCRATCH),/tmp)}/csot-tests.XXXXXX") && \
		TMPDIR=$$scratch OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses=auto \
		--dist=worksteal $(PYTEST_ARGS) $(TESTS) && rm -rf "$$scratch"

lint: $(VENV)/.stamp-dev  ## Style, format and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy --strict src

bench: $(VENV)/.stamp-bench  ## The solver side by side with its peers
	$(BIN)/python benchmarks/solver.py --budget 0.3

docs: $(VENV)/.stamp-docs gallery  ## The pages of docs/ as HTML in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# Trains and cleans digits, which takes minutes; what is finished is kept in build/.
gallery: $(VENV)/.stamp-docs  ## The pictures of docs/gallery.md
	OMP_NUM_THREADS=1 $(BIN)/csot figures all --quick --out docs/gallery --kept build/gallery

# Five hours of one core; goes on where it was interrupted. What escapes is kept in fuzz-out/.
fuzz: $(VENV)/.stamp-dev  ## 100,000 damaged files and requests for each reader
	OMP_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python -m fuzz.run --inputs 100000 --out fuzz-out

browser: $(VENV)/.stamp-dev
	@PYTHON=$(BIN)/python .ci/browser

UV_COMPILE := $(BIN)/uv pip compile --quiet --all-extras --no-annotate --no-header
ALSO := 'torch==$(TORCH)' 'pip>=25.3' 'hatchling>=1.27'

# uv resolves once for all platforms and Pythons; a CPU build of torch is pinned by its version.
lock: $(VENV)/.stamp-lock  ## Write constraints.txt anew: the newest of everything but torch
	printf '%s\n' $(ALSO) | $(UV_COMPILE) --universal --python-version 3.10 pyproject.toml - \
		> $(VENV)/pins.txt
	sed '/^[^#]/,$$d' constraints.txt > $(VENV)/comment.txt
	cat $(VENV)/comment.txt $(VENV)/pins.txt | sed '/^torch==/s/+cpu//' > constraints.txt

test-latest:  ## All tests with the newest of everything but torch, in .venv-latest
	@rm -rf .venv-latest && mkdir .venv-latest
	echo 'torch==$(TORCH)' > .venv-latest/pins.txt
	$(MAKE) pytest VENV=.venv-latest PINS=.venv-latest/pins.txt

# The CPU build of the lowest torch is on no package index that pip asks by itself, so this tests
# the pinned one; set TORCH where you have another.
test-lowest: $(VENV)/.stamp-lock  ## All tests with the lowest versions that pyproject.toml names
	@rm -rf .venv-lowest && mkdir .venv-lowest
	printf '%s\n' $(ALSO) | $(UV_COMPILE) --resolution lowest-direct --only-binary :all: \
		--python "$(PYTHON)" pyproject.toml - > $(VENV)/lowest.txt
	sed '/^torch==/s/+cpu//' $(VENV)/lowest.txt > .venv-lowest/pins.txt
	$(MAKE) pytest VENV=.venv-lowest PINS=.venv-lowest/pins.txt

clean:  ## Remove what the targets wrote, except .venv
	rm -rf build dist site docs/gallery htmlcov .coverage .coverage.* .hypothesis
	rm -rf .mypy_cache .pytest_cache .ruff_cache .venv-latest .venv-lowest
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

help:  ## This list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

$(VENV)/.stamp-venv: $(PINS)
	$(PYTHON) -m venv $(VENV)
	$(PIP) install -c $(PINS) 'pip>=25.3'  # the first with --build-constraint
	@touch $@

$(VENV)/.stamp-%: $(MANIFEST) | $(VENV)/.stamp-venv
	$(INSTALL) '.[$*]'
	@touch $@
