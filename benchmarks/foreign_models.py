"""Models from elsewhere, in txlab and in transformers: both compute the same ids with freshly made random weights.

    python benchmarks/foreign_models.py            every family and configuration, under a minute
    python benchmarks/foreign_models.py llama      those whose name contains this

log p      the largest difference of log-probabilities, over all positions and tokens
attention  of the attention weights of all layers and heads
gradient   of the loss's gradients of all parameters, divided by the largest entry of each
ids        whether greedy ids are equal: the generated ones, or for an encoder the likeliest token of each position

Both sides use float32, weights with standard deviation .1 and random gains, as in tests/parity, which also compares in
float64. 16-bit weights are converted to float32 on both sides.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "parity"))
import test_weights_bert as bert
import test_weights_gpt2 as gpt2
import test_weights_marian as marian
import test_weights_roberta as roberta
import test_weights_rotary as rotary
from random_models import gradients, randomised, transformers

from txlab.engine.transformer.generation import generate, generate_target
from txlab.engine.transformer.hooks import keeping
from txlab.engine.transformer.weights import Loaded, load_model

WITHIN = {"log p": 2e-5, "attention": 2e-6, "gradient": 2e-4}
ACTIVATIONS = ("gelu", "gelu_python", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "relu", "silu")


@dataclass(frozen=True)
class Case:
    """`sizes` is added to the sizes in the family's tests; weights are stored in `dtype`, `shards` in many files."""

    name: str
    family: str
    sizes: dict[str, Any]
    dtype: torch.dtype = torch.float32
    shards: bool = False


def cases() -> Iterator[Case]:
    half = {"bf16": torch.bfloat16, "fp16": torch.float16}
    for name, sizes in {
        "plain": {},
        "3 heads of 11": {"n_head": 3, "n_embd": 33},
        "n_inner": {"n_inner": 50},
        "untied": {"tie_word_embeddings": False},
        "epsilon": {"layer_norm_epsilon": 1e-3},
        "reorder": {"reorder_and_upcast_attn": True},
        "vocabulary": {"vocab_size": 1013},
    }.items():
        yield Case(f"gpt2, {name}", "gpt2", sizes)
    for name in ACTIVATIONS:
        yield Case(f"gpt2, {name}", "gpt2", {"activation_function": name})
    for name, dtype in half.items():
        yield Case(f"gpt2, {name}", "gpt2", {}, dtype)
    yield Case("gpt2, shards", "gpt2", {}, shards=True)
    for name, sizes in {
        "plain": {},
        "untied": {"tie_word_embeddings": False},
        "3 segments": {"type_vocab_size": 3},
        "epsilon": {"layer_norm_eps": 1e-5},
        "gelu_new": {"hidden_act": "gelu_new"},
        "relu": {"hidden_act": "relu"},
        "silu": {"hidden_act": "silu"},
    }.items():
        yield Case(f"bert, {name}", "bert", sizes)
    for name, dtype in half.items():
        yield Case(f"bert, {name}", "bert", {}, dtype)
    yield Case("bert, shards", "bert", {}, shards=True)
    for name, sizes in {
        "shared": {},
        "scaled": {"scale_embedding": True, "activation_function": "swish"},
        "apart": dict(marian.APART),
        "untied": {"tie_word_embeddings": False, **marian.APART},
        "relu": {"activation_function": "relu"},
    }.items():
        yield Case(f"marian, {name}", "marian", sizes)
    yield Case("marian, bf16", "marian", {}, torch.bfloat16)
    yield Case("marian, shards", "marian", {}, shards=True)
    for name, tied in (("pegasus, tied", True), ("pegasus, untied", False)):
        yield Case(name, "pegasus", {"tie_word_embeddings": tied})
    for name, (kind, sizes) in rotary.CASES.items():
        yield Case(name, kind, sizes)
    yield Case("llama, bf16", "llama", {"num_key_value_heads": 2}, torch.bfloat16)
    yield Case("llama, shards", "llama", {}, shards=True)
    yield Case("neox, fp16", "gpt_neox", {}, torch.float16)
    for name, (kind, sizes) in roberta.CASES.items():
        yield Case(name, kind, sizes)


SIZES = {
    "gpt2": gpt2.SIZES | gpt2.QUIET | {"attn_implementation": "eager"},
    "bert": bert.SIZES,
    "marian": marian.SIZES,
    "pegasus": marian.SIZES,
}
MAKERS = {"gpt": "AutoModelForCausalLM", "bert": "AutoModelForMaskedLM", "encoder-decoder": "AutoModelForSeq2SeqLM"}
KINDS = {"gpt2": "gpt", "llama": "gpt", "mistral": "gpt", "qwen2": "gpt", "gpt_neox": "gpt"}
KINDS |= {"marian": "encoder-decoder", "pegasus": "encoder-decoder"}


def make_model(case: Case) -> Any:
    sizes = SIZES.get(case.family, rotary.SIZES if KINDS.get(case.family) == "gpt" else {}) | case.sizes
    config = transformers.AutoConfig.for_model(case.family, **sizes)
    maker = getattr(transformers, MAKERS[KINDS.get(case.family, "bert")])
    return randomised(maker.from_config(config), case.dtype)


def compare(case: Case, folder: Path) -> tuple[int, dict[str, float], bool]:
    """Parameters, the largest differences, and whether greedy ids are equal."""
    theirs = make_model(case)
    theirs.save_pretrained(folder, max_shard_size="20KB" if case.shards else "5GB")
    loaded = load_model(folder)
    # Loaded from the folder by transformers: `float` would leave angles and sinusoids rounded to 16 bits.
    theirs = type(theirs).from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    draw = torch.Generator().manual_seed(3)
    # Without the padding token of transformers, whose row has no gradient there.
    ids = torch.randint(4, 50, (2, 17), generator=draw)
    inputs = {"input_ids": ids}
    if loaded.kind == "encoder-decoder":
        inputs["decoder_input_ids"] = torch.randint(4, 50, (2, 13), generator=draw)
    hooks, kept = keeping("*.pattern")
    output = theirs(**inputs, output_attentions=True)
    ours = loaded.model(*inputs.values(), hooks=hooks)
    named = ("encoder_attentions", "decoder_attentions", "cross_attentions", "attentions")
    patterns = [layer for name in named for layer in getattr(output, name, None) or ()]
    own = [kept[name] for name in sorted(kept, key=order_of)]
    assert len(own) == len(patterns)
    target = inputs.get("decoder_input_ids", ids)
    for logits in (output.logits, ours):
        F.cross_entropy(logits[:, :-1].flatten(0, 1), target[:, 1:].flatten()).backward()
    mine, wanted = gradients(theirs, loaded)
    largest = {
        "log p": difference(ours.log_softmax(-1), output.logits.log_softmax(-1)),
        "attention": max(difference(a, b) for a, b in zip(own, patterns, strict=True)),
        "gradient": max(difference(mine[name], g) / max(float(g.abs().max()), 1e-3) for name, g in wanted.items()),
    }
    return loaded.facts["parameters"], largest, same_ids(theirs, loaded, ids, ours, output.logits)


def order_of(place: str) -> tuple[int, bool, int]:
    """The order of transformers' attentions: encoder, decoder, cross; then by layer."""
    layer = int(place.partition("blocks.")[2].partition(".")[0])
    return int(place.startswith("decoder")), ".cross." in place, layer


def difference(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    return float((ours.detach() - theirs.detach()).abs().max())


def same_ids(theirs: Any, loaded: Loaded, ids: torch.Tensor, ours: torch.Tensor, logits: torch.Tensor) -> bool:
    if loaded.kind == "bert":
        return torch.equal(ours.argmax(-1), logits.argmax(-1))
    if loaded.kind == "encoder-decoder":
        start, end = theirs.config.decoder_start_token_id, theirs.config.eos_token_id
        wanted = theirs.generate(ids[:1], max_new_tokens=16, do_sample=False, num_beams=1)[0, 1:].tolist()
        return bool(generate_target(loaded.model, [ids[0].tolist()], 16, start=start, end=end) == [wanted])
    begun = ids[:1, :4]
    wanted = theirs.generate(begun, max_new_tokens=18, do_sample=False, pad_token_id=0)[0, 4:].tolist()
    return list(generate(loaded.model, begun[0].tolist(), 18, generator=None, temperature=0.0)) == wanted


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("only", nargs="?", default="", help="cases whose name contains this")
    asked = parser.parse_args(arguments)
    torch.manual_seed(0)
    print(f"{'model':<24}{'parameters':>11}{'log p':>10}{'attention':>11}{'gradient':>10}  ids")
    total = good = 0
    worst = dict.fromkeys(WITHIN, 0.0)
    for case in cases():
        if asked.only not in case.name:
            continue
        with TemporaryDirectory() as folder:
            parameters, differences, same = compare(case, Path(folder))
        total += 1
        good += same and all(differences[name] <= most for name, most in WITHIN.items())
        worst = {name: max(worst[name], differences[name]) for name in worst}
        numbers = f"{differences['log p']:>10.1e}{differences['attention']:>11.1e}{differences['gradient']:>10.1e}"
        print(f"{case.name:<24}{parameters:>11,}{numbers}  {'equal' if same else 'DIFFERENT'}", flush=True)
    largest = ", ".join(f"{name} {value:.1e}" for name, value in worst.items())
    print(
        f"\n{good} of {total} agree within {', '.join(f'{n} {v:.0e}' for n, v in WITHIN.items())}; largest: {largest}"
    )


if __name__ == "__main__":
    main()
