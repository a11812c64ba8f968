"""The sentences of each language are the same ones, and are written in the script that they claim."""

from __future__ import annotations

import unicodedata

import pytest

from txlab.experiments.sentences import Language, languages

# How Unicode's names of the characters of a script begin.
BEGINNINGS = {
    "Latin": ("LATIN",),
    "Cyrillic": ("CYRILLIC",),
    "Greek": ("GREEK",),
    "Arabic": ("ARABIC",),
    "Hebrew": ("HEBREW",),
    "Devanagari": ("DEVANAGARI",),
    "Bengali": ("BENGALI",),
    "Tamil": ("TAMIL",),
    "Telugu": ("TELUGU",),
    "Thai": ("THAI",),
    "Georgian": ("GEORGIAN",),
    "Armenian": ("ARMENIAN",),
    "Ethiopic": ("ETHIOPIC",),
    "Han": ("CJK",),
    "Japanese": ("CJK", "HIRAGANA", "KATAKANA"),
    "Hangul": ("HANGUL",),
}
# Punctuation that several scripts share: a comma of Chinese is no letter of it.
SHARED = set("\n .,?!;’،؟।՞։።、。？¿\u200c")


def strangers(text: str, script: str) -> set[str]:
    """The characters that belong neither to the script nor to the shared punctuation."""
    return {c for c in text if c not in SHARED and not unicodedata.name(c, "").startswith(BEGINNINGS[script])}


def test_there_are_at_least_a_dozen_scripts_and_eighteen_languages_each_named_once() -> None:
    names = [language.name for language in languages()]
    assert len(names) == len(set(names)) >= 18
    assert len({language.script for language in languages()}) >= 12
    assert names[0] == "English"


@pytest.mark.parametrize("language", languages(), ids=lambda language: language.name)
class TestEachLanguage:
    def test_says_the_same_number_of_sentences(self, language: Language) -> None:
        assert len(language.sentences) == len(languages()[0].sentences) == 8
        assert len(set(language.sentences)) == 8

    def test_is_composed(self, language: Language) -> None:
        assert unicodedata.is_normalized("NFC", language.text)

    def test_is_in_its_script(self, language: Language) -> None:
        assert not strangers(language.text, language.script)

    def test_has_no_space_at_the_ends_and_none_doubled(self, language: Language) -> None:
        for sentence in language.sentences:
            assert sentence == " ".join(sentence.split(" ")).strip()
            assert "  " not in sentence

    def test_has_one_sentence_per_line(self, language: Language) -> None:
        assert tuple(language.text.split("\n")) == language.sentences


def test_a_letter_of_another_script_would_be_noticed() -> None:
    assert strangers("Кнiга", "Cyrillic") == {"i"}
    assert strangers("Книга", "Greek") == set("Книга")
    assert strangers("本はテーブル", "Han") == set("はテーブル")


def test_japanese_mixes_its_scripts_and_chinese_does_not() -> None:
    of = {language.name: language for language in languages()}
    assert strangers(of["Japanese"].text, "Han")
    assert not strangers(of["Chinese"].text, "Han")
