"""The output of 59 programs is read exactly, and where it is damaged no number becomes another or moves."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import pytest
from golden_forms import Golden, load_all, triples

from txlab.runs.stdout_steps import Output, rows_of

GOLDEN = load_all()


@pytest.mark.parametrize("form", GOLDEN, ids=lambda form: form.name)
def test_each_form_has_its_rows_steps_and_names(form: Golden) -> None:
    rows = rows_of(form.output.encode())
    assert triples(rows) == form.expected
    assert len(rows) == len(form.rows)


def test_there_are_forty_forms_and_more() -> None:
    assert len(GOLDEN) >= 40
    assert all(form.rows for form in GOLDEN)


def all_rows(text: str, piece: int = 1 << 20) -> list[tuple[int, dict[str, float]]]:
    """All rows, also those that a resumed training repeats."""
    output, data = Output(), text.encode()
    rows = [row for at in range(0, len(data), piece) for row in output.feed(data[at : at + piece])] + list(
        output.close()
    )
    return [(row.step, row.values) for row in rows if row.values]


@pytest.mark.parametrize("form", GOLDEN, ids=lambda form: form.name)
def test_pieces_of_one_byte_give_the_same_rows(form: Golden) -> None:
    assert all_rows(form.output, 1) == all_rows(form.output)


# Mutations. Each changes the output as a terminal, a pipe or a locale would, and never the digits of a number.


def spaces(text: str, chance: random.Random) -> str:
    """More spaces at the end of lines, and behind commas."""
    return (
        re.sub(r"(, )|(\n)", lambda sign: (sign[0] + " ") if sign[1] else "   \n", text)
        if chance.random() < 0.5
        else re.sub("\n", "  \n", text)
    )


def colours(text: str, chance: random.Random) -> str:
    """Colours around words."""

    def coloured(word: re.Match[str]) -> str:
        return f"\x1b[1;3{chance.randrange(8)}m{word[0]}\x1b[0m" if chance.random() < 0.2 else word[0]

    return re.sub(r"(?<![\x1b\[\w;])[A-Za-z_]+|(?<![\x1b\[\w;.,])\d+\.\d+(?![\w;.])", coloured, text)


def thousands(text: str, chance: random.Random) -> str:
    """Separators in whole numbers of four digits and more."""

    def separated(number: re.Match[str]) -> str:
        return f"{int(number[0]):,}" if chance.random() < 0.3 else number[0]

    return re.sub(r"(?<![\w.,/:\x1b\[;-])[1-9]\d{3,}(?![\w.,/:;-])", separated, text)


def carriage_returns(text: str, chance: random.Random) -> str:
    """Line ends of another system, and a line drawn twice in place."""
    lines = text.split("\n")
    place = chance.randrange(len(lines))
    if "\r" not in lines[place] and "\x1b" not in lines[place]:
        lines[place] = f"{lines[place]}\r{lines[place]}"
    return ("\r\n" if chance.random() < 0.5 else "\n").join(lines)


def wide_characters(text: str, chance: random.Random) -> str:
    """Lines of text in wide characters between the others, and bars drawn with them."""
    lines = text.split("\n")
    for _ in range(3):
        lines.insert(
            chance.randrange(len(lines)), chance.choice(["学習を開始します 🚀", "损失正在下降……", "저장 완료 ✅ 모델"])
        )
    return "\n".join(lines)


def cut_line(text: str, chance: random.Random) -> str:
    """One line that ends early, as when a disk was full. Not within a whole number or one of a new form: nothing tells
    them from whole ones."""
    lines = re.split(r"([\r\n]+)", text)
    place = chance.choice(
        [place for place in range(len(lines) // 2, len(lines)) if len(lines[place].strip()) > 8] or [0]
    )
    at = chance.randrange(3, max(4, len(lines[place])))
    before, behind = lines[place][:at], lines[place][at:]
    earlier = re.sub(r"\d+", "0", "".join(lines[:place]))
    number = re.search(r"\d[\d.,]*$", before)
    if number and (number[0].isdecimal() or re.sub(r"\d+", "0", before[: number.start()]) not in earlier):
        before += re.match(r"[\d.,]*(?:e[-+]?\d+)?", behind)[0]  # type: ignore[index]
    lines[place] = before
    return "".join(lines)


def cut_end(text: str, chance: random.Random) -> str:
    """The output of a program that was killed while it printed."""
    return text[: chance.randrange(len(text) // 3, len(text))]


COUNTED = ("trainer_stdout", "lightning_test")  # no step is printed: a lost line moves those behind it
MUTATIONS: list[Callable[[str, random.Random], str]] = [
    *(spaces, colours, thousands, carriage_returns, wide_characters, cut_line, cut_end)
]


@pytest.mark.parametrize("mutate", MUTATIONS, ids=lambda mutate: mutate.__name__)
def test_a_damaged_output_gives_no_wrong_number(mutate: Callable[[str, random.Random], str]) -> None:
    for number in range(60):
        chance = random.Random(f"{mutate.__name__} {number}")
        form = chance.choice(GOLDEN)
        allowed = {*form.expected, *triples(all_rows(form.output))}
        found = set(triples(rows_of(mutate(form.output, chance).encode())))
        if form.name in COUNTED:
            allowed, found = ({(0, name, value) for _, name, value in rows} for rows in (allowed, found))
        assert not found - allowed, f"{form.name}, {number}"


def test_lines_of_two_streams_are_not_mixed_and_a_late_step_keeps_its_place() -> None:
    output = Output()
    rows = [
        *output.feed(b"step 1 loss 0.9\nstep 3 lo"),
        *output.feed(b"step 2 loss 0.8\nwarning\n", stream=2),
        *output.feed(b"ss 0.7\nstep 4 loss 0.6\n"),
        *output.feed(b"step 3 acc 0.5\n", stream=2),
        *output.close(),
    ]
    assert [(row.step, row.values) for row in rows if row.values] == [
        *[(1, {"loss": 0.9}), (2, {"loss": 0.8}), (3, {"loss": 0.7}), (4, {"loss": 0.6}), (3, {"acc": 0.5})]
    ]
    assert all(row.rewind is None for row in rows)


def test_a_line_without_an_end_is_bounded_and_the_rest_of_it_is_not_a_line_of_its_own() -> None:
    text = "step 1 loss 0.5\nstep 2 " + "x" * 9000 + " loss 0.7 step 3 loss 0.25\nstep 4 loss 0.3\n"
    assert rows_of(text.encode()) == [(1, {"loss": 0.5}), (4, {"loss": 0.3})]


def test_each_step_back_is_a_restart_a_resumed_training_or_left_out() -> None:
    def steps(*numbers: int) -> list[int]:
        return [step for step, _ in rows_of("".join(f"step {n} loss 0.{n}5\n" for n in numbers).encode())]

    assert steps(0, 10, 20, 0, 10) == [0, 10, 20, 21, 31]  # another epoch
    assert steps(10, 20, 30, 40, 30, 40, 50) == [10, 20, 30, 40, 50]  # resumed from a checkpoint
    assert steps(100, 110, 120, 12, 130) == [100, 110, 120, 130]  # a damaged number


def test_an_evaluation_does_not_count_the_steps_of_the_training() -> None:
    text = "step 100 loss 0.5\nval: step 1 loss 0.75\nval: step 2 loss 0.625\nstep 110 loss 0.25\n"
    assert rows_of(text.encode()) == [
        *[(100, {"loss": 0.5}), (100, {"val_loss": 0.75}), (100, {"val_loss": 0.625}), (110, {"loss": 0.25})]
    ]


def test_a_number_with_fewer_decimals_than_all_before_it_was_cut_unless_they_vary() -> None:
    def losses(*numbers: str) -> list[float]:
        lines = (f"iter {place}: loss {number}\n" for place, number in enumerate(numbers, 1))
        return [values["loss"] for _, values in rows_of("".join(lines).encode())]

    assert losses("0.5123", "0.4812", "0.4711", "0.4", "0.4512") == [0.5123, 0.4812, 0.4711, 0.4512]
    assert losses("0.5", "0.25", "0.125", "0.5", "0.0625") == [0.5, 0.25, 0.125, 0.5, 0.0625]
    assert losses("12", "9", "11") == [12.0, 9.0, 11.0]
    assert losses("0.5123", "0.48", "0.4711", "0.46", "0.45") == [0.5123, 0.4711, 0.46, 0.45]  # the first may be cut
