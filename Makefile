# `make check` is what CI does after its tests. PYTHON names the interpreter whose environment has txlab[dev].
PYTHON ?= python
# The folder of the runs that the pictures show.
RUNS ?= runs/pictures
.PHONY: check test evidence coverage lint lint-types lint-types-darwin lint-rest format pictures bench

check: lint test evidence

test:
	$(PYTHON) -m pytest -n auto --maxprocesses 8 --dist worksteal

# Kills, random walks, hostile and mutated files, the libraries of others, several processes.
evidence:
	$(PYTHON) -m pytest -n auto --maxprocesses 8 --dist worksteal -m evidence

coverage:
	$(PYTHON) -m pytest -n auto --maxprocesses 8 --dist worksteal --cov=txlab --cov-report=term -m ''

lint: lint-types lint-types-darwin lint-rest

lint-types:
	$(PYTHON) -m mypy

lint-types-darwin:
	$(PYTHON) -m mypy --platform darwin --cache-dir .mypy_cache/darwin

lint-rest:
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -c "from importlinter.cli import lint_imports; raise SystemExit(lint_imports())"

format:
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .

# All pictures of README.md and docs/: the runs are trained unless they are there (half an hour), then drawn.
pictures:
	$(PYTHON) -m txlab lecture assets/pictures.toml --prepare --folder $(RUNS)
	$(PYTHON) assets/make_pictures.py $(RUNS)

bench:
	@for program in benchmarks/*.py; do echo "== $$program"; $(PYTHON) $$program || exit 1; done
