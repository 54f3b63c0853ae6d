# `make demo` and `make test` are all that most people need; both build first.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build

PYTHON ?= python3
VENV ?= .venv
JOBS ?= $(shell nproc)
INSTRUMENTS ?= ../shared/instruments
BASE ?=

BUILD := build-wheel
export PATH := $(abspath $(VENV))/bin:$(PATH)
export PIP_DISABLE_PIP_VERSION_CHECK := 1

SOURCES := CMakeLists.txt pyproject.toml $(shell find csrc -type d -o -name '*.cc' -o -name '*.h') \
  $(shell find torchtpu torch_tpu -name '*.py')

.PHONY: build demo test test-cc test-python bench sweep lint format docs sanitize address thread clean

## build     .venv with the package in it
build: $(VENV)/.package

$(VENV)/.requirements: pyproject.toml
	tools/debian_packages.sh build
	[ -x $(VENV)/bin/python ] || $(PYTHON) -m venv $(VENV)
	pip install -qq $$(python tools/requirements.py build run tpu demo test)
	touch $@

# The link lets programs started in this folder, which see torchtpu/ before the installed package, find the extension.
$(VENV)/.package: $(VENV)/.requirements $(SOURCES)
	pip install -qq --no-build-isolation --no-deps .
	cd torchtpu && ln -sf ../$(BUILD)/_C*.so .
	touch $@

## demo      a sentence encoder, and a language model trained, stopped and resumed, on `tpu`
demo: build
	python -m demo

## test      C++ tests, then Python's: what CI runs
test: test-cc test-python

test-cc: build
	tools/debian_packages.sh test
	cmake -S . -B $(BUILD) -DTORCHTPU_TESTS=ON --log-level=NOTICE
	cmake --build $(BUILD) -j $(JOBS)
	ctest --test-dir $(BUILD) -j $(JOBS) --output-on-failure

test-python: build | test-cc
	pytest

## bench     small ops, training steps and start-up beside peers in the same run (PEER=DIR: Google's package; XLA=DIR: torch_xla; JAX=DIR)
bench: build
	python -m benchmarks.startup
	python -m benchmarks.cold_start $(if $(PEER),--peer $(PEER))
	python -m benchmarks.call_overhead
	python -m benchmarks.compile $(if $(JAX),--jax $(JAX))
	python -m benchmarks.eager $(if $(PEER),--peer $(PEER)) $(if $(XLA),--xla $(XLA))

## sweep     long tests: OpInfo in all data types (SWEEP="-k softmax" for a part), lengths under torch.compile, killed processes, random rank programs
sweep: build
	TORCHTPU_SWEEP=full pytest -q tests/python/test_opinfo.py $(SWEEP)
	TORCHTPU_SWEEP=full pytest -q tests/python/test_lengths.py
	TORCHTPU_CACHE_KILLS=100 pytest -q tests/python/test_cache.py -k killed
	TORCHTPU_RANK_PROGRAMS=200 pytest -q tests/python/test_distributed.py -k programs
	TORCHTPU_RANK_KILLS=100 pytest -q tests/python/test_distributed_kills.py

## lint      ruff, clang-format, and clang-tidy on what changed since BASE (BASE=all: on everything)
lint: build $(VENV)/.lint
	ruff check .
	ruff format --check .
	git ls-files '*.cc' '*.h' | xargs clang-format --dry-run -Werror
	tools/tidy.sh $(BUILD) $(BASE)

## format    rewrites what lint would refuse
format: $(VENV)/.lint
	ruff check --fix .
	ruff format .
	git ls-files '*.cc' '*.h' | xargs clang-format -i

$(VENV)/.lint: $(VENV)/.requirements
	pip install -qq $$(python tools/requirements.py dev)
	touch $@

## docs      runs the code and follows the links of README.md and docs/
docs: build
	pytest tests/python/test_docs.py

## sanitize  the C++ tests under AddressSanitizer and ThreadSanitizer
sanitize: address thread

address thread: $(VENV)/.requirements
	tools/debian_packages.sh test
	cmake -S . -B build-$@ -G Ninja -DTORCHTPU_TESTS=ON -DTORCHTPU_EXTENSION=OFF -DTORCHTPU_SANITIZE=$@ \
	  -DPython_EXECUTABLE=$(abspath $(VENV))/bin/python --log-level=NOTICE
	cmake --build build-$@ -j $(JOBS)
	ctest --test-dir build-$@ -j $(JOBS) --output-on-failure

## help      this list
help:
	@sed -n 's/^## //p' Makefile

clean:
	rm -rf build build-* out torchtpu/_C*.so torchtpu-*.dist-info
