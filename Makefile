# Everything this project can do to itself. Each target sets up what it needs; `make` or `make help` lists them.
SHELL := /bin/sh
VENV := .venv
# The interpreter of a new environment: make test VENV=.venv-3.13 PYTHON=python3.13
CHOSEN := $(PYTHON)
override PYTHON := $(VENV)/bin/python
unexport PYTHON
INSTALLED := $(VENV)/.installed
COMPILED := $(VENV)/.compiled
COMPILES := setup.py tupletree/_compiled/__init__.py $(wildcard tupletree/*.pxd tupletree/state/*.pxd tupletree/connectors/*.pxd worker/core/*.pxd acker/*.pxd)
COMPILES += $(patsubst %.pxd,%.py,$(filter %.pxd,$(COMPILES)))
# An old generator, apart from .venv, as its own requirements contradict newer ones: code that it generates works with every
# protobuf from 5.26 on (docs/adr/0004). It exists for Python 3.11 and 3.12.
GENERATOR := $(VENV)/protoc
GENERATES := $(GENERATOR)/grpcio-tools-1.63.2
PROTOC = PYTHONPATH=$(GENERATOR) $(PYTHON) -m grpc_tools.protoc -I proto --plugin=protoc-gen-mypy_grpc=$(VENV)/bin/protoc-gen-mypy_grpc
PROTOC_OUT = --python_out=$(1) --pyi_out=$(1) --grpc_python_out=$(1) --mypy_grpc_out=$(1)
PROTOS := $(wildcard proto/tupletree/v1/*.proto)

# Extra arguments, for example: make test PYTEST_ARGS="-k anchoring"   make demo DEMO_ARGS="--lines 500000"
PYTEST_ARGS ?=
DEMO_ARGS ?=
# The supervisors of make cluster, and more options of tupletree dev, for example: make cluster N=8 CLUSTER_ARGS="--slots 2 --ackers 2"
N ?= 4
CLUSTER_ARGS ?=
BENCH_ARGS ?= --workers 2 --ackers 1 --sentences 300000 --json

# Tests start hundreds of processes: without bytecode files each of them compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
# Processes, each a file at a time, in the order of tests/conftest.py. Most tests of daemons wait: three fit on two cores.
FILES := --dist loadfile --no-loadscope-reorder
# What runs a second time without what was compiled, where anything was: the tests that call compiled modules.
PURE_TESTS := $(addprefix tests/unit/,acker windows worker test_tuples.py benches/test_bench_parts.py)
PURE_TESTS += $(addprefix tests/unit/,library/test_cli.py library/test_registered_metrics.py platform/test_latency_buckets.py)
PURE_TESTS += $(wildcard tests/unit/house/test_*_example*.py)
# The simulation of transactions calls no compiled module but that of tuples, which test_tuples.py tests.
PURE_TESTS += $(filter-out $(addprefix tests/simulation/test_,transactions.py autoscaling_curves.py),$(wildcard tests/simulation/test_*.py))
PURE_TESTS += tests/integration/semantics tests/integration/library/test_library_cluster.py
PURE_TESTS += tests/unit/transactional/test_attempt_field.py tests/integration/transactional/test_attempt_forms.py
IN_PLAIN_PYTHON = ! $(PYTHON) -c 'import sys, tupletree; sys.exit(tupletree._compiled.CHOICE != "compiled")' \
	|| TUPLETREE_PURE=1 $(PYTHON) -m pytest $(PURE_TESTS) $(1) $(FILES) $(PYTEST_ARGS) || [ $$? -eq 5 ]
# How much the tests of simulations and of random inputs try at night.
LARGE := WINDOW_SEEDS=5 TUPLETREE_RANDOM_TOPOLOGIES=0:300 STATE_EXAMPLES=100 WRITER_KILLS=10 OPENAPI_EXAMPLES=15
LARGE += PROPERTY_EXAMPLES=1000 REPORT_SEEDS=8 SIMULATED_SEEDS=2000 TRACKING_SEEDS=1000 KEYED_SEEDS=1000 STREAM_SEEDS=300

.PHONY: help setup cluster lock java classes servers demo test test-long test-nightly test-simulation test-fuzz test-oldest test-protobuf test-wheel check
.PHONY: format docs proto proto-check dist bench clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(INSTALLED) $(COMPILED) java classes ## make .venv, install, compile, see that Java 17 or newer is there, prepare ZooKeeper and Spark

$(INSTALLED): pyproject.toml deploy/setup/python.sh
	@PYTHON="$(CHOSEN)" sh deploy/setup/python.sh $(VENV)
	@touch $@

$(COMPILED): $(INSTALLED) $(COMPILES)
	@$(PYTHON) setup.py -q build_ext --inplace
	@touch $@

lock: $(INSTALLED) ## write uv.lock: the newest version of each dependency that pyproject.toml permits
	@$(VENV)/bin/uv lock --quiet --upgrade --no-config --default-index https://pypi.org/simple

java:
	@sh deploy/setup/java.sh

# ZooKeeper and Spark start in two thirds of the time with their classes prepared; without, they start all the same.
classes: $(INSTALLED) java
	@$(PYTHON) -m tupletree._devcluster.prepare || true
	@$(PYTHON) -m tupletree.spark.prepare || true

servers:
	@sh deploy/setup/servers.sh

cluster: setup ## a cluster with N supervisors, each process on a machine of its own where the system permits: make cluster N=8
	@exec $(PYTHON) -m tupletree dev --machines --supervisors $(N) $(CLUSTER_ARGS)

demo: setup ## count words on a whole cluster, by tuples and with Spark, with crashes; compare with the truth
	@$(PYTHON) -m examples.demo $(DEMO_ARGS)

test: setup servers ## run the tests but the long ones, and those of compiled modules again in plain Python
	@$(PYTHON) -m pytest tests -m "not long" -n 3 $(FILES) $(PYTEST_ARGS)
	@$(call IN_PLAIN_PYTHON,-m "not long" -n 3)

test-long: setup servers ## run the long tests that every landing waits for: crashes, partitions of the network, fuzzing, waits
	@$(PYTHON) -m pytest tests -m "long and not nightly" -n 2 $(FILES) $(PYTEST_ARGS)
	@$(call IN_PLAIN_PYTHON,-m "long and not nightly" -n 2)

test-nightly: setup servers ## run all other long tests, and simulations and random inputs with many more
	@$(LARGE) $(PYTHON) -m pytest tests -m "nightly or sized or hypothesis" -n 2 $(FILES) $(PYTEST_ARGS)

test-simulation: $(INSTALLED) ## 10,000 seeded histories each of transactional topologies, of stateful ones, and of moving states in a faulty world
	@TRANSACTION_SEEDS=10000 $(PYTHON) -m pytest tests/simulation/test_transactions.py -n 2 -q $(PYTEST_ARGS)
	@CHECKPOINT_SEEDS=5000 $(PYTHON) -m pytest tests/simulation/test_checkpoints.py tests/simulation/test_checkpoint_sinks.py -n 2 -q $(PYTEST_ARGS)
	@MOVING_SEEDS=10000 $(PYTHON) -m pytest tests/simulation/test_moving_states.py -n 2 -q $(PYTEST_ARGS)

test-fuzz: $(INSTALLED) ## 100,000 odd and mutated calls and requests, and 100,000 odd values, submissions and arguments
	@FUZZ_INPUTS=100000 $(PYTHON) -m pytest tests/fuzz -q -s $(PYTEST_ARGS)

check: $(INSTALLED) proto-check ## lint, formatting, types, import contracts, English, generated code
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@sh .ci/check-types
	@sh .ci/lint-imports
	@$(PYTHON) .ci/check-english

docs: $(INSTALLED) ## build the documentation site into build/site; a dead link or a warning fails
	@NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict

format: $(INSTALLED) ## put the formatting right, and what else ruff can mend
	@$(VENV)/bin/ruff check --fix-only --quiet .
	@$(VENV)/bin/ruff format .

$(GENERATES): $(INSTALLED)
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target $(GENERATOR) grpcio-tools==1.63.2
	@touch $@

test-oldest: $(INSTALLED) ## run unit and integration tests with the oldest packages that pyproject.toml permits
	@UV=$(VENV)/bin/uv sh .ci/test-versions oldest

test-protobuf: $(INSTALLED) ## run unit and integration tests with protobuf 5, 6 and 7, and the newest grpcio that goes with each
	@for version in 5 6 7; do UV=$(VENV)/bin/uv sh .ci/test-versions "protobuf==$$version.*" || exit 1; done

dist: $(INSTALLED) ## build the source distribution, this platform's compiled wheel, and a wheel in plain Python for any, into dist/
	@rm -rf dist
	@TUPLETREE_BUILD=compiled $(PYTHON) -m build
	@TUPLETREE_BUILD=plain $(PYTHON) -m build --wheel

test-wheel: ## install the wheel of dist/ into an environment of its own and run the unit tests against it
	@rm -rf build/wheel && $(PYTHON) -m venv build/wheel
	@build/wheel/bin/pip install --quiet --disable-pip-version-check --only-binary tupletree --no-index --no-deps --find-links dist tupletree
	@build/wheel/bin/pip install --quiet --disable-pip-version-check 'tupletree[all]' pytest pytest-timeout pytest-xdist hypothesis
	@PYTEST_ARGS="-n 2 $(FILES) $(or $(PYTEST_ARGS),tests/unit)" sh .ci/test-wheel build/wheel/bin/python

proto: $(GENERATES) ## generate tupletree/v1 from proto/ anew
	@$(PROTOC) $(call PROTOC_OUT,.) $(PROTOS)

proto-check: $(GENERATES)
	@rm -rf build/proto && mkdir -p build/proto
	@$(PROTOC) $(call PROTOC_OUT,build/proto) $(PROTOS)
	@diff -r -x __init__.py -x __pycache__ build/proto/tupletree/v1 tupletree/v1 \
		|| { echo "tupletree/v1 is not what proto/ generates: run 'make proto' and commit the result"; exit 1; }

bench: setup ## measure word count on this machine; the result also goes to bench/results/
	@$(PYTHON) -m bench.word_count $(BENCH_ARGS)

clean: ## remove what builds and checks leave behind (.venv stays)
	rm -f tupletree/_compiled/*.so tupletree/_compiled/SOURCES* $(COMPILED)
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
