# Everything sets itself up: Python 3.11+, Java 17+ and make are all that must be there.
BIN := .venv/bin

.PHONY: help setup demo test test-debezium test-torch check format lock docs crash soak optimizer-soak sinks-soak steady-run bench bench-embedding bench-field bench-freshness bench-optimizer bench-s3 bench-sinks bench-torch torch clean

help:  ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 18

setup:  ## prepare .venv (packages, model, jars); nothing to do the second time
	@./scripts/setup

demo: setup  ## watch it work on real text, and end with a proof
	@$(BIN)/freshet demo --folder demo

test: setup check  ## format, lint, types, layers and tests
	$(BIN)/pytest -n 2 --dist loadscope

test-debezium: setup  ## Debezium's own engine on a real PostgreSQL, killed in the middle; SEED=… repeats one
	$(BIN)/pytest -s -m debezium --timeout 900 tests/integration/test_debezium_live.py

test-torch: torch  ## the provider sentence-transformers; installs PyTorch (several GB) into .venv
	$(BIN)/pytest -m torch --timeout 900 tests/unit/test_sentence_models.py

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

optimizer-soak: setup  ## a writer and an optimizer at one index for MINUTES=10 in each of two modes
	@$(BIN)/python tests/crash/optimizer_and_writer.py --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

sinks-soak: setup  ## a pipeline with three further sinks, killed at random for MINUTES=10; SEED=… repeats one
	@$(BIN)/python tests/crash/sinks_soak.py --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

BENCHMARKS := sink_vs_merge_insert table_growth append_growth sink_overhead landing_ingest landing_discovery changes_ingest
bench: setup  ## the sink and the source against their rivals
	@for name in $(BENCHMARKS); do echo; echo "== $$name"; $(BIN)/python benchmarks/$$name.py || exit 1; done

bench-embedding: setup  ## the embedding inside Spark against the model alone (20 minutes)
	@$(BIN)/python benchmarks/embedding_stage.py

bench-field: setup  ## E1-E4 of lance-spark #399 against its rivals, into docs/benchmarks.md (an hour)
	@$(BIN)/freshet bench --write-docs

bench-freshness: setup  ## how soon a change can be found, at some rates, without a model and with it (10 minutes)
	@$(BIN)/python benchmarks/freshness.py

bench-s3: setup  ## requests of a batch, and freshness, with everything on an S3 server of this machine
	@$(BIN)/python benchmarks/object_store.py --delay-ms 30
	@$(BIN)/python benchmarks/freshness.py --s3-delay-ms 30 --trigger 5 --models off --rates 100 1000

steady-run: MINUTES = 120
steady-run: setup  ## a pipeline at a steady rate for MINUTES=120: does anything grow?
	@$(BIN)/python benchmarks/steady_run.py --minutes $(MINUTES)

OPTIMIZER_BENCHMARKS := optimizer_cost optimizer_stream optimizer_latency optimizer_memory
bench-optimizer: setup  ## the optimizer beside a writer and searches, against LanceDB's own (80 minutes)
	@for name in $(OPTIMIZER_BENCHMARKS); do echo; echo "== $$name"; $(BIN)/python benchmarks/$$name.py || exit 1; done

SINK_BENCHMARKS := postgres_sink delta_sink
bench-sinks: setup  ## the sinks of PostgreSQL and Delta against what Spark and psycopg do by themselves (7 minutes)
	@for name in $(SINK_BENCHMARKS); do echo; echo "== $$name"; $(BIN)/python benchmarks/$$name.py || exit 1; done

bench-torch: torch  ## the model against sentence-transformers; installs PyTorch into .venv
	@$(BIN)/python benchmarks/embedding_rivals.py

torch: setup
	@$(BIN)/python -m pip --disable-pip-version-check --quiet install --require-hashes --no-deps -r requirements-torch.lock

docs: setup  ## write docs/settings.md and docs/cli.md anew
	$(BIN)/python scripts/write_references.py

lock: setup  ## resolve the dependencies anew
	$(BIN)/uv pip compile pyproject.toml --extra s3 --extra azure --extra postgres --extra dev --universal --python-version 3.11 \
	  --generate-hashes --no-annotate --no-header --upgrade --quiet -o requirements.lock
	$(BIN)/uv pip compile pyproject.toml --extra sentence-transformers -c requirements.lock --universal --python-version 3.11 \
	  --generate-hashes --no-annotate --no-header --upgrade --quiet -o requirements-torch.lock

clean:  ## remove what was made here (not the cache of jars)
	rm -rf .venv demo build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
