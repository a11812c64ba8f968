"""The data mixtures of GPT-3 and LLaMA: what follows from the printed tables, and scenarios in their proportions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from txlab.engine.transformer.mixtures import GPT3, LLAMA, MIXTURES, Mixture, mixture_of
from txlab.engine.transformer.presets import PRESETS
from txlab.errors import LabError
from txlab.experiments.kinds.language_model.data import MixtureData, read_parts
from txlab.runs.scenario import load_scenario


def test_epochs_and_tokens_follow_from_the_tables() -> None:
    """By hand: w · 300 / tokens for GPT-3, w · 1400 / epochs for LLaMA, in billions."""
    epochs = {text.name: GPT3.epochs_of(text) for text in GPT3.texts}
    assert epochs == pytest.approx(
        {"common-crawl": 180 / 410, "webtext2": 66 / 19, "books1": 24 / 12, "books2": 24 / 55, "wikipedia": 9 / 3}
    )
    far = [text.name for text in GPT3.texts if abs(GPT3.epochs_of(text) / text.epochs - 1) > 0.03]
    assert far == ["webtext2", "books1", "wikipedia"]  # as its note says
    assert max(abs(GPT3.epochs_of(text) / text.epochs - 1) for text in GPT3.texts) < 0.2
    assert sum(LLAMA.tokens_of(text) for text in LLAMA.texts) == pytest.approx(1.263e12, rel=1e-3)
    assert LLAMA.tokens_of(LLAMA.texts[2]) == pytest.approx(0.045 * 1400e9 / 0.64)
    assert sum(text.weight for text in LLAMA.texts) == pytest.approx(1)
    assert LLAMA.epochs_of(LLAMA.texts[0]) == 0  # its tokens are not printed


def test_presets_know_their_mixture() -> None:
    for name in PRESETS:
        mixture = mixture_of(name)
        assert (mixture is not None) == name.startswith(("gpt3-", "llama-"))
    assert all(any(name.startswith(each.prefix) for name in PRESETS) for each in MIXTURES)


@pytest.mark.parametrize("mixture", MIXTURES, ids=lambda each: each.name)
def test_the_scenario_reads_each_text_as_often_as_the_table_says(mixture: Mixture) -> None:
    scenario: Any = load_scenario(mixture.scenario).scenario
    parts = scenario.data.mixture
    assert [part.name for part in parts] == [text.name for text in mixture.texts]
    total = sum(part.weight for part in parts)
    assert [part.weight / total for part in parts] == pytest.approx(
        [text.weight / sum(each.weight for each in mixture.texts) for text in mixture.texts]
    )
    scale = parts[0].size / mixture.tokens_of(mixture.texts[0])
    for part, text in zip(parts, mixture.texts, strict=True):
        assert part.size == pytest.approx(scale * mixture.tokens_of(text), rel=1e-3)
    # The share of validation is read by none of them, so the tokens read are scaled by it, too.
    read = scenario.train.steps * scenario.train.batch * scenario.model.context
    assert read == pytest.approx(0.9 * scale * mixture.tokens, rel=2e-3)
    data = MixtureData(scenario)
    for text, tokens, share in zip(mixture.texts, data.texts, data.shares, strict=True):
        expected = mixture.epochs_of(text) or text.epochs
        # The weights of GPT-3 sum to 1.01; a cut after a line moves a few per cent of a small text.
        assert share * read / len(tokens.train) == pytest.approx(expected, rel=0.06)


def test_pieces_of_one_text_do_not_overlap_and_there_must_be_enough(tmp_path: Path) -> None:
    text = tmp_path / "t.txt"
    text.write_text("".join(f"{i:05d}\n" for i in range(500)))
    path = f'"{text}"'

    def parts(*sizes: int) -> Any:
        mixed = ", ".join(f'{{text={path}, size={size}, name="p{size}"}}' for size in sizes)
        return read_parts(load_scenario("gpt-mixture", [f"data.mixture=[{mixed}]"]).scenario.data)  # type: ignore[attr-defined]

    read = parts(600, 900, 1500)
    assert "".join(part.corpus.text for part in read) == text.read_text()
    assert [part.name for part in read] == ["p600", "p900", "p1500"]
    with pytest.raises(LabError, match=r"mixture\[1\].size = 2500 is more than is left of .*: 2400 characters"):
        parts(600, 2500)
