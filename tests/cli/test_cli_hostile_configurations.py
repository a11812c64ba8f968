"""What a hostile scenario, run.json or hparams.yaml takes of memory and of the processor, and what comes out of it."""

from __future__ import annotations

from pathlib import Path

import hostile_configurations as hostile
import pytest

pytestmark = pytest.mark.evidence

SLOWEST = 15  # seconds of processor time until a command is ended: on a busy machine it needs twice as many
CASES = [
    ("scenario", "run file.toml --out out", "as many keys as are read"),
    ("scenario", "run file.toml --out out", "lists in lists"),
    ("scenario", "run file.toml --out out", "many dotted keys"),
    ("scenario", "run file.toml --out out", "escapes"),
    ("scenario", "scenarios file.toml", "a link to /dev/zero"),
    ("run", "runs", "empty lists up to what is read"),
    ("run", "runs", "escapes"),
    ("run", "plot it other", "changes up to what is read"),
    ("run", "name it new", "a FIFO"),
    ("lightning", "runs", "laughs"),
    ("lightning", "runs", "merged laughs"),
    ("lightning", "runs", "lists in lists"),
    ("lightning", "runs", "an integer of many digits"),
]


@pytest.mark.parametrize(("group", "words", "kind"), CASES)
def test_a_hostile_configuration_takes_little_and_leaves_the_terminal_alone(
    tmp_path: Path, group: str, words: str, kind: str
) -> None:
    assert words.split() in hostile.GROUPS[group].commands
    hostile.lay(hostile.GROUPS[group], kind, tmp_path)
    status, said, memory, _ = hostile.ask(words.split(), tmp_path, SLOWEST)
    assert status in (0, 1, 2), said[-2000:]  # else it was ended
    assert "Traceback" not in said
    assert hostile.RAW.search(said) is None
    assert memory <= hostile.MOST_MEMORY + 100  # MB, with Python and all that is imported
    assert not (tmp_path / "PWNED").exists()
