"""Three machines over the stand-in for ssh, with cards of a pretended NVML, which may die."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import pytest
from far_machine import stand_in
from pretended_nvml import a_card, prelude

from txlab.runs.remote import line, mirroring
from txlab.runs.remote.address import Address


class Boxes:
    """Machines `a` with eight cards, `b` with two, and all others with none; `dead` are those that ssh cannot reach."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.runs = folder, folder / "far"
        self.cards = {"a": [a_card(n, percent=12 * n, used=10**9 * (n + 1)) for n in range(8)]}
        self.cards["b"] = [a_card(n, name="NVIDIA GeForce RTX 4090", slowed=0x40) for n in range(2)]
        for name, cards in self.cards.items():
            (folder / name).write_text(json.dumps(cards))
        self.runs.mkdir()
        program = zlib.compress(prelude().encode() + b"\n" + zlib.decompress(line.agent()))
        monkeypatch.setattr(line, "agent", lambda: program)
        monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        monkeypatch.setenv("TXLAB_SSH", self.command())
        monkeypatch.setenv("TXLAB_RUNS", str(folder / "here"))

    def command(self) -> str:
        cases = "".join(
            f'*" {name} "*) [ -e {self.folder}/dead-{name} ] && {{ echo "{name}: No route to host" >&2; exit 255; }}; '
            f'PRETENDED="$(cat {self.folder}/{name})";; '
            for name in self.cards
        )
        return stand_in(self.folder, f'case "$*" in {cases} *) PRETENDED=null;; esac\nexport PRETENDED', self.runs)

    def kill(self, address: Address) -> None:
        (self.folder / f"dead-{address.host}").touch()
        there = mirroring.host_at(address)._line
        assert there is not None
        there.process.kill()
