"""The generated pairs: what they say is right, one source has one translation, and what is tested was never learnt."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from itertools import islice

import numpy as np
import pytest

from txlab.errors import LabError
from txlab.experiments.kinds.translation import dates, language, lexicon
from txlab.experiments.kinds.translation.data import NOT_SCORED, PairData
from txlab.experiments.kinds.translation.experiment import EXAMPLES
from txlab.experiments.kinds.translation.pairs import Pair, draw_pairs, is_held_out, split_pairs
from txlab.experiments.kinds.translation.schema import TranslationScenario
from txlab.experiments.kinds.translation.tokens import END, PAD, START, tokenizers_for

VERBS = lexicon.TRANSITIVE + lexicon.INTRANSITIVE
NOUNS = lexicon.BEINGS + lexicon.THINGS + lexicon.PLACES


class Reader:
    """A translator that reads the English sentence from left to right, and knows nothing of how it was made."""

    def __init__(self, words: list[str]) -> None:
        self.words = words

    def next_is(self, *kinds: object) -> bool:
        return bool(self.words) and any(self.words[0] in kind for kind in kinds)  # type: ignore[operator]

    def phrase(self, case: str) -> tuple[list[str], str]:
        """article adjective* noun → (tokens, "gender and number")."""
        article, adjectives = self.words.pop(0), []
        while self.next_is(lexicon.ADJECTIVES):
            adjectives.append(lexicon.ADJECTIVES[self.words.pop(0)])
        word = self.words.pop(0)
        noun = next(noun for noun in NOUNS if word in (noun.one, noun.many))
        agreeing = noun.gender + ("i" if word == noun.many else "")
        assert article in (("the", "some") if word == noun.many else ("the", "a", "an"))
        tokens = [("d" if article == "the" else "n") + agreeing, noun.stem, f"-{agreeing}{case}"]
        for adjective in adjectives:
            tokens += [adjective, f"-{agreeing}{case}"]
        return tokens, agreeing

    def clause(self, agreeing: str, case: str) -> list[str]:
        if not self.next_is(["that"]):
            return []
        self.words.pop(0)
        verb, tense = self.verb(agreeing)
        described, _ = self.phrase("n")
        return [*described, verb.stem, {"-u": "-en", "-ot": "-et"}[tense], f"-{agreeing}{case}"]

    def verb(self, agreeing: str) -> tuple[lexicon.Verb, str]:
        word = self.words.pop(0)
        if word == "will":
            word = self.words.pop(0)
            return next(verb for verb in VERBS if verb.base == word), "-ish"
        verb = next(verb for verb in VERBS if word in (verb.base, verb.third, verb.past))
        assert word != (verb.third if agreeing.endswith("i") else verb.base)  # English agrees too
        return verb, "-ot" if word == verb.past else "-u"

    def translation(self) -> list[str]:
        subject, agreeing = self.phrase("")
        subject = self.clause(agreeing, "") + subject
        verb, tense = self.verb(agreeing)
        acted: list[str] = []
        if self.words and self.words[0] in ("the", "a", "an", "some"):
            acted, number = self.phrase("n")
            acted = self.clause(number, "n") + acted
        place: list[str] = []
        if self.next_is(lexicon.PREPOSITIONS):
            preposition = lexicon.PREPOSITIONS[self.words.pop(0)]
            place = [*self.phrase("s")[0], preposition]
        adverb = [lexicon.ADVERBS[self.words.pop(0)]] if self.words else []
        assert not self.words
        return [*place, *subject, *acted, *adverb, verb.stem, tense, f"-{agreeing}k"]


def some(make: object, count: int, seed: int = 3) -> list[Pair]:
    return list(islice(draw_pairs(make, seed), count))  # type: ignore[arg-type]


def test_every_sentence_is_translated_as_a_reader_of_english_would() -> None:
    for pair in some(language.pair, 3000):
        assert list(pair.target) == Reader(list(pair.source)).translation(), " ".join(pair.source)


def test_the_written_out_example_is_what_the_grammar_says() -> None:
    _, tokenizer = tokenizers_for(TranslationScenario().data.task, shared=False)
    english, veshal = (line.strip() for line in (language.__doc__ or "").splitlines()[2:4])
    assert tokenizer.decode(tokenizer.ids(Reader(english.split()).translation())) == veshal
    english, veshal = EXAMPLES["language"]
    assert tokenizer.decode(tokenizer.ids(Reader(english.split()).translation())) == veshal


def test_sentences_have_five_to_fifteen_words_of_every_kind() -> None:
    pairs = some(language.pair, 6000)
    assert {len(pair.source) for pair in pairs} == set(range(5, 16))
    assert {word for pair in pairs for word in pair.source} == set(language.english_words())
    assert {token for pair in pairs for token in pair.target} == set(language.veshal_tokens())
    assert sum("that" in pair.source for pair in pairs) > 1500
    assert sum(bool(set(pair.source) & set(lexicon.PREPOSITIONS)) for pair in pairs) > 1500


def test_no_word_has_two_meanings() -> None:
    english = [form for noun in NOUNS for form in (noun.one, noun.many)]
    english += [form for verb in VERBS for form in (verb.base, verb.third, verb.past)]
    english += [*lexicon.ADJECTIVES, *lexicon.PREPOSITIONS, *lexicon.ADVERBS]
    veshal = [word.stem for word in (*NOUNS, *VERBS)]
    veshal += [*lexicon.ADJECTIVES.values(), *lexicon.PREPOSITIONS.values(), *lexicon.ADVERBS.values()]
    assert [word for word, times in Counter(english).items() if times > 1] == []
    assert [word for word, times in Counter(veshal).items() if times > 1] == []
    assert set(language.english_words()).isdisjoint(language.veshal_tokens())


def read(text: str) -> datetime:
    """Any of the formats, by the standard library."""
    for ordinal in ("st", "nd", "rd", "th"):
        text = text.replace(f"{ordinal} of", " of")
    forms = ("%d %B %Y", "%B %d, %Y", "%a %d %b %Y", "the %d of %B %Y", "%m/%d/%Y", "%d.%m.%Y", "%Y%m%d")
    for form in forms:
        try:
            return datetime.strptime(text, form)
        except ValueError:
            pass
    found = datetime.strptime(text, "%d-%b-%y")
    return found.replace(year=2069) if found.year == 1969 else found  # POSIX turns the century a year earlier


def test_every_date_is_what_the_standard_library_reads() -> None:
    pairs = some(dates.pair, 4000)
    for pair in pairs:
        assert "".join(pair.target) == read("".join(pair.source)).date().isoformat(), "".join(pair.source)
    assert len(dates.FORMATS) == 8
    years = {int("".join(pair.target)[:4]) for pair in pairs}
    assert years == set(range(1970, 2070))
    assert {character for pair in pairs for character in pair.source} == set(dates.source_characters())


def test_the_day_of_the_week_is_right() -> None:
    for pair in some(dates.pair, 2000):
        if (day := "".join(pair.source)[:3]) in dates.DAYS:
            assert read("".join(pair.source)).strftime("%a") == day


@pytest.mark.parametrize("make", [language.pair, dates.pair])
def test_what_is_tested_is_never_learnt_under_any_seed(make: object) -> None:
    tested = set()
    learnt = set()
    for seed in (1, 2):
        training, unseen = split_pairs(make, seed, 3000, 300)  # type: ignore[arg-type]
        assert (len(set(training)), len(set(unseen))) == (3000, 300)
        learnt |= {pair.target for pair in training}
        tested |= {pair.target for pair in unseen}
    assert learnt.isdisjoint(tested)
    assert all(is_held_out(target) for target in tested)


def test_fewer_pairs_are_the_first_of_more() -> None:
    few, many = split_pairs(language.pair, 5, 50, 10), split_pairs(language.pair, 5, 6000, 40)
    assert few[0] == many[0][:50]
    assert few[1] == many[1][:10]
    assert split_pairs(language.pair, 6, 50, 10)[0] != few[0]


def test_a_tenth_of_all_translations_is_held_out() -> None:
    share = sum(is_held_out(pair.target) for pair in some(language.pair, 8000)) / 8000
    assert share == pytest.approx(0.1, abs=0.012)


def test_more_pairs_than_there_are_is_a_readable_error() -> None:
    def few(draws: object) -> Pair:
        return Pair((str(draws.number(0, 20)),), (str(draws.number(0, 3)),))  # type: ignore[attr-defined]

    with pytest.raises(LabError, match="asks for more pairs than there are"):
        split_pairs(few, 1, 1000, 1)


# Tokens and batches


def scenario(task: str = "language", **train: int) -> TranslationScenario:
    return TranslationScenario.model_validate(
        {
            "data": {"task": task, "pairs": 900},
            "train": {"batch": 16, "validation_batches": 3, **train},
        }
    )


@pytest.mark.parametrize("task", ["language", "dates"])
@pytest.mark.parametrize("shared", [False, True])
def test_texts_come_back_from_their_tokens(task: str, shared: bool) -> None:
    source, target = tokenizers_for(scenario(task).data.task, shared)
    for text, translated in (EXAMPLES[task],):
        assert source.decode([START, *source.encode(text), END, PAD]) == text
        assert target.decode(target.encode(translated)) == translated
        assert all(source.label(token) for token in range(source.vocabulary))
    assert (source == target) == shared


def test_an_unknown_word_is_refused_with_the_nearest() -> None:
    source, _ = tokenizers_for(scenario().data.task, shared=False)
    with pytest.raises(LabError, match=r"'rivver' is not known.*river"):
        source.encode("the rivver")


def test_a_batch_follows_from_seed_and_step_alone() -> None:
    one, other = PairData(scenario()), PairData(scenario())
    later = other.train_batch(7)
    one.train_batch(3)
    assert one.train_batch(7).source.equal(later.source)
    assert one.train_batch(7).targets.equal(later.targets)
    assert not one.train_batch(8).source.equal(later.source)


def test_batches_hold_training_pairs_shifted_by_one_and_little_padding() -> None:
    data = PairData(scenario(pairs := "language"))
    assert pairs == data.task
    known = {(tuple(source), tuple(target)) for source, target in data.train}
    seen: Counter[tuple[tuple[int, ...], tuple[int, ...]]] = Counter()
    padding = 0
    for step in range(400):
        batch = data.train_batch(step)
        for source, length, inputs, targets in zip(
            batch.source.tolist(), batch.lengths, batch.inputs.tolist(), batch.targets.tolist(), strict=True
        ):
            assert source[length - 1] == END
            assert set(source[length:]) <= {PAD}
            wanted = [token for token in targets if token != NOT_SCORED]
            assert wanted[-1] == END
            assert inputs[: len(wanted)] == [START, *wanted[:-1]]
            seen[tuple(source[: length - 1]), tuple(wanted[:-1])] += 1
            padding += len(source) - length
    assert set(seen) == known  # every pair has its turn
    assert padding / sum(seen.values()) < 1.0
    counts = np.array(list(seen.values()))
    assert counts.var() == pytest.approx(counts.mean(), rel=0.35)  # as often as each other: Poisson


def test_a_context_that_is_too_short_is_refused() -> None:
    settings = scenario().model_copy(update={"model": scenario().model.model_copy(update={"context": 12})})
    with pytest.raises(LabError, match=r"model.context = 12 is too short: .* at least 2\d"):
        PairData(settings)
