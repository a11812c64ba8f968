"""Model folders made to do harm, and what each command takes to answer about them.

Run as a program, `hostile_models.py [GROUP [--only COMMAND] [KIND …]]` measures as hostile_configurations.py does.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from hostile_configurations import JSON, MIB, NASTY, NESTED_JSON, ODD, Group, Writer, main, sparse, text

WIDTH, VOCABULARY, CONTEXT = 8, 257, 32
CONFIG = {
    "model_type": "gpt2",
    "architectures": ["GPT2LMHeadModel"],
    "vocab_size": VOCABULARY,
    "n_positions": CONTEXT,
    "n_embd": WIDTH,
    "n_layer": 1,
    "n_head": 2,
    "bos_token_id": 256,
    "eos_token_id": 256,
}
LLAMA = {
    "model_type": "llama",
    "vocab_size": 100,
    "max_position_embeddings": 32,
    "hidden_size": 8,
    "intermediate_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "rms_norm_eps": 1e-5,
}
MARIAN = {
    "model_type": "marian",
    "vocab_size": 100,
    "max_position_embeddings": 32,
    "d_model": 8,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 1,
    "decoder_attention_heads": 1,
    "encoder_ffn_dim": 8,
    "decoder_ffn_dim": 8,
    "pad_token_id": 0,
    "eos_token_id": 0,
    "decoder_start_token_id": 0,
}


def arrays() -> dict[str, Any]:
    """The weights of a GPT-2 of one layer."""
    shapes: dict[str, tuple[int, ...]] = {"wte.weight": (VOCABULARY, WIDTH), "wpe.weight": (CONTEXT, WIDTH)}
    for name, wide in (("attn.c_attn", 3), ("attn.c_proj", 1), ("mlp.c_fc", 4)):
        shapes |= {f"h.0.{name}.weight": (WIDTH, wide * WIDTH), f"h.0.{name}.bias": (wide * WIDTH,)}
    shapes |= {"h.0.mlp.c_proj.weight": (4 * WIDTH, WIDTH), "h.0.mlp.c_proj.bias": (WIDTH,)}
    for name in ("h.0.ln_1", "h.0.ln_2", "ln_f"):
        shapes |= {f"{name}.weight": (WIDTH,), f"{name}.bias": (WIDTH,)}
    draw = np.random.default_rng(0)
    return {f"transformer.{name}": draw.normal(0, 0.1, shape).astype("<f4") for name, shape in shapes.items()}


def entry(shape: tuple[int, ...], start: int, stop: int, dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, stop]}


def safetensors(header: bytes, data: bytes = b"") -> bytes:
    return len(header).to_bytes(8, "little") + header + data


def stored(tensors: Mapping[str, Any], more: Mapping[str, Any] | None = None) -> bytes:
    header, data = dict(more or {}), b""
    for name, each in tensors.items():
        header[name] = entry(each.shape, len(data), len(data) + each.nbytes)
        data += each.tobytes()
    return safetensors(json.dumps(header).encode(), data)


def letters() -> list[str]:
    """GPT-2's letter for each byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte) if byte in plain else chr(next(others)) for byte in range(256)]


def tokenizer(**changes: Any) -> dict[str, Any]:
    vocab = {letter: number for number, letter in enumerate(letters())}
    model = {"type": "BPE", "vocab": vocab, "merges": []}
    content = {
        "version": "1.0",
        "added_tokens": [{"id": 256, "content": "<end>", "special": True}],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "model": model,
    }
    model_changes = changes.pop("model", {})
    return content | changes | {"model": model | model_changes}


def of(content: Callable[[], Any], indent: int | None = None) -> Writer:
    """A file with the JSON of what `content` makes."""
    return text(lambda: json.dumps(content(), indent=indent))


def config(**changes: Any) -> Writer:
    return of(lambda: CONFIG | {key: made() if callable(made) else made for key, made in changes.items()})


def inside(start: Mapping[str, Any], key: str, raw: Callable[[], str]) -> Writer:
    """A sound configuration with one more key, whose value is written as JSON by `raw`."""
    return text(lambda: json.dumps(start)[:-1] + f', "{key}": {raw()}}}')


def sound_model(folder: Path) -> None:
    model = folder / "model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps(CONFIG))
    (model / "model.safetensors").write_bytes(stored(arrays()))
    (model / "tokenizer.json").write_text(json.dumps(tokenizer()))
    (model / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "GPT2Tokenizer", "eos_token": "<end>"}))


def in_shards(folder: Path) -> None:
    sound_model(folder)
    model = folder / "model"
    (model / "model.safetensors").rename(model / "one.safetensors")
    (model / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": dict.fromkeys(arrays(), "one.safetensors")})
    )


def shards(count: int, tensors: int) -> Writer:
    """An index of this number of files, each with this number of empty tensors."""

    def write(path: Path) -> None:
        where = {}
        for number in range(count):
            names = [f"t{number}.{n}" for n in range(tensors)]
            where |= dict.fromkeys(names, f"{number}.safetensors")
            header = json.dumps({name: entry((0,), 0, 0) for name in names}).encode()
            (path.parent / f"{number}.safetensors").write_bytes(safetensors(header))
        path.write_text(json.dumps({"weight_map": where}))

    return write


def many_keys(count: int, value: str = "1") -> str:
    return ",".join(f'"k{n}":{value}' for n in range(count))


CONFIGS: dict[str, Writer] = {
    **JSON,
    "keys up to what is read": inside(CONFIG, "x", lambda: "{" + many_keys(80_000) + "}"),
    "keys at the top": text(lambda: json.dumps(CONFIG)[:-1] + "," + many_keys(80_000) + "}"),
    "lists in a list": inside(CONFIG, "x", lambda: "[" + "[]," * 300_000 + "[]]"),
    "900 levels": inside(CONFIG, "architectures", lambda: "[" * 900 + "]" * 900),
    "900 levels of a number": inside(CONFIG, "n_embd", lambda: '{"a":' * 900 + "1" + "}" * 900),
    "a list for a number": config(n_embd=lambda: [1] * 300_000),
    "a list for an activation": config(activation_function=lambda: [1] * 300_000),
    "a long text for a number": config(n_layer=lambda: "9" * 900_000),
    "NaN": inside(CONFIG, "n_layer", lambda: "NaN"),
    "a number without end": inside(CONFIG, "layer_norm_epsilon", lambda: "1e999"),
    "a huge integer": inside(CONFIG, "layer_norm_epsilon", lambda: "9" * 4000),
    "an integer of 4000 digits": inside(CONFIG, "eos_token_id", lambda: "9" * 4000),
    "many ends": config(eos_token_id=lambda: [*range(150_000)]),
    "escapes": text(lambda: json.dumps({**CONFIG, NASTY: NASTY, "model_type": NASTY})),
    "escapes in a family": config(architectures=[NASTY], activation_function=NASTY),
    "escapes as architecture": config(architectures=[NASTY], _name_or_path=NASTY, torch_dtype=NASTY),
    "escapes as type of rope": of(lambda: LLAMA | {"rope_scaling": {NASTY: 1}}),
    "many words never": config(bad_words_ids=lambda: [[n % 250, n % 251] for n in range(60_000)]),
    "a wide llama": of(
        lambda: LLAMA | {"hidden_size": 1 << 17, "num_attention_heads": 1 << 10, "num_hidden_layers": 1024}
    ),
    "a wide NeoX": of(
        lambda: {
            **LLAMA,
            "model_type": "gpt_neox",
            "hidden_size": 1 << 17,
            "num_attention_heads": 1 << 10,
            "num_hidden_layers": 1024,
        }
    ),
    "a wide GPT-2": config(n_embd=1 << 17, n_head=1, n_layer=1024, n_positions=1 << 20),
    "a wide BERT": of(
        lambda: {
            "model_type": "bert",
            "vocab_size": 100,
            "hidden_size": 1 << 17,
            "num_hidden_layers": 1024,
            "num_attention_heads": 1,
            "intermediate_size": 1 << 17,
            "max_position_embeddings": 1 << 20,
        }
    ),
    "a wide Marian": of(
        lambda: (
            MARIAN
            | {"d_model": 1 << 17, "encoder_layers": 1024, "decoder_layers": 1024, "max_position_embeddings": 1 << 14}
        )
    ),
    "1024 layers": config(n_layer=1024),
    "many words of the vocabulary": config(vocab_size=(1 << 24) - 1),
}
GENERATIONS: dict[str, Writer] = {
    **JSON,
    "keys up to what is read": text(lambda: "{" + many_keys(80_000) + "}"),
    "keys of escapes": text(lambda: json.dumps({f"{NASTY}{n}": NASTY for n in range(5000)})),
    "many words never": of(lambda: {"bad_words_ids": [[n % 250, n % 251] for n in range(60_000)]}),
    "many single words never": of(lambda: {"bad_words_ids": [[n % 257] for n in range(100_000)]}),
    "long words never": of(lambda: {"bad_words_ids": [[5] * 200_000]}),
    "many suppressed": of(lambda: {"suppress_tokens": [*range(150_000)]}),
    "many forced": of(lambda: {"forced_eos_token_id": [n % 257 for n in range(150_000)]}),
    "many beams": of(lambda: {"num_beams": 1000, "max_new_tokens": 1 << 30}),
    "without end": of(lambda: {"max_new_tokens": 1 << 30, "do_sample": True}),
    "a long text": of(lambda: {"max_length": 1 << 30}),
    "huge numbers": text(
        lambda: '{"temperature": 1e-6, "top_k": 1073741824, "length_penalty": 1e308, "top_p": 1e-300}'
    ),
    "NaN": text(lambda: '{"temperature": NaN}'),
    "900 levels": text(lambda: '{"stop_strings": ' + "[" * 900 + "]" * 900 + "}"),
    "lists of an unknown key": of(lambda: {"x": [[]] * 200_000}),
    "a repetition": of(lambda: {"repetition_penalty": 1e-6}),
}


def grows(times: int) -> dict[str, Any]:
    """A normalizer that doubles each letter this number of times."""
    double = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
    return {"type": "Sequence", "normalizers": [double] * times}


def unigram(pieces: list[list[Any]]) -> dict[str, Any]:
    return tokenizer(
        pre_tokenizer=None, decoder=None, added_tokens=[], model={"type": "Unigram", "unk_id": 0, "vocab": pieces}
    )


def split_at(pattern: str) -> dict[str, Any]:
    own = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [split, own]}


def merges(count: int) -> dict[str, Any]:
    """This number of pairs of letters, and of the pairs merged from them."""
    names, vocab, made = letters(), {letter: n for n, letter in enumerate(letters())}, []
    for first in range(256):
        for second in range(256):
            if len(made) < count:
                made.append([names[first], names[second]])
                vocab.setdefault(names[first] + names[second], len(vocab))
    pairs = [pair[0] + pair[1] for pair in made]
    for left in pairs:
        for letter in names:
            if len(made) < count:
                made.append([left, letter])
                vocab.setdefault(left + letter, len(vocab))
    return tokenizer(added_tokens=[], model={"vocab": vocab, "merges": made})


TOKENIZERS: dict[str, Writer] = {
    **JSON,
    "a tokenizer of great size": of(lambda: merges(1_200_000)),
    "keys up to what is read": text(lambda: "{" + many_keys(3_900_000) + "}"),
    "lists up to what is read": text(lambda: '{"model": [' + "[]," * 3_900_000 + "[]]}"),
    "a letter of four bytes": text(lambda: '{"model": {"x": "🦙' + "x" * (120 * MIB) + '"}}'),
    "tokens up to what is read": text(
        lambda: json.dumps(tokenizer())[:-2] + ', "vocab": {' + many_keys(3_900_000) + "}}}"
    ),
    "words of a vocabulary": of(lambda: tokenizer(model={"vocab": {f"k{n}": n for n in range(2_000_000)}})),
    "merges of nothing": of(lambda: tokenizer(model={"merges": [["a", "a"]] * 1_900_000})),
    "merges that are none": of(lambda: tokenizer(model={"merges": [[]] * 3_800_000})),
    "added tokens": of(
        lambda: tokenizer(added_tokens=[{"id": 256 + n, "content": f"<{n}>"} for n in range(1_000_000)])
    ),
    "long added tokens": of(
        lambda: tokenizer(added_tokens=[{"id": 256 + n, "content": f"{n}" + "x" * 100_000} for n in range(1000)])
    ),
    "added spaces": of(lambda: tokenizer(added_tokens=[{"id": 256, "content": " " * 100_000, "lstrip": True}])),
    "added tokens that are normalized": of(
        lambda: tokenizer(
            normalizer={"type": "NFKC"},
            added_tokens=[{"id": 256 + n, "content": f"<{n}>", "normalized": True} for n in range(500_000)],
        )
    ),
    "a pattern that never ends": of(lambda: tokenizer(pre_tokenizer=split_at("(a+)+$|(?:a|a|ab|b)*c"))),
    "a pattern of the library that never ends": of(
        lambda: tokenizer(normalizer={"type": "NFC"}, pre_tokenizer=split_at("(?:a|a|aa|b)*c"))
    ),
    "a pattern of great numbers": of(lambda: tokenizer(pre_tokenizer=split_at("(?:(?:a{1000}){1000}){1000}"))),
    "a long pattern": of(lambda: tokenizer(pre_tokenizer=split_at("a|" * 2_000_000 + "b"))),
    "parentheses in a pattern": of(lambda: tokenizer(pre_tokenizer=split_at("(" * 100_000 + ")" * 100_000))),
    "classes of a pattern": of(lambda: tokenizer(pre_tokenizer=split_at(r"[\p{L}\p{N}]{0,9999}" * 500))),
    "a normalizer that grows": of(lambda: tokenizer(normalizer=grows(40))),
    "a normalizer that adds": of(lambda: tokenizer(normalizer={"type": "Prepend", "prepend": "x" * (50 * MIB)})),
    "normalizers": of(lambda: tokenizer(normalizer={"type": "Sequence", "normalizers": [{"type": "NFC"}] * 500_000})),
    "a chars map": of(lambda: tokenizer(normalizer={"type": "Precompiled", "precompiled_charsmap": "/////w" * 1000})),
    "long pieces": of(lambda: unigram([["<unk>", 0.0], *([f"{n}" + "x" * 100_000, -1.0] for n in range(1000))])),
    "pieces": of(lambda: unigram([["<unk>", 0.0], *([f"▁{n}", -1.0] for n in range(1_200_000))])),
    "pieces without a number": of(lambda: unigram([["<unk>", 0.0], ["a", 1e308], ["b", -1e308]])),
    "words in pieces": of(
        lambda: tokenizer(
            added_tokens=[],
            model={
                "type": "WordPiece",
                "unk_token": "[UNK]",
                "continuing_subword_prefix": "##",
                "max_input_chars_per_word": 1 << 60,
                "vocab": {"[UNK]": 0, "a": 1, "##a": 2},
            },
        )
    ),
    "an unknown kind": of(lambda: tokenizer(model={"type": NASTY})),
    "escapes": of(lambda: tokenizer(added_tokens=[{"id": 256, "content": NASTY}], post_processor={"type": NASTY})),
    "escapes in the vocabulary": of(lambda: tokenizer(model={"vocab": {NASTY: 0}})),
    "ids without end": of(lambda: tokenizer(model={"vocab": dict.fromkeys(letters(), 10**30)})),
    "negative ids": of(lambda: tokenizer(model={"vocab": {letter: -n for n, letter in enumerate(letters())}})),
    "a template": of(
        lambda: tokenizer(
            post_processor={
                "type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": "<end>"}}] * 300_000 + [{"Sequence": {"id": "A"}}],
                "special_tokens": {"<end>": {"ids": [256] * 5000}},
            }
        )
    ),
    "a padding": of(lambda: tokenizer(padding={"strategy": {"Fixed": 10**12}}, normalizer={"type": "NFC"})),
}
SETTINGS: dict[str, Writer] = {
    **JSON,
    "keys up to what is read": text(lambda: "{" + many_keys(350_000) + "}"),
    "added tokens": of(lambda: {"added_tokens_decoder": {str(256 + n): {"content": f"<{n}>"} for n in range(110_000)}}),
    "special tokens": of(lambda: {"extra_special_tokens": [f"<{n}>" for n in range(400_000)]}),
    "escapes": of(lambda: {"bos_token": NASTY, "eos_token": NASTY, "tokenizer_class": NASTY, "add_bos_token": True}),
    "escapes for true": of(lambda: {"add_bos_token": NASTY}),
    "lists": text(lambda: '{"extra_special_tokens": [' + "[]," * 1_300_000 + "[]]}"),
    "a long class": of(lambda: {"tokenizer_class": "x" * 3 * MIB}),
    "a list for true": of(lambda: {"add_bos_token": [1] * 1_000_000}),
}
TENSORS: dict[str, Writer] = {
    **ODD,
    "a terabyte of zeros": sparse(1 << 40),
    "a header without end": text(lambda: b"\xff" * 8 + b"{}" * 10),
    "a header of 31 MiB": lambda path: (
        sparse(40 * MIB)(path),
        path.open("r+b").write((31 * MIB).to_bytes(8, "little")),
    ),
    "spaces": text(lambda: safetensors(b"{}" + b" " * (31 * MIB))),
    "lists": text(lambda: safetensors(b'{"a":[' + b"[]," * 3_900_000 + b"[]]}")),
    "keys": text(lambda: safetensors(b"{" + many_keys(2_500_000).encode() + b"}")),
    "lists in lists": text(lambda: safetensors(NESTED_JSON.encode())),
    "metadata": text(lambda: stored(arrays(), {"__metadata__": {f"k{n}": "x" for n in range(1_500_000)}})),
    "empty tensors": text(
        lambda: safetensors(json.dumps({f"t{n}": entry((0,), 0, 0) for n in range(480_000)}).encode())
    ),
    "empty tensors beside the model": text(
        lambda: stored(arrays(), {f"transformer.h.{n}.attn.bias": entry((0,), 0, 0) for n in range(380_000)})
    ),
    "tensors out of order": text(
        lambda: safetensors(
            json.dumps({f"t{n}": entry((1,), n, n + 1, "U8") for n in range(400_000, 0, -1)}).encode(), b"x" * 400_001
        )
    ),
    "long names": text(lambda: stored(arrays(), {"x" * (30 * MIB): entry((0,), 0, 0)})),
    "escapes": text(lambda: stored(arrays(), {NASTY: entry((0,), 0, 0)})),
    "an escaped dtype": text(lambda: safetensors(json.dumps({"a": entry((0,), 0, 0, NASTY)}).encode())),
    "escaped keys": text(lambda: safetensors(json.dumps({"a": {NASTY: 1}}).encode())),
    "a long shape": text(lambda: safetensors(json.dumps({"a": entry((1,) * 3_000_000, 0, 4)}).encode(), b"abcd")),
    "a long dtype": text(lambda: safetensors(json.dumps({"a": entry((1,), 0, 4, "F" * 3_000_000)}).encode(), b"abcd")),
    "large sizes": text(
        lambda: safetensors(json.dumps({"a": entry(((1 << 48) - 1,) * 8, 0, 10**4000)}).encode(), b"abcd")
    ),
    "negative places": text(lambda: safetensors(json.dumps({"a": entry((1,), -4, 0)}).encode(), b"abcd")),
    "NaN": text(lambda: stored({name: each * np.float32("nan") for name, each in arrays().items()})),
    "the greatest numbers": text(
        lambda: stored({name: each * 0 + np.float32(3e38) for name, each in arrays().items()})
    ),
    "a model twice": text(lambda: stored(arrays(), {"h.0.ln_1.weight": entry((0,), 0, 0)})),
}
SHARDS: dict[str, Writer] = {
    **JSON,
    "lists": text(lambda: '{"weight_map": [' + "[]," * 3_900_000 + "[]]}"),
    "keys up to what is read": text(lambda: '{"weight_map": {' + many_keys(1_500_000, '"one.safetensors"') + "}}"),
    "many files": text(
        lambda: '{"weight_map": {' + ",".join(f'"k{n}":"{n}.safetensors"' for n in range(900_000)) + "}}"
    ),
    "escapes": of(lambda: {"weight_map": {NASTY: f"{NASTY}.safetensors"}}),
    "elsewhere": of(lambda: {"weight_map": {"a": "../../etc/x.safetensors"}}),
    "a long name": of(lambda: {"weight_map": {"a": "x" * 10_000_000 + ".safetensors"}}),
    "40 files of 20 000 tensors": shards(40, 20_000),
    "900 files of 500 tensors": shards(900, 500),
}

TEXT = "a" * 60 + " text"
MODEL = [
    ["score", "model", TEXT], ["generate", "model", "a text", "--tokens", "3"], ["attend", "model", TEXT],
    ["explain", "model", TEXT], ["tokenize", TEXT, "--tokenizer", "model/tokenizer.json"],
]  # fmt: skip
GROUPS = {
    "config": Group("model/config.json", CONFIGS, MODEL, sound_model),
    "generation": Group("model/generation_config.json", GENERATIONS, [["generate", "model", "a text"]], sound_model),
    "tokenizer": Group("model/tokenizer.json", TOKENIZERS, [MODEL[0], MODEL[-1]], sound_model),
    "settings": Group("model/tokenizer_config.json", SETTINGS, [MODEL[0]], sound_model),
    "tensors": Group("model/model.safetensors", TENSORS, [MODEL[0]], sound_model),
    "shards": Group("model/model.safetensors.index.json", SHARDS, [MODEL[0]], in_shards),
}

if __name__ == "__main__":
    main(GROUPS, sys.argv[1:])
