# `make check` is what CI does after its tests. PYTHON names the interpreter whose environment has txlab[dev].
PYTHON ?= python
# The folder of runs that `make screenshots` shows.
RUNS ?= runs
.PHONY: check test coverage lint format screenshots bench

check: lint test

test:
	$(PYTHON) -m pytest -n auto --maxprocesses 8 --dist worksteal

coverage:
	$(PYTHON) -m pytest -n auto --maxprocesses 8 --dist worksteal --cov=txlab --cov-report=term

lint:
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	$(PYTHON) -m mypy --platform darwin --cache-dir .mypy_cache/darwin
	$(PYTHON) -c "from importlinter.cli import lint_imports; raise SystemExit(lint_imports())"

format:
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .

screenshots:
	$(PYTHON) assets/make_screens.py $(RUNS)

bench:
	@for program in benchmarks/*.py; do echo "== $$program"; $(PYTHON) $$program || exit 1; done
