# `make` says what there is to make. Every target may be run twice, and says what it does while it does it.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# Some images set it. Each process then compiles all that it imports: a service takes twice as long to start.
unexport PYTHONDONTWRITEBYTECODE

PYTHON := .venv/bin/python
# pytest's own, for a part: make test ARGS="infra/runtime -k restart"
ARGS ?=
# How many test processes share all of the tests, file by file, the longest files first; each has servers of its
# own. Two for each of two cores: about half of a test of real processes is waiting (measured on two cores: 17:12
# with three, 13:16 with four).
WORKERS ?= 4
# Which of the demo's processes dies on the way: agent, scheduler, supervisor or broker
KILL ?= agent
# Not empty: the demo runs on afterwards, until Ctrl-C
KEEP ?=
# How often make soak goes round
ROUNDS ?= 10
# The folder of the wheels; those of an earlier run are deleted
WHEELS ?= dist
# How many seeds make test-seeds runs, from WARRENER_ORDER_FIRST_SEED on
SEEDS ?= 10000
# The chaos run: the same seed brings the same plan of faults
SEED ?= 1
JOBS ?= 60000
MESSAGES ?= 50000
FAULTS ?= 300
# Not empty: three brokers and a standby of the database
CLUSTER ?=

# The environment is made again when what it is made from has changed.
READY := .venv/.ready
MEMBERS := $(wildcard client/pyproject.toml contracts/*/pyproject.toml services/*/pyproject.toml infra/*/pyproject.toml)

.PHONY: help
help: ## Say what there is to make
	@printf 'Warrener: background jobs over RabbitMQ that do not get lost.\n\n'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(READY) ## Make .venv; install RabbitMQ and PostgreSQL if we may, or say what to install
	@infra/setup/servers

$(READY): pyproject.toml requirements/workspace.txt $(MEMBERS)
	@infra/setup/environment
	@touch $@

.PHONY: demo
demo: setup ## Run the daily export, a workflow of 365 jobs, while an agent is killed (KILL=scheduler|supervisor|broker; KEEP=1 leaves its console running)
	@WARRENER_DEMO_KILL=$(KILL) WARRENER_DEMO_KEEP=$(KEEP) $(PYTHON) -m examples.export.demo

.PHONY: test
test: setup ## Run the tests (ARGS="path -k word" for a part, in one process; WORKERS=1 for all of them in one)
	@echo "test: running the tests on servers of their own"
	@$(PYTHON) -m pytest $(if $(ARGS),$(ARGS),--numprocesses=$(WORKERS) --dist=loadfile --no-loadscope-reorder)

.PHONY: test-times
test-times: setup ## Run all tests and write again which files take long: they start first
	@WARRENER_TEST_TIMES=tests/longest_files.txt $(MAKE) --no-print-directory test

CRASHES := $(addprefix tests/simulation/test_,crash_anywhere.py gather.py limits.py retry_rules.py workflows.py)
.PHONY: test-crashes
test-crashes: setup ## Strike each service at every call that it makes (make test: at every ninth)
	@WARRENER_CRASH_STRIDE=1 $(PYTHON) -m pytest $(CRASHES) --numprocesses=2 $(ARGS)

.PHONY: test-seeds
test-seeds: setup ## Run an order and a map under the crashes of SEEDS seeds, in two processes (10,000: half an hour)
	@WARRENER_ORDER_SEEDS=$(SEEDS) $(PYTHON) -m pytest -q tests/simulation/test_workflow_seeds.py --numprocesses=2 $(ARGS)

.PHONY: test-brokers
test-brokers: setup ## Run the bus's tests on RabbitMQ 4.0 and 4.3 (needs root)
	@infra/setup/debian-roots
	@for release in trixie sid; do \
		echo "test-brokers: RabbitMQ of Debian $$release"; \
		WARRENER_TEST_SERVERS=$$release $(PYTHON) -m pytest \
			tests/compatibility/test_brokers.py tests/compatibility/test_permissions.py tests/security \
			tests/conformance/test_bus.py tests/conformance/test_bus_listening.py $(ARGS); \
	done

.PHONY: test-pythons
test-pythons: setup ## Run the suites on each Python from 3.11 to 3.14 that is here (VERSIONS="3.12 3.13"; ARGS= for a part, in one process)
	@WORKERS=$(WORKERS) VERSIONS="$(VERSIONS)" infra/test-pythons $(ARGS)

.PHONY: test-jaeger
test-jaeger: setup ## Run the tests of traces with a real Jaeger, built once into build/ (needs Go, 12 minutes)
	@jaeger=$$(infra/setup/jaeger) && WARRENER_TEST_JAEGER=$$jaeger $(PYTHON) -m pytest \
		tests/acceptance/test_one_trace.py $(ARGS)

.PHONY: test-console
test-console: setup ## Read the console with a real Chromium: a million jobs, 200 more a second (needs 4 minutes)
	@infra/setup/environment browser
	@command -v chromium >/dev/null || infra/setup/packages chromium
	@WARRENER_TEST_CONSOLE=1 $(PYTHON) -m pytest tests/console $(ARGS)

.PHONY: screenshots
screenshots: ## Make the pictures of docs/console again: each page, desktop and phone
	@WARRENER_SCREENSHOTS=docs/console $(MAKE) --no-print-directory test-console ARGS="$(ARGS)"

.PHONY: wheels
wheels: ## Build a wheel for each package of ours (WHEELS=dist)
	@rm -f $(WHEELS)/*.whl
	@$$(infra/setup/uv) build --quiet --all-packages --wheel --out-dir $(WHEELS)
	@echo "wheels: $$(ls $(WHEELS)/*.whl | wc -l) in $(WHEELS)"

.PHONY: test-wheels
test-wheels: $(READY) ## Build every wheel; start each service from its own in a fresh environment
	@WARRENER_TEST_WHEELS=1 $(PYTHON) -m pytest tests/wheels $(ARGS)

.PHONY: test-upgrade
test-upgrade: setup ## Roll each service between the previous release's wheels and this code, under load (needs the history of git)
	@previous=$$(infra/setup/previous-release) && WARRENER_TEST_PREVIOUS=$$previous $(PYTHON) -m pytest \
		tests/acceptance/test_upgrade.py $(ARGS)

.PHONY: lint
lint: $(READY) ## Check style, format and who imports whom
	@echo "lint: ruff check, ruff format, import-linter"
	@$(PYTHON) -m ruff check
	@$(PYTHON) -m ruff format --check
	@.venv/bin/lint-imports

.PHONY: size
size: $(READY) ## Print lines, files, classes, lone modules, repeated lines, circles and arrows up, wheel by wheel
	@$(PYTHON) -m tools.house

.PHONY: types
types: $(READY) ## Check the types, by mypy and by pyright
	@echo "types: mypy and pyright, side by side"
	@$(PYTHON) -m pyright & pyright=$$!; code=0; $(PYTHON) -m mypy || code=1; wait $$pyright || code=1; exit $$code

.PHONY: generate
generate: $(READY) ## Write again what is generated from the models: schemas, golden events, documents
	@$(PYTHON) -m tools.reference

.PHONY: verify-generated
verify-generated: $(READY) ## Fail if something generated is not what the models or the project files say now
	@echo "verify-generated: schemas, golden events and documents"
	@$(PYTHON) -m tools.reference --check
	@echo "verify-generated: requirement files"
	@infra/setup/lock --check

.PHONY: lock
lock: ## Write the requirement files again after a change of dependencies (ARGS=--upgrade: the newest versions)
	@infra/setup/lock $(ARGS)

.PHONY: pin-images
pin-images: ## Write the digests of the images that ours build on (ARGS=--check: only say which have none); needs Docker
	@infra/images/pin $(ARGS)

.PHONY: sbom
sbom: $(READY) ## Write build/sbom.json, all packages of the environment in CycloneDX's format; fetches cyclonedx-bom
	@mkdir -p build
	@$$(infra/setup/uv) tool run --from 'cyclonedx-bom>=7,<8' cyclonedx-py environment $(PYTHON) --output-file build/sbom.json
	@echo "sbom: build/sbom.json"

.PHONY: audit
audit: ## Look for known holes in the locked packages of each service, by pip-audit; needs its data from the network
	@uv=$$(infra/setup/uv); for service in agent console scheduler supervisor; do \
		echo "audit: $$service"; \
		"$$uv" tool run pip-audit --strict --disable-pip --require-hashes -r requirements/$$service.txt || { \
			echo "audit: expected an answer without findings for $$service; a package that is 'not found' or could" \
				"not be audited means that the advisories cannot be reached from here: run this where they can" >&2; \
			exit 1; }; \
	done

.PHONY: verify-alerts
verify-alerts: ## Check the alert rules by promtool, which is unpacked into build/ if it is not here
	@echo "verify-alerts: promtool"
	@infra/observability/check

.PHONY: check
check: lint types verify-generated test ## All that a change must pass, but for the wheels and the images

.PHONY: bench-bus
bench-bus: setup ## Measure what a message costs by the bus and by its AMQP client (ARGS=--help says what can be chosen)
	@echo "bench-bus: the bus and its AMQP client in turns on one private RabbitMQ"
	@$(PYTHON) tools/benchmarks/bus.py $(ARGS)

.PHONY: soak
soak: setup ## Run the tests of real processes, and clocks in every zone, ROUNDS times; stop at the first failure
	@for round in $$(seq $(ROUNDS)); do \
		echo "soak: round $$round of $(ROUNDS)"; \
		WARRENER_TEST_SOAK=1 $(PYTHON) -m pytest -q -x $(wildcard tests/acceptance tools/chaos) \
			contracts/calendar/tests/test_sweep.py $(ARGS); \
	done

.PHONY: chaos
chaos: setup ## Bring about FAULTS seeded faults while JOBS jobs run on real processes (SEED=; CLUSTER=1; ARGS=--help says more)
	@previous=$$(infra/setup/previous-release) && WARRENER_TEST_PREVIOUS=$$previous \
		$(PYTHON) -m tools.chaos --seed $(SEED) --jobs $(JOBS) --faults $(FAULTS) $(if $(CLUSTER),--cluster) $(ARGS)

.PHONY: chaos-short
chaos-short: setup ## The same with each kind of fault once, in four minutes at most
	@WARRENER_TEST_PREVIOUS=$$(infra/setup/previous-release) $(PYTHON) -m tools.chaos --short --seed $(SEED) $(ARGS)

.PHONY: fuzz
fuzz: setup ## Send MESSAGES hostile messages to every exchange between 500 good jobs (SEED=; ARGS=--help says more)
	@$(PYTHON) -m tools.fuzz --seed $(SEED) --messages $(MESSAGES) $(ARGS)

.PHONY: fuzz-short
fuzz-short: setup ## The same for a minute
	@$(PYTHON) -m tools.fuzz --seed $(SEED) --seconds 60 --jobs 60 $(ARGS)

.PHONY: bench
bench: setup ## Measure ours and each peer in paired turns (ARGS="--quick", "--only warrener,celery", "--against ../before", "--curves rows", "--profile")
	@infra/setup/environment bench
	@$(PYTHON) -m tools.benchmarks $(ARGS)

.PHONY: bench-types
bench-types: setup ## Check the types of the benchmarks and of the browser tests, which need more packages
	@infra/setup/environment bench browser
	@$(PYTHON) -m pyright -p tools/benchmarks & pyright=$$!; code=0; \
	$(PYTHON) -m mypy $(wildcard tools/benchmarks/*.py tools/benchmarks/*/*.py tests/console/*.py) || code=1; \
	wait $$pyright || code=1; exit $$code

.PHONY: ci
ci: ## All that CI runs
	@.ci/run

.PHONY: clean
clean: ## Remove what was made here: .venv, build/, caches
	@echo "clean: removing .venv, build, dist and caches"
	@rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
