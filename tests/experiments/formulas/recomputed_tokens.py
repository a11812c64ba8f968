"""The examples of chapter K, computed with Python and NumPy alone."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np


def K1(text: str, base: str, alphabet: str, misprint: str) -> dict[str, Any]:
    letters = sorted(set(alphabet) - {" "})
    data, ids, size = text.encode(), list(text.encode()), 256
    if base == "characters":
        size, ids = 18 + len(letters), []
        for character in text:
            if character == " ":
                ids.append(0)
            elif character in letters:
                ids.append(18 + letters.index(character))
            else:
                ids += [2 + int(digit, 16) for digit in character.encode().hex()]
    return {
        "code points": " ".join("U+" + f"{ord(character):x}".upper().zfill(4) for character in text),
        "bytes a character": [len(character.encode()) for character in text],
        "bytes": list(data),
        "V": size,
        "ids": ids,
        "decode(ids)": text,
        "tokens": len(ids),
    }


def merged(symbols: list[int], pair: tuple[int, int], token: int) -> list[int]:
    found: list[int] = []
    at = 0
    while at < len(symbols):
        hit = tuple(symbols[at : at + 2]) == pair
        found.append(token if hit else symbols[at])
        at += 2 if hit else 1
    return found


def K2(text: str, merges: int, ties: str, word: str, misprint: str) -> dict[str, Any]:
    words = [list(each.encode()) for each in re.findall(r" ?[a-z]+", text)]
    spelt = {byte: bytes([byte]) for byte in range(256)}
    learnt: list[tuple[int, int]] = []
    found: dict[str, Any] = {}
    for n in range(merges):
        counts = Counter(pair for each in words for pair in pairwise(each))
        most = max(counts.values())
        if most < 2:
            found["merges"] = n
            break
        equal = [pair for pair, count in counts.items() if count == most]
        best = min(equal) if ties == "first" else max(equal, key=lambda pair: (spelt[pair[0]], spelt[pair[1]]))
        words = [merged(each, best, 256 + n) for each in words]
        spelt[256 + n] = spelt[best[0]] + spelt[best[1]]
        learnt.append(best)
        found[f"count {n + 1}"] = most
    symbols = list(word.encode())
    found |= {"V": 256 + len(learnt), "bytes": symbols}
    passed = 0
    for rank, pair in enumerate(learnt):  # each merge is made from parts that were learnt before it
        while pair in pairwise(symbols):
            place = list(pairwise(symbols)).index(pair)
            symbols = [*symbols[:place], 256 + rank, *symbols[place + 2 :]]
            passed += 1
            found[f"pass {passed}"] = symbols
    return {**found, "tokens": len(symbols)}


def K3(token: int, to: int, we: Any, wu: Any, tied: str, misprint: str) -> dict[str, Any]:
    we = np.array(we)
    wu = we.T if tied == "yes" else np.array(wu)
    t = np.eye(3)[token - 1]
    return {"t": t, "x": we[token - 1], "logits": we[token - 1] @ wu, "logit": (t @ we @ wu)[to - 1]}


def K4(v: Any, u: Any, centres: Any, contexts: Any, word: int, misprint: str) -> dict[str, Any]:
    v, u = np.array(v), np.array(u)
    g, found = np.zeros(2), {}
    for n, (c, o) in enumerate(zip(centres, contexts, strict=True), 1):
        scores = u @ v[c - 1]
        p = np.exp(scores) / np.exp(scores).sum()
        pull = p @ u - u[o - 1]
        found |= {f"scores {n}": scores, f"p {n}": p, f"expected {n}": p @ u, f"pull {n}": pull}
        if misprint or c == word:
            g += pull / len(centres)
    return {**found, "g": g, "‖g‖": np.hypot(*g)}


def K5(v: Any, u: Any, o: int, noise: Any, counts: Any, threshold: float, misprint: str) -> dict[str, Any]:
    counts = np.array(counts)
    scores = np.array([np.dot(u[each - 1], v) for each in (o, *noise)])
    losses = [-np.log(1 / (1 + np.exp(-scores[0])))]
    losses += [0.0 if n == o else -np.log(1 - 1 / (1 + np.exp(-x))) for n, x in zip(noise, scores[1:], strict=True)]
    return {
        "q": counts**0.75 / (counts**0.75).sum(),
        "keep": np.minimum(1, np.sqrt(threshold * counts.sum() / counts)),
        "u·v": scores,
        "losses": losses,
        "L": sum(losses),
    }


def K6(vectors: Any, a: str, b: str, c: str, misprint: str) -> dict[str, Any]:
    words = ["king", "queen", "man", "woman", "apple"]
    x = np.array(vectors)
    lengths = np.sqrt((x**2).sum(1))
    units = x / lengths[:, None]
    query = units[words.index(b)] - units[words.index(a)] + units[words.index(c)]
    left = [word for word in words if word not in (a, b, c)]
    cosines = [float(units[words.index(word)] @ query / np.sqrt(query @ query)) for word in left]
    return {
        "lengths": lengths, "units": units, "b − a + c": query, "cos": cosines,
        "x": left[int(np.argmax(cosines))], "cos(x)": max(cosines),
    }  # fmt: skip
