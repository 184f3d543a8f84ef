# Two commands do all of their own set-up on a fresh machine: `make demo` and `make test`.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

export PACELINE_CACHE ?= $(HOME)/.cache/paceline
export PACELINE_MODEL ?= $(PACELINE_CACHE)/models/SmolLM2-135M-Instruct.Q4_1.gguf
export PYTHONDONTWRITEBYTECODE ?= 1

OP := .venv-operator/bin
EN := .venv-engine/bin
SETUP := python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	|| { echo "setup: Python >= 3.11 is needed as python3 - install it and run again" >&2; exit 2; } ; \
	python3 -m e2e.setup
LATER = @echo "$@: not built yet; it comes with a later issue" >&2; exit 1

SERVING_TESTS := tests/engine/server tests/robust
ENGINE_TESTS := tests/engine tests/bench --ignore=tests/engine/server \
	--ignore=tests/bench/conformance --ignore=tests/bench/validation \
	--ignore=tests/bench/operator_cost --ignore=tests/bench/test_compiled.py \
	--ignore=tests/bench/test_simulator.py
FLEETS_TESTS := tests/operator/reconcile
OPERATOR_TESTS := tests/operator tests/contract tests/architecture tests/charts tests/e2e \
	tests/bench/conformance tests/bench/operator_cost tests/bench/validation \
	tests/bench/test_compiled.py tests/bench/test_simulator.py \
	--ignore=tests/operator/reconcile
SUPPORT := $(wildcard tests/support/*.py)
# What only the engine's tests use, and only its environment can check.
ENGINE_SUPPORT := $(wildcard $(addprefix tests/support/,engine_server.py loading.py model_file.py steps.py tiny_*.py))

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sort | \
		awk -F':.*## ' '{printf "  %-16s %s\n", $$1, $$2}'

.PHONY: demo demo-down
demo: ## The main job on a real local cluster, start to report
	@$(SETUP) operator engine model cluster
	@$(OP)/python -m e2e.demo

demo-down: ## Remove what the demo left: fleet, cluster, interfaces, model file
	@$(SETUP) --as-is operator
	@$(OP)/python -m e2e.demo --down

.PHONY: test unit lint types imports
test: ## Everything that guards main: static checks, tests, one smoke test on the cluster
	@$(SETUP) operator engine model cluster prometheus
	@$(MAKE) -j2 --output-sync=target $(STATIC)
	@$(MAKE) unit smoke

unit: ## Unit, property, contract and API server tests
	@$(SETUP) operator engine model cluster prometheus
	@$(MAKE) parts

# They wait more than they compute, so they share the cores; each line says whose it is. Parts
# mix their lines, so that what failed is said once more at the end.
PARTS := operator fleets serving engine
LOGS ?=
pytest = PYTHONUNBUFFERED=1 $(1)/python -m pytest -q $(2) 2>&1 \
	| (trap '' INT; sed -u "s/^/$(3): /" | tee $(if $(LOGS),$(LOGS)/$(3).log))
.PHONY: parts $(PARTS:%=unit-%)
parts:
	@logs=$$(mktemp -d); trap 'rm -rf "$$logs"' EXIT; code=0; \
	$(MAKE) -j$(words $(PARTS)) LOGS=$$logs $(PARTS:%=unit-%) || code=$$?; \
	$(OP)/python -m tests.verify.recap $(PARTS:%=$$logs/%.log); exit $$code

unit-operator:
	@$(call pytest,$(OP),$(OPERATOR_TESTS),operator)

unit-fleets:
	@$(call pytest,$(OP),$(FLEETS_TESTS),fleets)

unit-serving:
	@$(call pytest,$(EN),$(SERVING_TESTS),serving)

unit-engine:
	@$(call pytest,$(EN),$(ENGINE_TESTS),engine)

# The static checks by themselves; the targets that people call set up first.
STATIC := static-types-engine static-types-operator static-lint static-imports static-verify
.PHONY: $(STATIC)
static-lint:
	@$(OP)/ruff check .
	@$(OP)/ruff format --check .

# Each has a cache of its own: two that run at once on one break each other's entries.
static-types-operator:
	@$(OP)/mypy --show-traceback --cache-dir .mypy_cache/operator operator/src e2e bench/conformance bench/operator_cost bench/validation bench/simulator.py tests/verify $(filter-out $(ENGINE_SUPPORT),$(SUPPORT))

static-types-engine:
	@$(EN)/mypy --show-traceback --cache-dir .mypy_cache/engine --exclude bench/conformance/ --exclude bench/operator_cost/ --exclude bench/validation/ --exclude bench/simulator.py engine/src bench \
		$(ENGINE_SUPPORT)

static-imports:
	@PYTHONPATH=operator/src:engine/src $(OP)/lint-imports

static-verify:
	@$(OP)/python -m tests.verify

lint: ## ruff: rules and format
	@$(SETUP) operator
	@$(MAKE) static-lint

types: ## mypy, strict, in each member's environment
	@$(SETUP) operator engine
	@$(MAKE) static-types-operator static-types-engine

imports: ## import-linter: layers, purity, independence
	@$(SETUP) operator
	@$(MAKE) static-imports

.PHONY: crds behaviours verify
crds: ## Write crds/ and the chart's copy from the models
	@$(SETUP) operator
	@$(OP)/python -m paceline_operator.api.crd --write crds charts/paceline/crds

behaviours: ## Write docs/behaviours-*.md from the tests
	@$(SETUP) operator
	@$(OP)/python -m tests.verify.behaviours --write

verify: ## Fail where anything generated differs from its source
	@$(SETUP) operator cluster
	@$(MAKE) static-verify

.PHONY: smoke e2e validation chaos conformance conformance-full bench-engine bench-flags bench-operator bench-simulator soak
smoke: ## Kill operator, engine pod and API server on the real cluster; lose no request
	@$(SETUP) operator engine model cluster
	@$(OP)/python -m e2e.smoke

e2e: ## A fleet under load against the simulator's prediction, then every fault, on the real cluster
	@$(SETUP) operator engine cluster prometheus
	@$(OP)/python -m e2e.trial

bench-engine: ## The engine side by side with its peer, written to bench/results/
	@$(SETUP) engine model
	@$(EN)/python -m bench.quick

validation: ## The simulator against real engines over HTTP, written to bench/results/
	@$(SETUP) operator engine model
	@$(OP)/python -m bench.validation

bench-flags: ## What each flag of the engine does, written to bench/results/ and docs/engine.md
	@$(SETUP) engine model
	@$(EN)/python -m bench.flags

soak: ## Two hours of mixed load on a virtual clock; nothing may leak
	@$(SETUP) engine
	@$(EN)/python -m bench.soak

bench-operator: ## What the operator costs with 500 services of 4 engines each, on one core
	@$(SETUP) operator
	@$(OP)/python -m bench.operator_cost

# Compiled where a compiler is there: the same figures in a third of the time.
COMPILED = PYTHONPATH=$$($(OP)/python -m bench.compiled)
conformance: ## The autopilot against every baseline on simulated fleets (TRACES=DIR adds traces)
	@$(SETUP) operator
	@$(COMPILED) $(OP)/python -m bench.conformance $(if $(TRACES),--traces $(TRACES))

conformance-full: ## Every load, cold start and seed, over as many sittings as it takes
	@$(SETUP) operator
	@$(COMPILED) $(OP)/python -m bench.conformance --full $(if $(TRACES),--traces $(TRACES))

DAYS ?= 7
bench-simulator: ## How fast the simulator is: an hour of chat, and a week (TRACES=DIR: the recorded hour)
	@$(SETUP) operator
	@$(COMPILED) $(if $(TRACES),TRACES=$(TRACES)) $(OP)/python -m bench.simulator --days $(DAYS)

chaos: ## (not built yet) Faults under load
	$(LATER)

.PHONY: cluster-up cluster-down cluster-status cluster-build
cluster-build: ## Compile the test cluster's programs
	@$(SETUP) cluster

cluster-up: ## Start the real cluster
	@$(SETUP) operator cluster
	@$(OP)/python -m e2e.cluster up

cluster-down: ## Stop it and remove all it made
	@$(SETUP) --as-is operator
	@$(OP)/python -m e2e.cluster down

cluster-status: ## Show its processes, node and system pods
	@$(SETUP) --as-is operator
	@$(OP)/python -m e2e.cluster status

.PHONY: clean
clean: ## Remove environments, kernels, caches and demo reports of this checkout; PACELINE_CACHE stays
	@rm -rf .venv-operator .venv-engine .mypy_cache .ruff_cache .pytest_cache .hypothesis \
		.import_linter_cache dist bench/results/demo \
		engine/src/paceline_engine/kernels/cpu/_build
