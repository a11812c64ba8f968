"""The table of models beside transformers is printed by one command, and a difference shows in it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import foreign_models  # noqa: F401  # first, under this name: the benchmark has the same one

from txlab.engine.transformer import blocks


def test_the_table_says_who_agrees_and_who_does_not(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from importlib.util import module_from_spec, spec_from_file_location

    place = Path(__file__).parents[2] / "benchmarks" / "foreign_models.py"
    spec = spec_from_file_location("benchmark_of_foreign_models", place)
    assert spec is not None
    assert spec.loader is not None
    benchmark = module_from_spec(spec)
    sys.modules[spec.name] = benchmark
    spec.loader.exec_module(benchmark)
    assert len(list(benchmark.cases())) >= 60
    benchmark.main(["qwen2, tied"])
    assert "1 of 1 agree" in capsys.readouterr().out
    monkeypatch.setattr(blocks.F, "rms_norm", lambda x, shape, w, e: x * w)
    benchmark.main(["qwen2, tied"])
    assert "0 of 1 agree" in capsys.readouterr().out
