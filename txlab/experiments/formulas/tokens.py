"""Examples of chapter K: tokens and word vectors."""

from __future__ import annotations

from math import exp, hypot, log1p
from operator import mul

import numpy as np
import torch

from txlab.engine.embeddings import objectives
from txlab.engine.embeddings.neighbours import analogy, cosine, unit
from txlab.engine.embeddings.vocabulary import Vocabulary
from txlab.engine.explain import Explaining, Explanation
from txlab.engine.tokenizers.bases import BYTES, Alphabet, Base
from txlab.engine.tokenizers.byte_pairs import BytePairTokenizer, passes
from txlab.engine.tokenizers.tokenizer import embedding_product, one_hot, unembedding, utf8
from txlab.engine.tokenizers.training import Ties, Trainer, count_chunks
from txlab.engine.tokenizers.trees import quote_label
from txlab.engine.transformer.variants import VARIANTS
from txlab.errors import LabError
from txlab.experiments.formulas.example import Example, Input, Misprint, Rows

LONGEST = 200  # characters of a text; its numbers still fit a screen


def short(name: str, text: str) -> str:
    """The text. LabError if it is empty or too long."""
    if not 1 <= len(text) <= LONGEST:
        raise LabError(f"{name} has {len(text)} characters; allowed: 1 to {LONGEST}")
    return text


# K1, K2: tokens


def tokens(text: str, base: str, alphabet: str) -> Explanation:
    """A text as bytes and as tokens of a base vocabulary, by `engine.tokenizers`."""
    vocabulary: Base = BYTES if base == "bytes" else Alphabet.of([alphabet])
    data = utf8(short("text", text))
    tokenizer = BytePairTokenizer([], base=vocabulary)
    ids = tokenizer.encode(text)
    why = Explaining("how many tokens does the text have?", len(ids))
    why.equation(
        "text → UTF-8 bytes → tokens → ids 0 … V − 1,  decode(encode(s)) = s", "K1", "RFC 3629; Becker-Kahn §1.1"
    )
    why.input("s", text, "the text")
    if base == "characters":
        why.input("alphabet", alphabet, "0 ends a word (the space), 1 a text, 2 to 17 spell bytes in base 16")
    why.step("code points", "", " ".join(f"U+{ord(each):04X}" for each in text))
    why.step("bytes a character", "", [len(utf8(each)) for each in text])
    why.step("bytes", "UTF-8", list(data))
    why.step("V", "tokens of the vocabulary", tokenizer.vocabulary)
    note = "" if base == "bytes" else "a character outside the alphabet takes two tokens a byte"
    why.step("ids", "encode(s)", ids, note)
    why.step("decode(ids)", "", tokenizer.decode(ids), "s again")
    why.step("tokens", "", len(ids))
    return why.result()


def byte_pairs(text: str, merges: int, ties: Ties, word: str) -> Explanation:
    """Merges learnt from a text, and a word encoded with them, by `engine.tokenizers.training`."""
    trainer = Trainer(count_chunks([short("text", text)]), ties=ties)
    learnt = [merge for _ in range(merges) if (merge := trainer.step()) is not None]
    tokenizer = trainer.tokenizer()
    symbols = list(utf8(short("word", word)))
    ids = tokenizer.encode_chunk(bytes(symbols))
    why = Explaining(f"how many tokens is {word!r}?", len(ids))
    why.equation("(x, y) = argmax count(x y),  x y → z,  until V tokens", "K2", "Sennrich et al. 2016, algorithm 1")
    why.input("text", text, "split into words, which no merge crosses")
    for n, merge in enumerate(learnt, 1):
        left, right = (quote_label(tokenizer.label(each)) for each in merge.pair)
        why.step(f"count {n}", f"{left} {right} → {merge.token}", merge.count, "the most frequent pair")
    if len(learnt) < merges:
        why.step("merges", "", len(learnt), "no pair occurs twice any more")
    why.step("V", "256 bytes + merges", tokenizer.vocabulary)
    why.step("bytes", f"of {word!r}", symbols)
    for n, (rank, now) in enumerate(passes(symbols, tokenizer.ranks, tokenizer.made), 1):
        why.step(f"pass {n}", f"merge {rank + 1}, of those possible the one learnt first", now)
    why.step("tokens", " ".join(quote_label(tokenizer.label(each)) for each in ids), len(ids))
    return why.result()


# K3: vectors of tokens


def embedding(token: int, to: int, we: Rows, wu: Rows, tied: str) -> Explanation:
    """The logit of a token after embedding and unembedding alone, by `engine.tokenizers.tokenizer`."""
    w_e = np.array(we).T  # (D, V)
    w_u = w_e.T if tied == "yes" else np.array(wu).T  # (V, D)
    t = one_hot([token - 1], w_e.shape[1])
    x = embedding_product(t, w_e)
    logits = unembedding(x, w_u)[0].tolist()
    why = Explaining(f"what is the logit of token {to} after token {token}?", logits[to - 1])
    why.equation("x = t W_E,  logits = x W_U,  tied: W_U = W_Eᵀ", "K3", "Press & Wolf 2017; Becker-Kahn §1.2")
    why.input("W_E", we, "(V, D), a row a token")
    why.input("W_U", w_u.T.tolist(), "(D, V), " + ("W_Eᵀ" if tied == "yes" else "a column a token"))
    why.step("t", f"one-hot: 1 at token {token}", t[0].tolist())
    why.step("x", "t W_E", x[0].tolist(), f"row {token} of W_E")
    why.step("logits", "x W_U", logits)
    column = w_u[to - 1].tolist()
    form = " + ".join(["{} · {}"] * len(column))
    pairs = [each for pair in zip(x[0].tolist(), column, strict=True) for each in pair]
    why.compute("logit", form, lambda *each: sum(map(mul, each[::2], each[1::2])), *pairs)
    return why.result()


# K4–K6: word vectors


def skip_gram(
    v: Rows, u: Rows, centres: list[int], contexts: list[int], word: int, everywhere: bool = False
) -> Explanation:
    """∂J/∂v of a word over the pairs of a text, by `engine.embeddings.objectives.softmax`."""
    table_v, table_u = torch.tensor(v, dtype=torch.float64), torch.tensor(u, dtype=torch.float64)
    h = table_v[[each - 1 for each in centres]]
    scored = objectives.softmax(h, table_u, torch.tensor(contexts) - 1)
    pulls = scored.hidden_gradient(table_u)
    counts = [everywhere or each == word for each in centres]
    gradient = (pulls * torch.tensor(counts)[:, None]).sum(0) / len(centres)
    why = Explaining(f"how long is the gradient by the vector of word {word}?", float(gradient.norm()))
    why.equation("∂J/∂v_c = (1/T) Σ (−u_o + Σ_w p(w | c) u_w),  p(w | c) = exp(u_w·v_c) / Σ exp(u_w′·v_c)", "K4",
                 "Mikolov et al. 2013a; Wang (5)–(9)")  # fmt: skip
    why.input("v", v, "of each word as a centre")
    why.input("u", u, "of each word as a context")
    why.input(
        "pairs", "  ".join(f"({c}, {o})" for c, o in zip(centres, contexts, strict=True)), "(centre c, context o)"
    )
    p = scored.errors.clone()
    p[range(len(centres)), [each - 1 for each in contexts]] += 1
    for n, (c, o) in enumerate(zip(centres, contexts, strict=True)):
        if counts[n]:
            why.step(f"scores {n + 1}", f"u · v of word {c}", (h[n] @ table_u.T).tolist())
            why.step(f"p {n + 1}", "exp(scores) / Σ exp(scores)", p[n].tolist(), f"the text has word {o} here")
            why.step(f"expected {n + 1}", "Σ_w p(w | c) u_w", (p[n] @ table_u).tolist())
            why.step(f"pull {n + 1}", f"−u of word {o} + expected", pulls[n].tolist())
    why.step("g", f"Σ / {len(centres)}", gradient.tolist(), "" if any(counts) else "the word is nowhere a centre")
    why.step("‖g‖", "√(g₁² + g₂²)", hypot(*gradient.tolist()))
    return why.result()


def skip_gram_everywhere(v: Rows, u: Rows, centres: list[int], contexts: list[int], word: int) -> Explanation:
    """The same with the pairs of all centres in the sum."""
    return skip_gram(v, u, centres, contexts, word, True)


def negative_sampling(
    v: list[float], u: Rows, o: int, noise: list[int], counts: list[int], threshold: float
) -> Explanation:
    """The loss of a pair and drawn words, by `engine.embeddings.objectives.negative_sampling`."""
    h, table = torch.tensor([v], dtype=torch.float64), torch.tensor(u, dtype=torch.float64)
    drawn = torch.tensor([noise]) - 1
    loss = float(objectives.negative_sampling(h, table, torch.tensor([o - 1]), drawn).loss)
    vocabulary = Vocabulary(tuple(map(str, range(len(counts)))), np.array(counts), sum(counts))
    why = Explaining("what is the loss of this pair?", loss)
    why.equation(
        "L = ln(1 + exp(−u_o·v)) + Σ ln(1 + exp(u_n·v)),  n ~ count^¾,  keep with √(t / f)", "K5",
        "Mikolov et al. 2013b; Wang (10)–(12)",
    )  # fmt: skip
    why.input("v", v, "of the centre")
    why.input("u", u, "of each word as a context")
    why.input("o", o, "the context in the text")
    why.input("n", noise, "words drawn as noise")
    why.input("count", counts, "occurrences of each word")
    why.input("t", threshold, "of thinning out frequent words")
    why.step("q", "count^¾ / Σ count^¾", vocabulary.noise().tolist(), "with which each word is drawn as noise")
    kept = vocabulary.keep_probability(threshold, "paper").tolist()
    why.step("keep", "min(1, √(t / f))", kept, "of the occurrences of each word")
    rows = [o, *noise]
    scores = (table[[each - 1 for each in rows]] @ h[0]).tolist()
    why.step("u·v", "of the context and of each noise word", scores)
    signs = [-1.0, *(float(each != o) for each in noise)]  # 0: a noise word that is the context is left out
    terms = [log1p(exp(sign * x)) if sign else 0.0 for sign, x in zip(signs, scores, strict=True)]
    why.step("losses", "ln(1 + exp(∓u·v))", terms, "" if all(signs) else "0: a noise word that is the context")
    why.compute("L", " + ".join(["{}"] * len(terms)), lambda *each: sum(each), *terms)
    return why.result()


WORDS = ("king", "queen", "man", "woman", "apple")


def related(vectors: Rows, a: str, b: str, c: str) -> Explanation:
    """a is to b as c is to …, by `engine.embeddings.neighbours.analogy`."""
    units = unit(np.array(vectors))
    one, other, third = (WORDS.index(each) for each in (b, a, c))
    [(answer, similarity)] = analogy(units, one, other, third, 1)
    why = Explaining(f"{a} is to {b} as {c} is to which word, and how near is it?", similarity)
    why.equation("cos(a, b) = a·b / (‖a‖ ‖b‖),  argmax_x cos(x, b − a + c)", "K6", "Mikolov, Yih & Zweig 2013; Wang §4")
    for word, vector in zip(WORDS, vectors, strict=True):
        why.input(word, vector)
    why.step("lengths", "‖x‖ of each word", [float(np.linalg.norm(each)) for each in vectors])
    why.step("units", "x / ‖x‖", units.tolist())
    query = units[one] - units[other] + units[third]
    why.step("b − a + c", f"{b} − {a} + {c}", query.tolist())
    left = [word for word in WORDS if word not in (a, b, c)]
    cosines = [cosine(units[WORDS.index(word)], query) for word in left]
    why.step("cos", f"with {', '.join(left)}", cosines, "the words of the question are left out")
    why.step("x", "argmax", WORDS[answer])
    why.step("cos(x)", f"of {WORDS[answer]}", similarity)
    return why.result()


THREE = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
GRADIENT = VARIANTS["gradient-over-all-centres"]
EXAMPLES = [
    Example(
        "K1",
        (
            Input("text", "naïve 😀", f"any text of up to {LONGEST} characters"),
            Input("base", "bytes", "the vocabulary", allowed=("bytes", "characters")),
            Input("alphabet", "aeinv", "characters that have a token of their own"),
        ),
        tokens,
        "How many tokens will the text have? Which characters take more than one?",
    ),
    Example(
        "K2",
        (
            Input("text", "low lower lowest new newer newest", "the text that is learnt from"),
            Input("merges", 4, "merges learnt", 0, 20, 1),
            Input("ties", "first", "which of equally frequent pairs is merged", allowed=("first", "greatest")),
            Input("word", "slowest", "a word to encode"),
        ),
        byte_pairs,
        "Which pair is merged first, and how many tokens will the word be?",
    ),
    Example(
        "K3",
        (
            Input("token", 3, "the token that is read", 1, 3, 1),
            Input("to", 1, "the token whose logit is asked for", 1, 3, 1),
            Input("we", [[1.0, 0.0], [0.0, 1.0], [2.0, -1.0]], "W_E, a row a token", -5, 5, 0.5),
            Input("wu", [[0.0, 1.0, 0.5], [1.0, 0.0, 0.5]], "W_U, a column a token", -5, 5, 0.5),
            Input("tied", "yes", "W_U = W_Eᵀ", allowed=("yes", "no")),
        ),
        embedding,
        "What is the logit, and which token has the largest one?",
    ),
    Example(
        "K4",
        (
            Input("v", [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]], "of each word as a centre", -5, 5, 0.25),
            Input("u", THREE, "of each word as a context", -5, 5, 0.25),
            Input("centres", [1, 2], "the centre of each pair of the text", 1, 3, 1),
            Input("contexts", [2, 3], "the context of each pair", 1, 3, 1),
            Input("word", 1, "the word whose v is moved", 1, 3, 1),
        ),
        skip_gram,
        "In which direction is v pulled, and how long is the gradient?",
        {"gradient-over-all-centres": Misprint(GRADIENT.says, skip_gram_everywhere, "g")},
    ),
    Example(
        "K5",
        (
            Input("v", [1.0, 0.5], "of the centre", -5, 5, 0.25),
            Input("u", THREE, "of each word as a context", -5, 5, 0.25),
            Input("o", 1, "the context in the text", 1, 3, 1),
            Input("noise", [2, 3], "the words drawn", 1, 3, 1),
            Input("counts", [80, 15, 5], "occurrences of each word", 1, 1000, 5),
            Input("threshold", 0.1, "t, of thinning out frequent words", 0.01, 1, 0.01),
        ),
        negative_sampling,
        "Which of the three words costs most, and how much do they cost together?",
    ),
    Example(
        "K6",
        (
            Input(
                "vectors",
                [[3.0, 1.0], [3.0, -1.0], [1.0, 1.0], [1.0, -1.0], [-1.0, 0.5]],
                f"of {', '.join(WORDS)}",
                -5,
                5,
                0.5,
            ),
            Input("a", "man", "a is to b …", allowed=WORDS),
            Input("b", "king", "", allowed=WORDS),
            Input("c", "woman", "… as c is to the answer", allowed=WORDS),
        ),
        related,
        "Which word is the answer, and how near to it does the sum end?",
    ),
]
