"""Two texts as BERT and RoBERTa read them: the library's encoding of pairs, and what its model then says (MATH T10)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
from random_models import randomised, transformers

from txlab.cli.score import score_of
from txlab.engine.interpret.activation_cache import run_with_cache
from txlab.engine.interpret.sites import run
from txlab.engine.transformer.bert import Bert, BertShape
from txlab.engine.transformer.weights import save_model
from txlab.errors import LabError
from txlab.runs.models import open_model

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "##s", "sat", "on", "mat", "did", "it", "?"]
PAIRS = [("the cats sat", "did it?"), ("the [MASK] sat on", "the mat"), ("", "the"), ("the cat", ""), ("x y", "it it")]


def bert_folder(folder: Path, kind: str) -> Any:
    (folder.parent / "words.txt").write_text("\n".join(WORDS) + "\n")
    theirs = transformers.BertTokenizer(vocab=str(folder.parent / "words.txt"))
    theirs.save_pretrained(folder)
    shape = BertShape(2, 2, 16, 24, len(WORDS), segments=2 if kind == "bert" else 0)
    save_model(randomised(Bert(shape), torch.float32), None, folder.parent / "model", special={"pad": 0})
    for name in ("config.json", "model.safetensors"):
        (folder.parent / "model" / name).rename(folder / name)
    return theirs


def roberta_folder(folder: Path) -> Any:
    tokenizers = pytest.importorskip("tokenizers")
    inner = tokenizers.Tokenizer(tokenizers.models.BPE())
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=290,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator(["the cats sat on the mat, did it?"] * 9, trainer)
    inner.post_processor = tokenizers.processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    names = {"bos": "<s>", "eos": "</s>", "pad": "<pad>", "unk": "<unk>", "sep": "</s>", "cls": "<s>"}
    theirs = transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, **{f"{role}_token": name for role, name in names.items()}
    )
    mask = tokenizers.AddedToken("<mask>", lstrip=True, special=True)
    theirs.add_special_tokens({"mask_token": mask})
    config = transformers.RobertaConfig(
        vocab_size=len(theirs), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
        max_position_embeddings=40,
    )  # fmt: skip
    randomised(transformers.RobertaForMaskedLM(config), torch.float32).save_pretrained(folder)
    theirs.save_pretrained(folder)
    return theirs


@pytest.mark.parametrize("kind", ["bert", "distilbert", "roberta"])
def test_a_pair_is_read_as_the_library_reads_it(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "m"
    tokenizer = roberta_folder(folder) if kind == "roberta" else bert_folder(folder, kind)
    model = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
    opened = open_model(str(folder))
    for first, second in PAIRS:
        mask = tokenizer.mask_token
        first = first.replace("[MASK]", mask)
        wanted = tokenizer(first, second, return_tensors="pt")
        text = opened.text(first, pair=second)
        assert list(text.ids) == wanted["input_ids"][0].tolist()
        if kind == "bert":
            assert (list(text.segments) or [0] * len(text.ids)) == wanted["token_type_ids"][0].tolist()
        else:
            assert text.segments == ()
        with torch.no_grad():
            given = {key: value for key, value in wanted.items() if key in ("input_ids", "token_type_ids")}
            theirs = model(**given if kind == "bert" else {"input_ids": given["input_ids"]}).logits[0]
            torch.testing.assert_close(run(opened.model, text), theirs, atol=2e-5, rtol=0)
        torch.testing.assert_close(run_with_cache(opened.model, text).logits, theirs, atol=2e-5, rtol=0)


def test_the_score_of_a_pair_hides_each_token_in_the_second_segment_too(tmp_path: Path) -> None:
    tokenizer = bert_folder(tmp_path / "m", "bert")
    model = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "m").eval()
    found = score_of(open_model(str(tmp_path / "m")), "the cat", None, pair="it sat")
    given = tokenizer("the cat", "it sat", return_tensors="pt")
    for place in (1, 2, 4, 5):
        hidden = given["input_ids"].clone()
        hidden[0, place] = tokenizer.mask_token_id
        with torch.no_grad():
            said = model(hidden, token_type_ids=given["token_type_ids"]).logits[0, place].double().log_softmax(-1)
        assert found.tokens[place].logp == pytest.approx(float(said[given["input_ids"][0, place]]), abs=1e-5)
    assert [token.scored for token in found.tokens] == [False, True, True, False, True, True, False]


def test_a_config_that_only_has_robertas_defaults_does_not_overrule_the_tokenizers_names(tmp_path: Path) -> None:
    import json

    tokenizer = roberta_folder(tmp_path / "m")
    config = json.loads((tmp_path / "m" / "config.json").read_text())
    (tmp_path / "m" / "config.json").write_text(json.dumps(config | {"bos_token_id": 9, "eos_token_id": 9}))
    opened = open_model(str(tmp_path / "m"))
    assert list(opened.ids("the cat")) == tokenizer("the cat")["input_ids"]
    assert list(opened.text("the cat", pair="it").ids) == tokenizer("the cat", "it")["input_ids"]
    assert set(opened.special.names) == set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}  # 9 is a word


def processed(folder: Path, processor: Any) -> Any:
    """RoBERTa's folder, whose texts are put together in another way."""
    roberta_folder(folder)
    inner = pytest.importorskip("tokenizers").Tokenizer.from_file(str(folder / "tokenizer.json"))
    inner.post_processor = processor
    inner.save(str(folder / "tokenizer.json"))
    return transformers.PreTrainedTokenizerFast.from_pretrained(folder)


def template(pair: str) -> Any:
    processors = pytest.importorskip("tokenizers.processors")
    return processors.TemplateProcessing(single="<s> $A </s>", pair=pair, special_tokens=[("<s>", 0), ("</s>", 2)])


@pytest.mark.parametrize("pair", ["<s> $A </s> $B </s>", "<s> $A </s> </s> <s> $B </s>", "BertProcessing"])
def test_a_pair_is_put_together_as_its_tokenizer_says(tmp_path: Path, pair: str) -> None:
    processors = pytest.importorskip("tokenizers.processors")
    bert = processors.BertProcessing(("</s>", 2), ("<s>", 0))
    tokenizer = processed(tmp_path / "m", bert if pair == "BertProcessing" else template(pair))
    opened = open_model(str(tmp_path / "m"))
    for first, second in [("the cats", "did it?"), ("", "the"), ("the cat", "")]:
        wanted = tokenizer(first, second) if second else tokenizer(first)
        assert list(opened.text(first, pair=second).ids) == wanted["input_ids"]


@pytest.mark.parametrize("pair", ["$A $B", "<s> $B </s> $A </s>", "$A </s> $B </s>"])
def test_a_pair_combined_in_an_unusual_way_is_refused(tmp_path: Path, pair: str) -> None:
    processed(tmp_path / "m", template(pair))
    opened = open_model(str(tmp_path / "m"))
    assert opened.ids("the")[0] == 0
    with pytest.raises(LabError, match="around two texts"):
        opened.text("the cats", pair="did it?")
