# What a newcomer runs. `make help` lists it.

PYTHON      := .venv/bin/python
# what imports nothing but the package itself runs on any Python
ANY_PYTHON   = $(or $(wildcard $(PYTHON)),python3)
PYTEST_ARGS ?=
# one more than there are processors: tests wait, too
JOBS        ?= $(shell echo $$(($$(nproc) + 1)))
N           ?= 10
TARGET      ?= test
BENCH_ARGS  ?=
# the marks are told in pyproject.toml
SHORT        = not full and not soak and not fuzz

# without it every shell and debugger that is started here would compile the whole package anew
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: engine zipapp release debian docs docs-site stories help setup demo test test-all newcomer flaky check soak fuzz bench fixtures releases clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile

setup: ## install what `make test` needs (as root with apt; says so when there is nothing to do)
	@scripts/setup.sh test

engine: ## compile engine/, which `types`, `leaks` and `owners` need (as root with apt, installs cargo)
	@scripts/setup.sh engine

setup-%:
	@scripts/setup.sh $*

fixtures:
	@$(MAKE) -s --no-print-directory -C fixtures everything

releases: setup-all ## build the fixtures on other glibc releases too, as far as these can be fetched
	@scripts/releases.sh
	@scripts/build_machines.sh

demo: setup-runtime ## walk a hoarding process and its core in GDB
	@$(MAKE) -s --no-print-directory -C fixtures hoard workers
	@scripts/demo.sh

# pytest comes last, so that its closing line is the last line
test: setup fixtures ## what tells most, some 6 minutes on two processors (PYTEST_ARGS='-k bins' passes through, JOBS=4)
	@echo "test: unit tests, cores and /proc, a short fuzz; each scenario by GDB, the newest LLDB and the shell, live and in"
	@echo "test: cores, on this machine's glibc. Some 6 minutes on two processors. Other releases, machines, programs: make test-all"
	@$(PYTHON) -m pytest -m '$(SHORT)' -n $(JOBS) --dist loadgroup $(PYTEST_ARGS) </dev/null

test-all: setup-all fixtures releases ## the whole matrix: every release, machine, LLDB and program; 40 to 60 minutes
	@echo "test-all: as make test, and every scenario through every door on each glibc release, other machines under QEMU,"
	@echo "test-all: other allocators, real programs. 40 to 60 minutes on two processors."
	@$(PYTHON) -m pytest -n $(JOBS) --dist loadgroup $(PYTEST_ARGS) </dev/null

flaky: ## run the tests N times, and show how each run came off (TARGET=test-all, LOAD=1 on busy cores)
	@$(ANY_PYTHON) scripts/flaky.py $(N) --target $(TARGET) $(if $(LOAD),--load)

check: setup-check ## lint, format, types, the oldest Python that the code may need, the engine's own tests
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check --quiet .
	$(PYTHON) -m mypy
	$(PYTHON) .venv/bin/vermin --quiet --no-tips --violations --target=3.9- $(wildcard common gdb lldb tests)
	@scripts/engine.sh check

debian: ## build the Debian package on minimal roots, install it on others, use it, remove it (as newcomer; SUITES=trixie)
	@scripts/newcomer.sh --package $(SUITES)

newcomer: ## run README's commands on minimal roots of Debian and Ubuntu (as root with debootstrap; SUITES='trixie noble')
	@scripts/newcomer.sh $(SUITES)

soak: setup fixtures ## long run against a busy process
	@$(PYTHON) -m pytest -m soak --timeout=0 $(PYTEST_ARGS) </dev/null

fuzz: setup fixtures ## long run over damaged images (ARENASCOPE_FUZZ_RUNS=30000, ARENASCOPE_FUZZ_SEED=SEED or SEED:INDEX)
	@nice $(PYTHON) -m pytest -s -m fuzz --timeout=0 $(PYTEST_ARGS) tests/fuzz </dev/null

stories: setup-runtime engine fixtures ## renew the screens and pictures in README and docs
	@$(PYTHON) scripts/stories.py

docs: setup-check ## renew docs/commands.md and docs/schema from the code
	@$(PYTHON) scripts/reference.py

# Material would tell at each run of a successor
docs-site: setup-site ## make a site of docs/, build/site/index.html (a dead link is an error)
	@NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --quiet

bench: setup fixtures ## measure what docs/speed.md says (BENCH_ARGS=--write writes it there)
	@$(PYTHON) benchmarks/bench.py $(BENCH_ARGS)

zipapp: setup-engine ## pack the shell door into one file, dist/arenascope.pyz
	@$(ANY_PYTHON) scripts/pack.py

release: setup-release ## build sdist, wheels and zipapp of the last commit into dist/, the same bytes each time
	@PYTHON=$(PYTHON) scripts/release.sh

clean: ## remove what was built and cached (.venv stays)
	@rm -rf fixtures/build dist build engine/target .pytest_cache .mypy_cache .ruff_cache
	@find $(wildcard common gdb lldb tests benchmarks) -name __pycache__ -type d -prune -exec rm -rf {} +
