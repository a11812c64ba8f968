"""The table of models compared with transformers is printed by one command, and a difference shows in it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import foreign_models

from txlab.engine.transformer import norms


def test_the_table_says_who_agrees_and_who_does_not(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(list(foreign_models.cases())) >= 60
    foreign_models.main(["qwen2, tied"])
    assert "1 of 1 agree" in capsys.readouterr().out
    monkeypatch.setattr(norms.F, "rms_norm", lambda x, shape, w, e: x * w)
    foreign_models.main(["qwen2, tied"])
    assert "0 of 1 agree" in capsys.readouterr().out
