# The two commands for a newcomer are `make demo` and `make test`; everything else serves them.
# Needs Python 3.11+, Java 17+ and make; `make PYTHON=/path/to/python3.12 demo` picks a Python.

.PHONY: help demo demo-bundles demo-queues demo-keys demo-masters interactive test test-long lint bench lock clean
.DEFAULT_GOAL := help
bin := .venv/bin
export PYTHON

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

demo-bundles: .venv/.runtime ## balance a real three-broker Pulsar cluster on this machine, in under five minutes
	@$(bin)/trimtab demo bundles

interactive: .venv/.dev ## votes, quizzes and questions on queues balanced by work: examples/interactive, until Ctrl-C
	@$(bin)/python examples/interactive/run.py

# The planner is compiled while the checks run, or each test process would compile it for itself.
# How tests are handed out to the processes: tests/clusters.py. A test that measures a cluster runs alone.
test: .venv/.dev ## style, types, layers, then every test, on real brokers too
	@$(bin)/python -m trimtab.lab.demo.warm_up & $(MAKE) --no-print-directory lint || { kill $$!; exit 1; }; wait
	$(bin)/pytest --numprocesses 4 --dist loadscope --no-loadscope-reorder --durations 25 -m "not alone"
	$(bin)/pytest -m alone tests/integration

test-long: .venv/.dev ## tests left out there for their length: tutorial, whole demos, more mutants
	$(bin)/pytest --long -m long --durations 25

lint: .venv/.dev ## style, types and layers only
	$(bin)/ruff format --check .
	$(bin)/ruff check .
	$(bin)/mypy
	$(bin)/lint-imports

bench: .venv/.dev ## speed and quality of planner and pipeline, into benchmarks/results
	$(bin)/python benchmarks/run.py

.venv/.runtime: requirements/build.txt requirements/runtime.txt pyproject.toml scripts/check-machine scripts/make-environment
	@scripts/make-environment runtime
	@touch $@

.venv/.dev: requirements/build.txt requirements/dev.txt pyproject.toml scripts/check-machine scripts/make-environment
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
