# Everything sets itself up: Python 3.11+, Java 17+ and make are all that must be there.
BIN := .venv/bin

.PHONY: help setup demo test test-debezium check format lock docs crash soak bench clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 15

setup:  ## prepare .venv (packages, model, jars); nothing to do the second time
	@./scripts/setup

demo: setup  ## watch it work on real text, and end with a proof
	@$(BIN)/freshet demo --folder demo

test: setup check  ## format, lint, types, layers and tests
	$(BIN)/pytest

test-debezium: setup  ## Debezium's own engine on a real PostgreSQL, killed in the middle; SEED=… repeats one
	$(BIN)/pytest -s -m debezium --timeout 900 tests/integration/test_debezium_live.py

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup  ## rewrite the sources as the checks want them
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

crash: setup  ## kill it at every step and break every store call, in every mode
	@$(BIN)/python tests/crash/matrix.py
	$(BIN)/pytest -m long --timeout 900

MINUTES ?= 10
soak: setup  ## kill it at random for MINUTES=10 in each of two modes; SEED=… repeats one
	@$(BIN)/python tests/crash/soak.py --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

BENCHMARKS := sink_vs_merge_insert table_growth append_growth sink_overhead landing_ingest landing_discovery changes_ingest
bench: setup  ## the sink and the source against their rivals
	@for name in $(BENCHMARKS); do echo; echo "== $$name"; $(BIN)/python benchmarks/$$name.py || exit 1; done

docs: setup  ## write docs/settings.md and docs/cli.md anew
	$(BIN)/python scripts/write_references.py

lock: setup  ## resolve the dependencies anew
	$(BIN)/uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 \
	  --generate-hashes --no-annotate --no-header --upgrade --quiet -o requirements.lock

clean:  ## remove what was made here (not the cache of jars)
	rm -rf .venv demo build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
