"""The golden logs: what programs print, with the rows that are right; `python tests/golden_forms.py` prints the table.

A file of `golden_logs` has the name of its form, its rows as JSON, `---`, and the output with ␛ ␍ ␈ for escape,
carriage return and backspace. The numbers are our own.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from txlab.runs.stdout_steps import rows_of

FOLDER = Path(__file__).parent / "golden_logs"
SIGNS = str.maketrans("␛␍␈", "\x1b\r\b")

Triple = tuple[int, str, float]


class Golden(NamedTuple):
    """One form; `output` is the raw text, `rows` what it says."""

    name: str
    title: str
    rows: list[tuple[int, dict[str, float]]]
    output: str

    @property
    def expected(self) -> list[Triple]:
        return triples(self.rows)


def load(path: Path) -> Golden:
    head, _, output = path.read_text("utf-8").partition("\n---\n")
    title, *rows = head.split("\n")
    values = [json.loads(row) for row in rows]
    return Golden(path.stem, title, [(row.pop("step"), row) for row in values], output.translate(SIGNS))


def load_all() -> list[Golden]:
    return [load(path) for path in sorted(FOLDER.glob("*.log"))]


def triples(rows: list[tuple[int, dict[str, float]]]) -> list[Triple]:
    return sorted((step, name, value) for step, values in rows for name, value in values.items())


def print_table() -> int:
    """Print form, rows expected, rows found; return the number of forms that are not read exactly."""
    wrong = 0
    print(f"{'form':<22}{'rows':>6}{'found':>7}{'numbers':>9}{'found':>7}{'names':>7}{'wrong':>7}")
    for each in load_all():
        found = rows_of(each.output.encode())
        got, expected = triples(found), each.expected
        names = len({name for _, name, _ in expected})
        bad = [triple for triple in got if triple not in expected]
        wrong += got != expected
        sign = "" if got == expected else "  ✗"
        print(
            f"{each.name:<22}{len(each.rows):>6}{len(found):>7}{len(expected):>9}{len(got):>7}{names:>7}{len(bad):>7}{sign}"
        )
    print(f"{len(load_all())} forms, {wrong} not read exactly")
    return wrong


if __name__ == "__main__":
    raise SystemExit(1 if print_table() else 0)
