"""An export is complete or absent, and what cannot be exported is refused in words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open

from txlab.engine.tokenizers.elementary import CharacterTokenizer
from txlab.engine.transformer.bert import Bert, BertShape
from txlab.engine.transformer.encoder_decoder import EncoderDecoder, EncoderDecoderShape
from txlab.engine.transformer.gpt import GPT, GPTShape
from txlab.engine.transformer.weights import load_model, save_model, saving
from txlab.errors import LabError

SHAPE = GPTShape(layers=2, heads=2, width=8, context=6, vocabulary=11, feed_forward=20, activation="gelu_tanh")


def test_what_safetensors_own_library_reads_is_what_was_saved(tmp_path: Path) -> None:
    model = GPT(SHAPE, torch.Generator().manual_seed(1))
    save_model(model, None, tmp_path / "a" / "b")
    ours = dict(model.named_parameters())
    with safe_open(tmp_path / "a" / "b" / "model.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt"}
        found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    assert len(found) == len(ours)
    assert torch.equal(found["transformer.wte.weight"], ours["embed.weight"])
    assert torch.equal(found["transformer.h.1.attn.c_attn.weight"], ours["blocks.1.attention.qkv_proj.weight"].T)
    names = sorted(path.name for path in (tmp_path / "a" / "b").iterdir())
    assert names == ["config.json", "model.safetensors"]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_weights_are_saved_as_they_are(tmp_path: Path, dtype: torch.dtype) -> None:
    model = GPT(SHAPE).to(dtype)
    save_model(model, None, tmp_path / "m")
    again = load_model(tmp_path / "m", torch.float64).model
    for name, tensor in again.named_parameters():
        assert torch.equal(tensor, dict(model.named_parameters())[name].double())


@pytest.mark.parametrize(
    "model",
    [
        GPT(GPTShape(1, 2, 8, 6, 11, tied=False, activation="relu", epsilon=1e-6)),
        GPT(GPTShape(2, 1, 8, 6, 11, bias=False, activation="swish")),
        Bert(BertShape(1, 2, 8, 6, 11, segments=3, tied=False)),
        EncoderDecoder(EncoderDecoderShape(1, 2, 2, 8, 11, 13, 6, shared=False)),
        EncoderDecoder(EncoderDecoderShape(1, 2, 2, 8, 11, 11, 6, bias=False, output_bias=True, tied=False)),
    ],
    ids=["gpt", "gpt without biases", "bert", "apart", "one table"],
)
def test_what_is_saved_comes_back_and_is_saved_the_same(tmp_path: Path, model: Any) -> None:
    torch.manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.1)
    save_model(model, None, tmp_path / "once", special={"end": 1})
    again = load_model(tmp_path / "once").model
    ids = torch.tensor([[3, 1, 4, 1, 5]])
    inputs = (ids, ids[:, :3]) if isinstance(model, EncoderDecoder) else (ids,)
    torch.testing.assert_close(again(*inputs), model.eval()(*inputs), atol=1e-6, rtol=0)
    save_model(again, None, tmp_path / "twice", special={"end": 1})
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "once" / name).read_bytes() == (tmp_path / "twice" / name).read_bytes()


def test_nothing_is_left_of_an_export_that_failed_midway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = saving.write_tensors

    def full(*arguments: Any) -> None:
        written(*arguments)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(saving, "write_tensors", full)
    with pytest.raises(LabError, match=r"m' cannot be written: No space left on device"):
        save_model(GPT(SHAPE), None, tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_there_is_never_written_into(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    save_model(GPT(SHAPE), None, tmp_path / "m")  # an empty one is fine
    before = (tmp_path / "m" / "model.safetensors").read_bytes()
    for there in ("m", "m/config.json"):
        with pytest.raises(LabError, match="is there already"):
            save_model(GPT(SHAPE), None, tmp_path / there)
    assert (tmp_path / "m" / "model.safetensors").read_bytes() == before
    with pytest.raises(LabError, match="cannot be written"):
        save_model(GPT(SHAPE), None, tmp_path / "m" / "config.json" / "below")
    with pytest.raises(LabError, match="cannot be written"):
        save_model(GPT(SHAPE), None, "a\0b")


def test_a_model_without_a_file_format_is_a_readable_error(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"'hugingface' is not a model format \(nearest: huggingface\)"):
        save_model(GPT(SHAPE), None, tmp_path / "m", "hugingface")
    with pytest.raises(LabError, match="a Linear cannot be saved for transformers"):
        save_model(torch.nn.Linear(2, 2), None, tmp_path / "m")  # type: ignore[arg-type]
    with pytest.raises(LabError, match=r"end = 11 is not in every vocabulary; allowed: 0 … 10"):
        save_model(GPT(SHAPE), None, tmp_path / "m", special={"end": 11})
    assert list(tmp_path.iterdir()) == []


def test_ids_of_special_tokens_come_back(tmp_path: Path) -> None:
    model = EncoderDecoder(EncoderDecoderShape(1, 1, 2, 8, 11, 11, 6))
    save_model(model, None, tmp_path / "m", special={"begin": 3, "end": 4, "pad": 5})
    assert load_model(tmp_path / "m").special == {"start": 3, "begin": 3, "end": 4, "pad": 5}
    config = json.loads((tmp_path / "m" / "config.json").read_text())
    assert config["decoder_start_token_id"] == 3
    assert config["forced_eos_token_id"] is None


def test_our_own_tokenizer_is_in_the_folder_and_is_checked_like_any_other(tmp_path: Path) -> None:
    tokenizer = CharacterTokenizer.of("abc")
    save_model(GPT(GPTShape(1, 2, 8, 6, tokenizer.vocabulary)), tokenizer, tmp_path / "m")
    assert load_model(tmp_path / "m").tokenizer.encode("cab") == tokenizer.encode("cab")
    (tmp_path / "m" / "txlab-tokenizer.json").write_text('{"format": 1, "kind": "pickle"}')
    with pytest.raises(LabError, match="kind = 'pickle' is not known"):
        load_model(tmp_path / "m")


def test_a_tokenizer_without_any_form_is_left_out_and_a_sentence_says_so(tmp_path: Path) -> None:
    class Odd:
        vocabulary = 11

    (note,) = save_model(GPT(SHAPE), Odd(), tmp_path / "m")
    assert note.startswith("the tokenizer is left out: a Odd cannot be saved in txlab's format")
    model = EncoderDecoder(EncoderDecoderShape(1, 1, 2, 8, 20, 20, 6))
    (note,) = save_model(model, CharacterTokenizer.of("abc"), tmp_path / "n", target_tokenizer=Odd())
    assert "left out" in note
    for name in ("m", "n"):
        assert load_model(tmp_path / name).tokenizer is None
