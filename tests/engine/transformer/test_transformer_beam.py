"""Writing until the end, side by side or in a beam, against writing each alone and against every text there is."""

from collections.abc import Collection
from itertools import product
from math import inf

import pytest
import torch

from txlab.engine.transformer.beam import beam_search, length_penalty
from txlab.engine.transformer.encoder_decoder import EncoderDecoder, EncoderDecoderShape
from txlab.engine.transformer.generation import FREE, forbid, generate, generate_batch, generate_target
from txlab.engine.transformer.gpt import GPT, GPTShape
from txlab.errors import LabError

V, END, START = 5, 0, 4
PROMPTS = [[1, 2, 3], [3], [2, 2, 1, 3, 1, 2], [1, 1]]
SOURCES = [[1, 2, 3], [3], [2, 2, 1, 3, 1, 2], [1, 1]]


def randomised(model: torch.nn.Module, seed: int) -> torch.nn.Module:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            gain = parameter.dim() == 1 and name.endswith("weight")
            parameter.normal_(float(gain), 0.2 if parameter.dim() == 1 else 0.6, generator=generator)
    return model.double().eval()


def gpt(seed: int = 1, positions: str = "learned", context: int = 8, vocabulary: int = V) -> GPT:
    return randomised(GPT(GPTShape(2, 2, 8, context, vocabulary, positions=positions)), seed)


def translator(seed: int = 1, positions: str = "sinusoidal", context: int = 9) -> EncoderDecoder:
    return randomised(
        EncoderDecoder(EncoderDecoderShape(1, 1, 2, 8, V, V, context, positions=positions, tied=False)), seed
    )


@pytest.mark.parametrize("how", ["likeliest", "drawn", "batch", "beam"])
@pytest.mark.parametrize(
    ("weights", "never", "why"),
    [(1.0, range(V), "every token is forbidden here"), (3e307, (), "the scores of the next token are not finite")],
)
def test_where_no_token_can_follow_a_sentence_says_why(
    how: str, weights: float, never: Collection[int], why: str
) -> None:
    model = gpt()
    with torch.no_grad():
        model.embed.weight.mul_(weights)
    draw = torch.Generator().manual_seed(1)
    ways = {
        "likeliest": lambda: list(generate(model, [1], 3, generator=None, temperature=0.0, never=never)),
        "drawn": lambda: list(generate(model, [1], 3, generator=draw, never=never)),
        "batch": lambda: generate_batch(model, [[1], [2]], 3, generator=draw, never=never),
        "beam": lambda: beam_search(model, [1], 3, beams=2, never=never),
    }
    with pytest.raises(LabError, match=why):
        ways[how]()


def log_probabilities(model: GPT | EncoderDecoder, given: list[int], texts: list[list[int]]) -> list[float]:
    """Σ log p(token | those before) of each text, by reading everything at once; what is past an end is not counted."""
    T = max(map(len, texts))
    padded = torch.tensor([text + [0] * (T - len(text)) for text in texts])
    if isinstance(model, GPT):
        rows = model(torch.cat((torch.tensor([given] * len(texts)), padded), 1), "matmul")[:, len(given) - 1 : -1]
    else:
        starts = padded.new_full((len(texts), 1), START)
        rows = model(torch.tensor([given] * len(texts)), torch.cat((starts, padded[:, :-1]), 1), "matmul")
    terms = rows.detach().log_softmax(-1).gather(-1, padded[..., None])[..., 0]
    return [float(row[: len(text)].sum()) for row, text in zip(terms, texts, strict=True)]


def every_text(longest: int, end: int | None) -> list[list[int]]:
    """All that can be written: up to the end, or as long as may be."""
    found = []
    for length in range(1, longest + 1):
        for text in product(range(V), repeat=length):
            ended = text[-1] == end
            if end not in text[:-1] and (ended or length == longest):
                found.append(list(text))
    return found


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary"])
@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("end", [None, END])
def test_texts_side_by_side_are_continued_as_each_alone(positions: str, cached: bool, end: int | None) -> None:
    """Also past the context, where each text's window falls forward at a time of its own."""
    model = gpt(3, positions)
    together = generate_batch(model, PROMPTS, 20, generator=None, temperature=0, end=end, cached=cached)
    for prompt, text in zip(PROMPTS, together, strict=True):
        alone = list(generate(model, prompt, 20, generator=None, temperature=0, end=end, cached=False))
        assert text == alone
        assert text[-1] == END or len(text) == 20


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary"])
@pytest.mark.parametrize("cached", [True, False])
def test_a_target_is_the_likeliest_token_after_another_until_the_end(positions: str, cached: bool) -> None:
    lengths = set()
    for seed in range(8):
        model = translator(seed, positions)
        together = generate_target(model, SOURCES, 8, start=START, end=END, cached=cached)
        for source, text in zip(SOURCES, together, strict=True):
            by_hand: list[int] = []
            while len(by_hand) < 8 and END not in by_hand:
                by_hand.append(int(model(torch.tensor([source]), torch.tensor([[START, *by_hand]]))[0, -1].argmax()))
            assert text == by_hand
            lengths.add(len(text))
    assert len(lengths) > 2  # some ended early, and left the others to themselves


def test_drawn_targets_follow_the_model_and_the_generator_alone() -> None:
    model = translator(2)
    draw = lambda seed: generate_target(  # noqa: E731
        model, [[1, 2]] * 4000, 1, start=START, end=END, temperature=1.0, generator=torch.Generator().manual_seed(seed)
    )
    drawn = draw(1)
    assert drawn == draw(1)
    assert drawn != draw(2)
    wanted = model(torch.tensor([[1, 2]]), torch.tensor([[START]]))[0, -1].softmax(-1)
    counts = torch.tensor([token for (token,) in drawn]).bincount(minlength=V) / 4000
    torch.testing.assert_close(counts.double(), wanted.detach(), atol=0.04, rtol=0)


@pytest.mark.parametrize("kind", ["gpt", "encoder-decoder"])
def test_a_beam_of_one_is_greedy(kind: str) -> None:
    for seed in range(12):
        if kind == "gpt":
            model = gpt(seed)
            greedy = list(generate(model, [1, 2], 6, generator=None, temperature=0, end=END))
            ((found, value, _),) = beam_search(model, [1, 2], 6, beams=1, end=END, alpha=0.7)
        else:
            model = translator(seed)
            (greedy,) = generate_target(model, [[1, 2]], 6, start=START, end=END)
            ((found, value, _),) = beam_search(model, [1, 2], 6, beams=1, end=END, start=START, alpha=0.7)
        assert found == greedy
        assert [value] == pytest.approx(log_probabilities(model, [1, 2], [found]), abs=1e-10)


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("end", [None, END])
@pytest.mark.parametrize(("alpha", "penalty"), [(0.0, "wu"), (0.6, "wu"), (1.0, "power")])
def test_a_beam_as_wide_as_all_texts_finds_the_best_of_them(
    cached: bool, end: int | None, alpha: float, penalty: str
) -> None:
    for kind, seed in (("gpt", 5), ("encoder-decoder", 6)):
        model = gpt(seed) if kind == "gpt" else translator(seed)
        start = None if kind == "gpt" else START
        texts = every_text(4, end)
        values = log_probabilities(model, [1, 2], texts)
        by_score = sorted(
            zip(texts, values, strict=True), key=lambda tv: -tv[1] / length_penalty(len(tv[0]), alpha, penalty)
        )
        found = beam_search(
            model, [1, 2], 4, beams=len(texts), end=end, start=start, alpha=alpha, penalty=penalty, cached=cached
        )
        assert [text for text, *_ in found[:20]] == [text for text, _ in by_score[:20]]
        assert [value for _, value, _ in found[:20]] == pytest.approx([value for _, value in by_score[:20]], abs=1e-10)
        assert len(found) == len(texts)


def test_a_wider_beam_finds_what_greed_passes_by() -> None:
    better = 0
    for seed in range(20):
        model = translator(seed)
        (narrow,) = beam_search(model, [3, 1], 5, beams=1, end=END, start=START)
        wide = beam_search(model, [3, 1], 5, beams=3, end=END, start=START, early_stopping="never")
        values = log_probabilities(model, [3, 1], [text for text, *_ in wide])
        assert [value for _, value, _ in wide] == pytest.approx(values, abs=1e-10)
        assert values == sorted(values, reverse=True)
        better += wide[0][1] > narrow[1] + 1e-9
    assert better >= 3


def plain_beam(
    model: EncoderDecoder, given: list[int], tokens: int, beams: int, alpha: float, patient: bool
) -> list[list[int]]:
    """The search as it is described, over whole texts read anew each time; the patient one never stops early."""
    alive: list[list[int]] = [[]]
    ended: list[list[int]] = []
    for _ in range(tokens):
        texts = [[*text, token] for text in alive for token in range(V)]
        ranked = [text for _, text in sorted(zip(log_probabilities(model, given, texts), texts, strict=True))[::-1]]
        ended += [text for text in ranked[:beams] if text[-1] == END]
        alive = [text for text in ranked if text[-1] != END][:beams]
        if len(ended) >= beams and not patient:
            alive = []
            break
    found = [*ended, *alive]
    values = log_probabilities(model, given, found)
    scores = [value / length_penalty(len(text), alpha) for value, text in zip(values, found, strict=True)]
    return [text for _, text in sorted(zip(scores, found, strict=True))[::-1][:beams]]


@pytest.mark.parametrize("patient", [False, True])
@pytest.mark.parametrize("beams", [2, 3])
def test_a_beam_keeps_ends_and_stops_as_it_says(beams: int, patient: bool) -> None:
    for seed in range(30):
        model = translator(seed)
        with torch.no_grad():
            model.unembed.weight[END] /= 4  # so that ends come often, at all ranks
            model.decoder.blocks[-1].feed_forward_norm.bias.add_(model.unembed.weight[END], alpha=4.0)
        for alpha in (0.0, 1.0):
            early = "never" if patient else True
            found = beam_search(model, [3, 1], 6, beams=beams, end=END, start=START, alpha=alpha, early_stopping=early)
            assert [text for text, *_ in found] == plain_beam(model, [3, 1], 6, beams, alpha, patient)


def test_a_patient_beam_never_ends_with_less() -> None:
    for seed in range(20):
        model = translator(seed)
        for alpha in (0.0, 1.0):
            hasty, patient = (
                beam_search(model, [2], 8, beams=2, end=END, start=START, alpha=alpha, early_stopping=early)[0]
                for early in (True, "never")
            )
            scores = [value / length_penalty(len(text), alpha) for text, value, _ in (hasty, patient)]
            assert scores[1] >= scores[0] - 1e-12


@pytest.mark.parametrize("alpha", [-1.0, 0.5, 1.0])
def test_a_search_that_never_stops_early_stops_where_nothing_alive_could_still_win(alpha: float) -> None:
    """Against the same search with all its steps: the largest divisor that is still ahead decides, not the smallest."""
    stopped = 0
    for seed in range(25):
        model = gpt(seed, context=16)
        with torch.no_grad():
            model.embed.weight[END] *= 1.5
        steps = 0

        class Counted(type(FREE)):
            def __call__(self, *given: object) -> torch.Tensor:
                nonlocal steps
                steps += 1
                return super().__call__(*given)

        texts = every_beam(model, [1, 2], 9, 2, alpha)
        found = beam_search(
            model, [1, 2], 9, beams=2, end=END, alpha=alpha, penalty="power", early_stopping="never", rules=Counted()
        )
        assert [text for text, *_ in found] == texts
        stopped += steps < 9
    assert stopped  # or nothing was tested


def every_beam(model: GPT, given: list[int], tokens: int, beams: int, alpha: float) -> list[list[int]]:
    """The beams of all steps, each text read anew, and no stopping."""
    alive: list[list[int]] = [[]]
    done: list[tuple[float, list[int]]] = []
    for length in range(1, tokens + 1):
        texts = [[*text, token] for text in alive for token in range(V)]
        ranked = sorted(zip(log_probabilities(model, given, texts), texts, strict=True), reverse=True)
        ends = [(value, text) for value, text in ranked[:beams] if text[-1] == END or length == tokens]
        done += [(value / length**alpha, text) for value, text in ends]
        alive = [text for _, text in ranked if text[-1] != END][:beams]
    return [text for _, text in sorted(done, reverse=True)[:beams]]


def test_one_beam_is_greedy_until_it_looks_beyond_its_first_end() -> None:
    beyond = 0
    for seed in range(40):
        model = translator(seed)
        (greedy,) = generate_target(model, [[1, 2]], 6, start=START, end=END)
        for early in (True, False, "never"):
            ((found, *_),) = beam_search(model, [1, 2], 6, beams=1, end=END, start=START, early_stopping=early)
            assert found == greedy  # a sum of logarithms only falls, so nothing after the first end is better
        ((found, _, score),) = beam_search(
            model, [1, 2], 6, beams=1, end=END, start=START, alpha=1.0, penalty="power", early_stopping="never"
        )
        assert score >= log_probabilities(model, [1, 2], [greedy])[0] / len(greedy) - 1e-12
        beyond += found != greedy
    assert beyond


def test_forbidden_tokens_are_not_part_of_a_log_probability() -> None:
    """The model gives what is forbidden its share; the others do not share it out."""
    for seed in range(6):
        for model, start in ((gpt(seed), None), (translator(seed), START)):
            found = beam_search(model, [1, 2], 5, beams=3, end=END, start=start, never=(3,))
            values = log_probabilities(model, [1, 2], [text for text, *_ in found])
            assert [value for _, value, _ in found] == pytest.approx(values, abs=1e-10)
            allowed = [text for text in every_text(5, END) if 3 not in text]
            best = beam_search(model, [1, 2], 5, beams=len(allowed), end=END, start=start, never=(3,))[0]
            assert best.logp == pytest.approx(max(log_probabilities(model, [1, 2], allowed)), abs=1e-10)


@pytest.mark.parametrize("cached", [True, False])
def test_each_of_several_ends_ends_a_text(cached: bool) -> None:
    last = set()
    for seed in range(8):
        model = gpt(seed)
        together = generate_batch(model, PROMPTS, 20, generator=None, temperature=0, end=(END, 3), cached=cached)
        for prompt, text in zip(PROMPTS, together, strict=True):
            free = list(generate(model, prompt, 20, generator=None, temperature=0, cached=cached))
            stop = next((at for at, token in enumerate(free) if token in (END, 3)), 19)
            assert text == free[: stop + 1]
            assert text == list(generate(model, prompt, 20, generator=None, temperature=0, end=[3, END], cached=cached))
            last.add(text[-1])
        (target,) = generate_target(translator(seed), [[1, 2]], 8, start=START, end=(END, 3), cached=cached)
        assert not {END, 3} & set(target[:-1])
        for text, *_ in beam_search(model, [1, 2], 6, beams=4, end=(END, 3), cached=cached):
            assert not {END, 3} & set(text[:-1])
    assert {END, 3} <= last


def test_the_penalties_are_the_published_ones() -> None:
    assert length_penalty(7, 0.0) == 1
    assert length_penalty(7, 0.6) == pytest.approx((12 / 6) ** 0.6)
    assert length_penalty(7, 1.0, "power") == 7


def test_what_must_not_be_written_is_not() -> None:
    model = gpt(1)
    free = [token for text in generate_batch(model, PROMPTS, 6, generator=None, temperature=0) for token in text]
    often = max(set(free), key=free.count)
    bound = generate_batch(model, PROMPTS, 6, generator=None, temperature=0, never=(often,))
    assert all(often not in text for text in bound)
    assert forbid(torch.zeros(2, 3), (1,)).tolist() == [[0, -inf, 0]] * 2
    assert all(often not in text for text, *_ in beam_search(model, [1], 3, beams=99, never=(often,)))
    assert len(beam_search(model, [1], 3, beams=999, never=(often,))) == (V - 1) ** 3


def test_what_cannot_be_written_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="start token"):
        beam_search(translator(), [1], 3)
    with pytest.raises(ValueError, match="must be at least 1, not 0"):
        beam_search(gpt(), [1], 3, beams=0)
    with pytest.raises(ValueError, match="source has no tokens"):
        generate_target(translator(), [[1], []], 3, start=START, end=END)
    with pytest.raises(ValueError, match="prompt has no tokens"):
        generate_batch(gpt(), [[1], []], 3, generator=None)
    assert len(generate_target(translator(context=4), [[1]], 50, start=START, end=None)[0]) == 4
