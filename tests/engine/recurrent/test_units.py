"""What units follow: properties of texts as one reads them, and correlations as NumPy has them."""

from __future__ import annotations

import numpy as np
import pytest

from txlab.engine.recurrent.units import PROPERTIES, correlations, of_tokens

TEXT = b'He said "no (x)" and\nwent [a(b)c].\n\n"open\n\nnew'


def marked(name: str) -> str:
    return "".join("#" if value else "." for value in PROPERTIES[name][1](TEXT))


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("quotes", "........########................." + "...." + "######...."),
        ("brackets", "............###...............#####"),
        ("capital", "#......"),
        ("space", "..#....#...#....#...#....#"),
    ],
)
def test_a_property_is_where_one_reads_it(name: str, wanted: str) -> None:
    found = marked(name)
    if name == "quotes":
        first, second = TEXT.index(b'"'), TEXT.index(b'" and')
        third = TEXT.index(b'"open')
        end = TEXT.index(b"\n\nnew")
        assert [i for i, sign in enumerate(found) if sign == "#"] == [*range(first, second + 1), *range(third, end + 1)]
    elif name == "brackets":
        spots = [*range(TEXT.index(b"(x"), TEXT.index(b')"') + 1), *range(TEXT.index(b"[a"), TEXT.index(b"].") + 1)]
        assert [i for i, sign in enumerate(found) if sign == "#"] == spots
    else:
        assert found.startswith(wanted)


def test_positions_are_counted_from_the_last_line_and_the_last_letter() -> None:
    line, word = PROPERTIES["line"][1](b"ab\ncd e"), PROPERTIES["word"][1](b"ab\ncd e")
    assert line.tolist() == [1, 2, 0, 1, 2, 3, 4]
    assert word.tolist() == [1, 2, 0, 1, 2, 0, 1]


def test_a_token_has_the_property_of_its_last_byte() -> None:
    assert of_tokens("line", [b"ab", b"\nc", b"", b"de"]).tolist() == [2, 1, 1, 3]


def test_correlations_are_numpys_and_a_constant_unit_has_none() -> None:
    draws = np.random.default_rng(3)
    states, values = draws.normal(size=(200, 7)), draws.normal(size=200)
    states[:, 2] = 3.0
    states[:, 4] = 2 * values - 1
    found = correlations(states.astype(np.float32), values)
    wanted = [np.corrcoef(states[:, u], values)[0, 1] if u != 2 else 0.0 for u in range(7)]
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    assert found[4] == pytest.approx(1.0)
    assert not correlations(states, np.ones(200)).any()
