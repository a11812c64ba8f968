"""Our transformers compared with others of the same shape: training, inspection, generation with a cache.

    python benchmarks/transformer.py [training] [inspection] [generation] [cache] [--quick] [--threads N] [--repeats N]

training     model, loss, gradients and AdamW of an encoder–decoder and of BERT, compared with the same loop around
             torch.nn.Transformer and torch.nn.TransformerEncoder, which attend by SDPA too; float32, no dropout
inspection   one probe text every 10 steps, as a share of those steps: GPT, BERT and encoder–decoder
generation   greedy, with the cache, compared with `generate` of transformers: a GPT-2 small with random weights on
             both sides; both must generate the same ids
cache        adding a token to 12 layers' keys and values of 768 features: in preallocated memory, and by torch.cat

Both sides take turns within one process, with the same threads. Wall time decides; on a shared machine processor time
is more reliable, and its ratio is printed too. The output gives medians, and medians of the ratios within a turn,
theirs / ours: above 1, ours is faster. --quick is a smoke test on tiny shapes and measures nothing.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from math import sqrt
from statistics import median

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from txlab.engine.interpret.activation_cache import run_with_cache
from txlab.engine.interpret.sites import Text
from txlab.engine.transformer.bert import Bert, BertShape, mask_tokens
from txlab.engine.transformer.encoder_decoder import EncoderDecoder, EncoderDecoderShape
from txlab.engine.transformer.generation import generate
from txlab.engine.transformer.gpt import GPT, GPTShape
from txlab.engine.transformer.key_value_cache import LayerCache
from txlab.engine.transformer.positions import sinusoids

Work = Callable[[], object]


def turns(repeats: int, **sides: Work) -> dict[str, list[tuple[float, float]]]:
    """(wall, processor) seconds of each side in each turn, after a warm-up; the sides alternate in going first."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
    for work in sides.values():
        work()
    for repeat in range(repeats):
        for name in list(sides)[:: 1 if repeat % 2 else -1]:
            wall, processor = time.perf_counter(), time.process_time()
            sides[name]()
            taken[name].append((time.perf_counter() - wall, time.process_time() - processor))
    return taken


def compare(what: str, repeats: int, count: int, unit: str, ours: Work, theirs: Work) -> None:
    taken = turns(repeats, theirs=theirs, ours=ours)
    milliseconds = {name: 1e3 * median(wall for wall, _ in times) / count for name, times in taken.items()}
    wall, processor = (
        median(a[which] / b[which] for a, b in zip(taken["theirs"], taken["ours"], strict=True)) for which in (0, 1)
    )
    print(
        f"{what:34} theirs {milliseconds['theirs']:8.2f}  ours {milliseconds['ours']:8.2f} ms a {unit}"
        f"   ratio {wall:5.2f}, by processor time {processor:5.2f}   (wanted: at least 1)"
    )


# Training.


def training_loop(model: nn.Module, loss: Callable[[], Tensor], steps: int) -> Work:
    """The same loop for both sides: only the model differs."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def segment() -> None:
        for _ in range(steps):
            value = loss()
            optimizer.zero_grad(set_to_none=True)
            value.backward()
            optimizer.step()
            value.item()

    return segment


class TheirEncoderDecoder(nn.Module):
    """torch.nn.Transformer with an embedding table, sinusoids, and the table's transpose as unembedding."""

    def __init__(self, shape: EncoderDecoderShape) -> None:
        super().__init__()
        self.embed = nn.Embedding(shape.target_vocabulary, shape.width)
        self.register_buffer("waves", sinusoids(shape.context, shape.width))
        layers = (shape.encoder_layers, shape.decoder_layers)
        self.inside = nn.Transformer(shape.width, shape.heads, *layers, shape.inner, dropout=0.0, batch_first=True)
        nn.init.normal_(self.embed.weight, std=shape.width**-0.5)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        x, y = (
            self.embed(ids) * sqrt(self.embed.embedding_dim) + self.waves[: ids.shape[1]] for ids in (source, target)
        )
        causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        return F.linear(self.inside(x, y, tgt_mask=causal, tgt_is_causal=True), self.embed.weight)


class TheirBert(nn.Module):
    """torch.nn.TransformerEncoder with BERT's tables and head."""

    def __init__(self, shape: BertShape) -> None:
        super().__init__()
        D = shape.width
        self.embed, self.positions = nn.Embedding(shape.vocabulary, D), nn.Embedding(shape.context, D)
        self.segments = nn.Embedding(shape.segments, D)
        self.norm = nn.LayerNorm(D, 1e-12)
        layer = nn.TransformerEncoderLayer(D, shape.heads, shape.inner, 0.0, "gelu", 1e-12, batch_first=True)
        self.inside = nn.TransformerEncoder(layer, shape.layers, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.Linear(D, D), nn.GELU(), nn.LayerNorm(D, 1e-12))
        self.bias = nn.Parameter(torch.zeros(shape.vocabulary))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids) + self.positions.weight[: ids.shape[1]] + self.segments.weight[0]
        return F.linear(self.head(self.inside(self.norm(x))), self.embed.weight, self.bias)


def training(quick: bool, repeats: int) -> None:
    torch.manual_seed(0)
    steps = 2 if quick else 10
    for what, batch, S, T, shape in (
        ("encoder–decoder 2+2×128, 16 → 16", 64, 16, 16, EncoderDecoderShape(2, 2, 4, 128, 500, 500, 32)),
        ("encoder–decoder 3+3×256, 64 → 64", 8, 64, 64, EncoderDecoderShape(3, 3, 4, 256, 4000, 4000, 64)),
    ):
        if quick:
            batch, shape = 2, EncoderDecoderShape(1, 1, 2, 16, 50, 50, 64)
        source = torch.randint(shape.source_vocabulary, (batch, S))
        target = torch.randint(shape.target_vocabulary, (batch, T + 1))
        loops = []
        for model in (EncoderDecoder(shape), TheirEncoderDecoder(shape)):

            def loss(model: nn.Module = model, source: Tensor = source, target: Tensor = target) -> Tensor:
                return F.cross_entropy(model(source, target[:, :-1]).flatten(0, 1), target[:, 1:].flatten())

            loops.append(training_loop(model, loss, steps))
        compare(what, repeats, steps, "step", *loops)
    for what, batch, T, shape in (
        ("BERT 4×128, T 64", 12, 64, BertShape(4, 4, 128, 64, 4000)),
        ("BERT 6×256, T 128", 4, 128, BertShape(6, 4, 256, 128, 4000)),
    ):
        if quick:
            batch, shape = 2, BertShape(1, 2, 16, 128, 50)
        ids = torch.randint(shape.vocabulary, (batch, T))
        hidden, asked = mask_tokens(ids, torch.Generator().manual_seed(1), mask_id=1, vocabulary=shape.vocabulary)
        loops = []
        for model in (Bert(shape), TheirBert(shape)):

            def loss(model: nn.Module = model, hidden: Tensor = hidden, asked: Tensor = asked) -> Tensor:
                return F.cross_entropy(model(hidden).flatten(0, 1), asked.flatten())

            loops.append(training_loop(model, loss, steps))
        compare(what, repeats, steps, "step", *loops)


# Inspection.


def inspection(quick: bool, repeats: int) -> None:
    torch.manual_seed(0)
    steps = 1 if quick else 10
    V = 50 if quick else 4000
    D = 16 if quick else 128
    ids = torch.randint(V, (12, 65))
    gpt, bert = GPT(GPTShape(4, 4, D, 64, 256)), Bert(BertShape(4, 4, D, 64, V))
    pair = EncoderDecoder(EncoderDecoderShape(2, 2, 4, D, V, V, 32))

    bytes_, sentences = ids % 256, ids[:, :64].reshape(48, 16)
    losses: dict[str, tuple[nn.Module, Callable[[], Tensor], Work]] = {
        "GPT 4×128, T 64, batch 12": (
            gpt,
            lambda: F.cross_entropy(gpt(bytes_[:, :-1]).flatten(0, 1), bytes_[:, 1:].flatten()),
            lambda: run_with_cache(gpt, Text(tuple(bytes_[0, :64].tolist()))),
        ),
        "BERT 4×128, T 64, batch 12": (
            bert,
            lambda: F.cross_entropy(bert(ids[:, :64]).flatten(0, 1), ids[:, :64].flatten()),
            lambda: run_with_cache(bert, Text(tuple(ids[0, :64].tolist()))),
        ),
        "encoder–decoder 2+2×128, batch 48": (
            pair,
            lambda: F.cross_entropy(pair(sentences, sentences).flatten(0, 1), sentences.flatten()),
            lambda: run_with_cache(pair, Text(*(tuple(sentences[0].tolist()),) * 2)),
        ),
    }
    for what, (model, loss, looking) in losses.items():
        taken = turns(repeats, looking=looking, learning=training_loop(model, loss, steps))
        shares = [
            median(a[which] * steps / b[which] / 10 for a, b in zip(taken["looking"], taken["learning"], strict=True))
            for which in (0, 1)
        ]
        seen, learnt = (1e3 * median(wall for wall, _ in taken[name]) for name in ("looking", "learning"))
        print(
            f"{what:34} a look {seen:6.2f} ms, a step {learnt / steps:6.2f} ms; every 10 steps {shares[0]:.2%}, by "
            f"processor time {shares[1]:.2%}   (wanted: at most 2 %)"
        )


# Generation.


def copy_weights(theirs: nn.Module, ours: GPT) -> None:
    """Copy the weights of transformers' GPT-2 into ours; its Conv1D stores matrices as (in, out)."""
    its = {name.removeprefix("transformer."): value for name, value in theirs.state_dict().items()}
    names = {"embed.weight": "wte.weight", "positions.weight": "wpe.weight"}
    for kind in ("weight", "bias"):
        names[f"final_norm.{kind}"] = f"ln_f.{kind}"
        for layer in range(ours.shape.layers):
            for mine, other in {
                "attention_norm": "ln_1",
                "attention.qkv_proj": "attn.c_attn",
                "attention.out_proj": "attn.c_proj",
                "feed_forward_norm": "ln_2",
                "feed_forward.up_proj": "mlp.c_fc",
                "feed_forward.down_proj": "mlp.c_proj",
            }.items():
                names[f"blocks.{layer}.{mine}.{kind}"] = f"h.{layer}.{other}.{kind}"
    with torch.no_grad():
        for name, parameter in ours.named_parameters():
            value = its[names[name]]
            matrix = "attention." in name or "feed_forward." in name
            parameter.copy_(value.T if matrix and value.dim() == 2 else value)


def generation(quick: bool, repeats: int, tokens: int) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    N, H, D, V = (2, 2, 32, 100) if quick else (12, 12, 768, 50257)
    theirs = GPT2LMHeadModel(GPT2Config(n_layer=N, n_head=H, n_embd=D, vocab_size=V)).eval()
    ours = GPT(GPTShape(N, H, D, 1024, V, activation="gelu_tanh")).eval()
    copy_weights(theirs, ours)
    wide = {"max_new_tokens": tokens, "min_new_tokens": tokens, "do_sample": False, "use_cache": True}
    for read in (32, 512):
        prompt = torch.randint(V, (1, read))

        def their(prompt: Tensor = prompt) -> list[int]:
            with torch.no_grad():
                out = theirs.generate(prompt, attention_mask=torch.ones_like(prompt), pad_token_id=0, **wide)
            return out[0, prompt.shape[1] :].tolist()

        def our(prompt: Tensor = prompt) -> list[int]:
            return list(generate(ours, prompt[0].tolist(), tokens, generator=None, temperature=0))

        same = our() == their()
        print(f"after {read} tokens, {tokens} more: {'the same ids' if same else 'THE IDS DIFFER'}")
        compare(f"GPT-2 small, {read} + {tokens}", repeats, tokens, "token", our, their)


def cache(quick: bool, repeats: int) -> None:
    def appending(length: int, room: bool) -> Work:
        heads, K = 12, 64
        began = torch.zeros(1, heads, length, K)
        one = torch.zeros(1, heads, 1, K)

        def work() -> None:
            layers = [LayerCache(began, began) for _ in range(12)]
            for _ in range(20):
                for layer in layers:
                    if room:
                        layer.extend(one, one)
                    else:
                        layer.keys, layer.values = torch.cat((layer.keys, one), -2), torch.cat((layer.values, one), -2)

        return work

    for length in (64,) if quick else (64, 256, 900):
        compare(
            f"cache of {length}: cat : room", repeats, 20, "token", appending(length, True), appending(length, False)
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "parts", nargs="*", metavar="training|inspection|generation|cache", help="all, if none is named"
    )
    parser.add_argument("--quick", action="store_true", help="tiny shapes, two turns: does it run?")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--repeats", type=int, default=0, help="turns (9; 5 for generation)")
    parser.add_argument("--tokens", type=int, default=0, help="to generate (48)")
    asked = parser.parse_args()
    parts = asked.parts or ["training", "inspection", "generation", "cache"]
    torch.set_num_threads(asked.threads)
    print(f"torch {torch.__version__}, {asked.threads} threads")
    repeats = asked.repeats or (2 if asked.quick else 9)
    works: dict[str, Work] = {
        "training": lambda: training(asked.quick, repeats),
        "inspection": lambda: inspection(asked.quick, repeats),
        "generation": lambda: generation(
            asked.quick, asked.repeats or (2 if asked.quick else 5), asked.tokens or (4 if asked.quick else 48)
        ),
        "cache": lambda: cache(asked.quick, repeats),
    }
    for part in parts:
        if part not in works:
            parser.error(f"there is no part {part!r}; there are {', '.join(works)}")
    for part in parts:
        print(f"-- {part}")
        works[part]()


if __name__ == "__main__":
    main()
