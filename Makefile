# The two commands for a newcomer are `make demo` and `make test`; everything else serves them.
# Needs Python 3.11+, Java 17+ and make; `make PYTHON=/path/to/python3.12 demo` picks a Python.

.PHONY: help demo demo-bundles demo-queues demo-keys demo-masters demo-serve interactive prepared check test test-long lint bench lock clean
.DEFAULT_GOAL := help
bin := .venv/bin
packages := $(wildcard packages/*/pyproject.toml)
export PYTHON
# Containers often forbid bytecode files. Without them, each process that a test starts compiles every module it
# imports: 1.2 s instead of 0.5 s for one with numpy, pyarrow and Spark.
unexport PYTHONDONTWRITEBYTECODE

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /make \1	/p' Makefile | expand -t 20

demo: .venv/.runtime ## balance a real six-broker Kafka cluster on this machine, in under six minutes
	@$(bin)/trimtab demo

demo-queues: .venv/.runtime ## queues that balance themselves by learned weights, on a real server, in under six minutes
	@$(bin)/trimtab demo queues

demo-keys: .venv/.runtime ## a hot key spread over partitions, each key's order kept, on real brokers, in under six minutes
	@$(bin)/trimtab demo keys

demo-masters: .venv/.runtime ## a node is killed, masters pile up and are spread again under load, in under four minutes
	@$(bin)/trimtab demo masters

demo-serve: .venv/.runtime ## `trimtab serve` heals six real brokers after a kill -9 and fills the returned one, in under five minutes
	@$(bin)/trimtab demo serve

demo-bundles: .venv/.runtime ## balance a real three-broker Pulsar cluster on this machine, in under five minutes
	@$(bin)/trimtab demo bundles

interactive: .venv/.dev ## votes, quizzes and questions on queues balanced by work: examples/interactive, until Ctrl-C
	@$(bin)/python examples/interactive/run.py

# Three tiers: tests/tiers.py. Planners and the bytecode of tests are compiled while style and types are checked, or
# each test process would compile them for itself. How tests are handed out to the processes: tests/clusters.py. A
# test that measures a cluster runs alone, and so do the long ones.
warm := replicas bundles spark
prepared: .venv/.dev
	@$(bin)/python examples/demos/warm_up.py $(warm) & { $(MAKE) --no-print-directory lint && \
	    $(bin)/python examples/demos/warm_up.py requests && \
	    { $(bin)/pytest --tier $(tier) --collect-only --quiet >/dev/null || true; }; } || { kill $$!; exit 1; }; wait

check: warm := replicas bundles
check: tier := check
check: prepared ## style, types, layers and every test that starts no cluster and no Spark (goal: five minutes)
	$(bin)/pytest --tier $(tier) --numprocesses 3 --dist loadscope --no-loadscope-reorder --durations 15

test: tier := test
test: prepared ## what CI runs: `make check` with more examples, and tests on real clusters (goal: 20 minutes)
	$(bin)/pytest --tier $(tier) -m "not alone" --numprocesses 4 --dist loadscope --no-loadscope-reorder --durations 25
	$(bin)/pytest --tier $(tier) -m alone tests/integration

test-long: tier := long
test-long: prepared ## every test there is, before a release: tutorial, all demos, second systems, more seeds
	$(bin)/pytest --tier $(tier) -m "not alone and not long" --numprocesses 4 --dist loadscope --no-loadscope-reorder --durations 25
	$(bin)/pytest --tier $(tier) -m "alone or long" --durations 25

lint: .venv/.dev ## style, types and layers only
	$(bin)/ruff format --check .
	$(bin)/ruff check .
	$(bin)/mypy
	$(bin)/lint-imports

bench: .venv/.dev ## speed and quality of planner and pipeline, into benchmarks/results
	$(bin)/python benchmarks/run.py

.venv/.runtime: requirements/build.txt requirements/runtime.txt pyproject.toml $(packages) scripts/check-machine scripts/make-environment
	@scripts/make-environment runtime
	@touch $@

.venv/.dev: requirements/build.txt requirements/dev.txt pyproject.toml $(packages) scripts/check-machine scripts/make-environment
	@scripts/make-environment dev
	@touch .venv/.runtime $@

# Universal locks: one file serves every Python from 3.11 on; without header and annotations, so that no
# address of an index gets into them.
compile := $(bin)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate
lock: .venv/.runtime ## resolve requirements/*.in anew
	$(compile) --upgrade requirements/runtime.in -o requirements/runtime.txt
	$(compile) --upgrade requirements/dev.in -o requirements/dev.txt
	$(compile) --upgrade requirements/build.in -c requirements/dev.txt -o requirements/build.txt

clean: ## remove the environment and everything built
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
