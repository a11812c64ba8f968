"""`txlab verify`: what it prints, which figures it takes, and its exit status."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import ModuleType

import pytest

import txlab.cli
from txlab.experiments import reference_numbers
from txlab.experiments.reference_numbers import Figure, Measured, claimed, computed, derived, printed

Ask = Callable[..., tuple[int, str, str]]


@dataclass
class Made:
    """Two figures instead of those of the area; what the second one measures, and how often each was measured."""

    simulated: Measured
    asked: list[str]

    def figures(self) -> list[Figure]:
        def exact(say: Callable[[str], None]) -> list[Measured]:
            self.asked.append("exact")
            return [Measured(0.5), Measured(-1.25)]

        def drawn(say: Callable[[str], None]) -> list[Measured]:
            self.asked.append("drawn")
            return [self.simulated]

        return [
            Figure("exact", "Two numbers", "a book", [printed("half", 0.5, 1), derived("less", -1.25, 2)], exact, 2.0),
            Figure("drawn", "A mean", "a paper", [computed("mean", 7.0, 1, 0.02, 300)], drawn),
        ]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    made = Made(Measured(7.1, 0.05, 40), [])
    module = ModuleType("txlab.experiments.reference_numbers.made")
    module.FIGURES = made.figures()  # type: ignore[attr-defined]
    monkeypatch.setattr(reference_numbers, "AREAS", {"rl": ("made",)})
    monkeypatch.setattr(reference_numbers, "import_module", lambda name: module)
    return made


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    def asked(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["txlab", "verify", *words])
        with pytest.raises(SystemExit) as left:
            txlab.cli.main()
        said = capsys.readouterr()
        return int(left.value.code or 0), said.out, said.err

    return asked


def test_where_all_hold_the_status_is_0_and_every_number_has_a_line(made: Made, ask: Ask) -> None:
    status, out, _ = ask("rl")
    assert status == 0
    assert "3 of 3 numbers hold: 1 of 1 printed, 1 of 1 derived, 1 of 1 computed here" in out
    lines = {line.split()[0]: line for line in out.splitlines() if line.startswith("  ") and line.strip()}
    assert lines["half"].split()[1:4] == ["printed", "0.5", "0.5"]
    assert lines["less"].split()[1:4] == ["derived", "-1.25", "-1.25"]
    assert " ".join(lines["mean"].split()[1:10]) == "computed here 7.0 ± 0.02 300 7.1 ± 0.05"
    assert "published" not in out
    exact, _, drawn = out.partition("A mean")
    assert "standard error" not in exact
    assert "± one standard error" in drawn


@pytest.mark.parametrize("seeds", [5, 4])
def test_a_claim_says_for_how_many_of_its_seeds_it_is_true(made: Made, ask: Ask, seeds: int) -> None:
    claim = Figure("claim", "A claim", "here", [claimed("seeds that learn", 5)], lambda say: [Measured(float(seeds))])
    reference_numbers.import_module("made").FIGURES.append(claim)  # type: ignore[attr-defined]
    status, out, _ = ask("rl")
    assert status == (seeds != 5)
    line = next(line for line in out.splitlines() if "seeds that learn" in line)
    assert " ".join(line.split()[4:10]) == f"5 of 5 {seeds} of 5"


def test_where_one_does_not_hold_the_status_is_1_and_its_line_says_so(made: Made, ask: Ask) -> None:
    made.simulated = Measured(7.4, 0.05, 40)
    status, out, _ = ask("rl")
    assert status == 1
    assert "2 of 3 numbers hold: 1 of 1 printed, 1 of 1 derived, 0 of 1 computed here" in out
    verdicts = {line.split()[0]: line.lower().rstrip() for line in out.splitlines() if line.startswith("  ")}
    assert verdicts["mean"].endswith("differs")
    assert verdicts["half"].endswith("holds")


def test_json_is_one_object_a_number_and_nothing_else(made: Made, ask: Ask) -> None:
    made.simulated = Measured(float("inf"), 0.05, 40)
    status, out, _ = ask("rl", "--json")
    rows = [json.loads(line, parse_constant=lambda name: pytest.fail(f"no JSON: {name}")) for line in out.splitlines()]
    assert status == 1
    assert [row["number"] for row in rows] == ["half", "less", "mean"]
    assert [row["holds"] for row in rows] == [True, True, False]
    assert rows[0] | {"measured": 0.5, "standard_error": None, "runs": None, "source": "a book"} == rows[0]
    assert [row["provenance"] for row in rows] == ["printed", "derived", "computed here"]
    assert (rows[2]["reference"], rows[2]["reference_standard_error"], rows[2]["reference_runs"]) == (7.0, 0.02, 300)
    assert rows[0]["reference_standard_error"] is rows[0]["reference_runs"] is None
    assert (rows[2]["measured"], rows[2]["standard_error"], rows[2]["runs"]) == ("Infinity", 0.05, 40)


def test_only_measures_what_it_names_and_list_measures_nothing(made: Made, ask: Ask) -> None:
    status, out, _ = ask("--only", "drawn")
    assert (status, made.asked) == (0, ["drawn"])
    assert "1 of 1 numbers hold" in out
    made.asked.clear()
    status, out, _ = ask("rl", "--list")
    assert (status, made.asked) == (0, [])
    assert [line.split()[0] for line in out.splitlines()[-2:]] == ["exact", "drawn"]


def test_what_takes_long_is_left_out_of_all_and_says_how_to_ask_for_it(made: Made, ask: Ask) -> None:
    figures = reference_numbers.import_module("").FIGURES
    figures[0] = replace(figures[0], seconds=1800)
    status, out, _ = ask()
    assert (status, made.asked) == (0, ["drawn"])
    assert "exact was left out: it takes 30 minutes; --only exact" in out
    assert ask("rl")[0] == ask("--only", "exact")[0] == 0
    assert made.asked == ["drawn", "exact", "drawn", "exact"]


def test_a_remark_is_printed_below_its_figure(made: Made, ask: Ask) -> None:
    made.simulated = replace(made.simulated, remark="beside it\n\x1b[31mred")
    lines = ask("rl")[1].splitlines()
    (at,) = [place for place, line in enumerate(lines) if line.startswith("  mean")]
    assert lines[at + 1] == "  beside it"
    assert "\x1b" not in lines[at + 2]
    assert "red" in lines[at + 2]
    assert json.loads(ask("rl", "--json")[1].splitlines()[2])["remark"] == made.simulated.remark


def test_what_needs_a_folder_is_left_out_of_all_and_asked_for_by_name(made: Made, ask: Ask) -> None:
    figures = reference_numbers.import_module("").FIGURES
    figures[0] = replace(figures[0], needs="a checkout, named by --folder")
    status, out, _ = ask()
    assert (status, made.asked) == (0, ["drawn"])
    assert "exact was left out: it needs a checkout, named by --folder" in out
    status, out, error = ask("--only", "exact")
    assert (status, out) == (2, "")
    assert "exact needs a checkout, named by --folder" in error


@pytest.mark.parametrize(
    ("words", "part"),
    [(["lr"], "not an area (nearest: rl)"), (["rl", "--only", "exat"], "nearest: exact"), (["--joson"], "--json")],
)
def test_what_is_not_there_is_refused_in_one_line(made: Made, ask: Ask, words: list[str], part: str) -> None:
    status, out, error = ask(*words)
    assert (status, out, made.asked) == (2, "", [])
    assert part in error
    assert len(error.splitlines()) == 1


def test_every_figure_of_the_area_has_a_unique_name_and_numbers_with_labels() -> None:
    found = reference_numbers.figures()
    assert len({figure.name for figure in found}) == len(found)
    for figure in found:
        labels = [number.label for number in figure.numbers]
        assert labels, figure.name
        assert len(set(labels)) == len(labels), figure.name
