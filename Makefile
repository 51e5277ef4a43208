# make run    set up this machine, measure on the embedded testbed (quick profile), write reports/
# make smoke  the same set-up, then one short case of each suite (about 3 minutes): does it work here?
# make test   set up this machine, run the project's own tests: what a developer runs before a commit
# make test-all   the same set-up; those that are marked thorough, too, as .ci/run does
# make test-kernel   also set up QEMU; tests of the kernel datapath, in a guest with Debian's kernel (4 minutes)
# make test-kernel-all   the same set-up; all of those tests (12 minutes)
# make test-lab      the same set-up; the tests of the virtual lab, a guest with PCI NICs (over half an hour)
# make coverage   the same set-up; what make test reaches of the package, lines and branches (ARGS=test-all: of all)
# make docs   the documents as a site in site/, which needs no network once its packages are there
# make wheel  the package in dist/, for machines without a clone: pip install --find-links dist 'pytest-nfvperf[charts]'
# make image  the image of docs/examples/ci/Containerfile, by podman (IMAGE: its name, BASE: its base)
# make bench  set up this machine, measure the project's own figures (noisy machines: best of several)
# Every target says what it is about to change; run twice, it changes nothing the second time.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
BASE   ?= debian:bookworm-slim
IMAGE  ?= nfvperf
# What a test is marked decides whether it runs, and where it lies how: those of tests/measured judge trials of a
# polling generator, so they run alone; all others run on three workers, a file at a time (two workers would leave CPUs
# idle: many tests wait). Status 5 is pytest's for no test: of a tier none may lie in tests/measured.
GATE   := not kernel and not thorough and not daily
REST   := thorough and not kernel and not daily
both    = $(BIN)/python -m pytest tests/ -m "$(1)" --ignore=tests/measured --ignore=tests/kernel \
          -n 3 --dist loadfile --no-loadscope-reorder; beside=$$?; \
          $(BIN)/python -m pytest tests/measured -m "$(1)"; alone=$$?; test $$alone -eq 5 && alone=0; \
          test $$alone -gt $$beside && exit $$alone; exit $$beside
guest   = @$(PYTHON) -m pytest_nfvperf.adapters.host.setup --kernel-tests && \
          $(BIN)/python -m pytest tests/kernel -m "$(1)" $(ARGS)

.PHONY: run smoke test test-all test-rest test-daily test-kernel test-kernel-all test-kernel-daily test-lab
.PHONY: bench coverage docs wheel image lint ruff ruff-format mypy setup doctor clean help

help:
	@sed -n '/^$$/q; s/^# //p' Makefile

run: setup
	$(BIN)/python -m pytest suites/ --nfv-profile quick --nfv-time-limit '11 min' $(ARGS)

smoke: setup
	$(BIN)/python -m pytest suites/ --nfv-profile smoke $(ARGS)

test: setup
	@$(if $(ARGS),$(BIN)/python -m pytest tests/ -m "not kernel" $(ARGS),$(call both,$(GATE)))

test-all: setup
	@$(call both,not kernel and not daily)

# What test-all has beyond test: .ci/run calls one after the other.
test-rest: setup
	@$(call both,$(REST))

test-daily: setup
	@$(call both,daily and not kernel)

test-kernel: setup
	$(call guest,not lab and not daily)

test-kernel-all: setup
	$(call guest,not lab)

# What test-kernel-all has beyond test-kernel.
test-kernel-daily: setup
	$(call guest,not lab and daily)

test-lab: setup
	$(call guest,lab)

coverage: setup
	$(BIN)/python -m benchmarks.mutations --coverage $(if $(ARGS),$(ARGS),test)

bench: setup
	$(BIN)/python -m benchmarks $(ARGS)

# A broken link or anchor, or a page outside of the navigation, is an error.
docs: $(STAMP) $(VENV)/.docs
	$(BIN)/python -m tools.reference_pages --check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "docs: open site/index.html"

$(VENV)/.docs: pyproject.toml $(STAMP)
	@echo "docs: installing mkdocs and mkdocs-material into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	@touch $@

# What a build before this one left in build/ would go into the wheel, too.
wheel:
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@rm -rf build dist/pytest_nfvperf-*.whl
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	@rm -rf build
	@echo "wheel: $$(ls dist/*.whl)"

image: wheel
	podman build --build-arg BASE=$(BASE) --tag $(IMAGE) --file docs/examples/ci/Containerfile dist

lint: ruff ruff-format mypy

ruff: $(STAMP)
	$(BIN)/ruff check .

ruff-format: $(STAMP)
	$(BIN)/ruff format --check .

mypy: $(STAMP)
	$(BIN)/mypy

# The machine (packages, hugepages), then Python's packages, then the generator.
setup: machine $(STAMP)
	@$(BIN)/nfvperf build

.PHONY: machine
machine:
	@$(PYTHON) -m pytest_nfvperf.adapters.host.setup

$(STAMP): pyproject.toml
	@echo "python: creating $(VENV) with this project and its development tools"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@rm -rf $(VENV)/lib/python*/site-packages/pytest_nfvperf  # of a wheel; pip leaves bytecode, which hides the clone
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

doctor: $(STAMP)
	$(BIN)/nfvperf doctor

clean: $(STAMP)
	$(BIN)/nfvperf clean
