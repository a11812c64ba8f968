"""Commands called in this process, and models made by hand for them."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

import txlab.cli
from txlab.engine.tokenizers.elementary import ByteTokenizer
from txlab.engine.transformer.bert import Bert, BertShape
from txlab.engine.transformer.encoder_decoder import EncoderDecoder, EncoderDecoderShape
from txlab.engine.transformer.gpt import GPT, GPTShape
from txlab.experiments.loaded_model import Special
from txlab.runs.models import OpenModel

BEGIN, END, MASK = 256, 257, 258
NAMES = {BEGIN: "[CLS]", END: "[SEP]", MASK: "[MASK]"}


@dataclass
class Answer:
    """What a command printed, and its exit status."""

    status: int
    out: str
    error: str

    @property
    def json(self) -> Any:
        assert self.status == 0, self.error
        return json.loads(self.out)

    @property
    def refused(self) -> str:
        """The one line with which a wrong input is answered."""
        assert (self.status, self.out) == (2, "")
        (line,) = self.error.splitlines()
        return line


Ask = Callable[..., Answer]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tiny_run: Path) -> Ask:
    """Call a command where `tiny_run` is the only run, with `stdin` as standard input."""
    monkeypatch.setenv("TXLAB_RUNS", str(tiny_run.parent))

    def asked(*words: str, stdin: bytes = b"", columns: int = 100) -> Answer:
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setattr(sys, "argv", ["txlab", *words])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            txlab.cli.main()
        said = capsys.readouterr()
        assert "\x1b" not in said.out + said.err  # without a terminal nothing is written to one
        return Answer(int(ended.value.code or 0), said.out, said.err)

    return asked


def loud(model: Any) -> Any:
    """Weights that make patterns and predictions worth looking at."""
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.4, generator=generator)
    return model.eval()


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> dict[str, OpenModel]:
    """Models by the names "gpt", "bert" and "translator", which the commands can open."""
    special = Special(BEGIN, END, MASK, names=NAMES)
    target = Special(begin=BEGIN, end=END, source_end=END, names=NAMES)
    made = {
        "gpt": OpenModel("gpt", "gpt", loud(GPT(GPTShape(2, 3, 12, 24, 256))), ByteTokenizer()),
        "bert": OpenModel("bert", "bert", loud(Bert(BertShape(2, 2, 8, 24, 259))), ByteTokenizer(), special=special),
        "translator": OpenModel(
            "translator",
            "encoder-decoder",
            loud(EncoderDecoder(EncoderDecoderShape(2, 2, 2, 8, 259, 259, 24))),
            ByteTokenizer(),
            special=target,
        ),
    }
    monkeypatch.setattr("txlab.runs.models.open_model", lambda name: made[name])
    return made
