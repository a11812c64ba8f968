"""Logs of other programs, made to do harm, and what each command takes to answer about them.

Run as a program, `hostile_logs.py [GROUP [--only COMMAND] [KIND …]]` measures as hostile_configurations.py does.
"""

from __future__ import annotations

import struct
import sys
import zlib
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path

from hostile_configurations import MIB, NASTY, NESTED_JSON, ODD, Group, Writer, main, sparse

CASTAGNOLI = [0] * 256
for _byte in range(256):
    _crc = _byte
    for _ in range(8):
        _crc = (_crc >> 1) ^ (0x82F63B78 if _crc & 1 else 0)
    CASTAGNOLI[_byte] = _crc


def masked(data: bytes) -> int:
    crc = 0xFFFF_FFFF
    for byte in data:
        crc = CASTAGNOLI[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFF_FFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFF_FFFF


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def part(number: int, content: bytes | str | int) -> bytes:
    """A field of a protocol buffer."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(data)) + data


def double(number: int, value: float) -> bytes:
    return varint(number << 3 | 1) + struct.pack("<d", value)


def single(number: int, value: float) -> bytes:
    return varint(number << 3 | 5) + struct.pack("<f", value)


# TensorBoard


def record(event: bytes) -> bytes:
    """Long records have no right checksum: it is not looked at, and takes long here."""
    head = struct.pack("<Q", len(event))
    crc = masked(event) if len(event) <= 4096 else 0
    return head + struct.pack("<I", masked(head)) + event + struct.pack("<I", crc)


def event(step: int, *values: bytes, when: float = 1e9) -> bytes:
    return record(double(1, when) + part(2, step) + part(5, b"".join(part(1, value) for value in values)))


def scalar(tag: str, value: float = 1.0) -> bytes:
    return part(1, tag) + single(2, value)


def session(step: int) -> bytes:
    return record(double(1, 1e9) + part(2, step) + part(7, part(1, 1)))


def hparams(count: int, first: int = 0, value: str = "v") -> bytes:
    entries = b"".join(part(1, part(1, f"k{first + n}") + part(2, part(3, value))) for n in range(count))
    plugin = part(1, "hparams") + part(2, part(3, entries))
    return part(1, "_hparams_/session_start_info") + part(9, part(1, plugin))


def texts(tag: str, content: str) -> bytes:
    return part(1, tag) + part(8, part(1, 7) + part(8, content)) + part(9, part(1, part(1, "text")))


Parts = Callable[[], Iterable[bytes]]


def events(*files: Parts) -> Writer:
    """A folder of event files."""

    def write(path: Path) -> None:
        path.mkdir()
        for number, made in enumerate(files):
            with (path / f"events.out.tfevents.{1000000000 + number}.host").open("wb") as file:
                file.writelines(made())

    return write


def many_files(name: str, count: int) -> Writer:
    def write(path: Path) -> None:
        path.mkdir()
        for number in range(count):
            (path / name.format(number)).write_bytes(event(number, scalar("loss")))

    return write


def folders(count: int, deep: int = 1) -> Writer:
    def write(path: Path) -> None:
        path.mkdir()
        for number in range(count):
            place = path.joinpath(*["d"] * (deep - 1), f"{number}")
            place.mkdir(parents=True)
            (place / "events.out.tfevents.1.host").write_bytes(event(number, scalar("loss")))

    return write


def holding(name: str, writer: Writer) -> Writer:
    """A folder with one odd file of this name."""

    def write(path: Path) -> None:
        path.mkdir()
        writer(path / name)

    return write


def copied(one: Callable[[], bytes], times: int) -> Parts:
    return lambda: [one() * times]


NAME = "events.out.tfevents.1000000000.host"
TENSORBOARD: dict[str, Writer] = {
    **{kind: holding(NAME, writer) for kind, writer in ODD.items()},
    "ten gigabytes of zeros": holding(NAME, sparse(10 << 30)),
    "a terabyte behind a row": holding(NAME, sparse(1 << 40, event(0, scalar("loss")))),
    "200 MB of rows": events(copied(lambda: b"".join(event(n, scalar("loss")) for n in range(1000)), 4000)),
    "200 MB of one row": events(copied(lambda: event(1, scalar("loss")), 4_000_000)),
    "20 000 files": many_files("events.out.tfevents.{:010}.host", 20_000),
    "5000 folders": folders(5000),
    "30 000 folders": folders(30_000),
    "folders in folders": folders(2000, 300),
    "many series": events(lambda: (event(0, scalar(f"tag{n}")) for n in range(150_000))),
    "many series in a row": events(lambda: [event(0, *(scalar(f"tag{n}") for n in range(300_000)))]),
    "long names": events(lambda: [event(0, scalar("x" * (7 * MIB))) for _ in range(10)]),
    "names of escapes": events(lambda: [event(0, scalar(NASTY), scalar(f"loss{NASTY}"))]),
    "sessions": events(
        lambda: chain(
            (event(9, scalar(f"tag{n}")) for n in range(9000)), [session(0) + event(9, scalar("loss"))] * 20_000
        )
    ),
    "back and forth": events(
        lambda: [event(9, scalar(f"tag{n}")) for n in range(9000)],
        lambda: [event(9 - n % 9, scalar("tag1"), when=1e9 + n) for n in range(20_000)],
    ),
    "settings": events(lambda: (event(0, hparams(20_000, 20_000 * n)) for n in range(50))),
    "settings of one record": events(lambda: [event(0, hparams(500_000))]),
    "long settings": events(lambda: (event(0, hparams(1, n, "x" * (7 * MIB))) for n in range(20))),
    "settings of escapes": events(
        lambda: [
            event(
                0,
                part(1, "_")
                + part(
                    9,
                    part(
                        1,
                        part(1, "hparams")
                        + part(2, part(3, part(3, part(1, part(1, NASTY) + part(2, part(3, NASTY)))))),
                    ),
                ),
            )
        ]
    ),
    "texts": events(lambda: (event(n, texts("t", "x" * 20_000)) for n in range(5000))),
    "long texts": events(lambda: (event(n, texts("t", "🦙" * (2 * MIB))) for n in range(10))),
    "texts of escapes": events(lambda: [event(0, texts(NASTY, NASTY), scalar("loss"))]),
    "tensors of texts": events(lambda: [event(0, part(1, "t") + part(8, part(1, 7) + part(8, "") * 3_000_000))]),
    "fields": events(lambda: [record(double(1, 1e9) + part(3, "") * 3_500_000)]),
    "values without anything": events(lambda: [event(0, *[b""] * 3_500_000)]),
    "pictures": events(lambda: (event(n, *(part(1, f"p{m}") + part(4, "") for m in range(100))) for n in range(2000))),
    "odd steps": events(lambda: [event(step, scalar("loss")) for step in (-1, 0, 1 << 62, (1 << 63) - 1, -(1 << 63))]),
    "odd numbers": events(
        lambda: [event(n, scalar("loss", v)) for n, v in enumerate((float("nan"), float("inf"), 3e38))]
    ),
    "odd times": events(
        lambda: [event(n, scalar("loss"), when=w) for n, w in enumerate((1e308, -1e308, float("inf")))]
    ),
    "unended records": events(lambda: [struct.pack("<QI", n, masked(struct.pack("<Q", n))) for n in (1 << 63,)]),
}

# W&B

BLOCK = 32 * 1024


def wandb(made: Parts) -> Writer:
    """A file of these records, each cut into chunks of LevelDB's log."""

    def write(path: Path) -> None:
        path.mkdir()
        with (path / "run-log.wandb").open("wb") as file:
            file.write(b":W&B" + struct.pack("<HB", 0xBEE1, 0))
            at = 7
            for content in made():
                rest, first = memoryview(content), True
                while rest or first:
                    left = BLOCK - at % BLOCK
                    if left < 7:
                        file.write(b"\0" * left)
                        at += left
                        continue
                    piece, rest = rest[: left - 7], rest[left - 7 :]
                    kind = (1 if first else 4) if not rest else (2 if first else 3)
                    data = bytes([kind]) + bytes(piece)
                    file.write(struct.pack("<IHB", zlib.crc32(data), len(piece), kind) + piece)
                    at, first = at + 7 + len(piece), False

    return write


def item(key: str | tuple[str, ...], value: str) -> bytes:
    path = part(1, key) if isinstance(key, str) else b"".join(part(2, name) for name in key)
    return part(1, path + part(16, value))


def history(step: int, *items: bytes) -> bytes:
    return part(2, b"".join(items) + item("_step", f"{step}") + item("_timestamp", "1e9"))


def settings(*items: bytes) -> bytes:
    return part(5, b"".join(items))


WANDB: dict[str, Writer] = {
    **{kind: holding("run-log.wandb", writer) for kind, writer in ODD.items()},
    "ten gigabytes of zeros": holding("run-log.wandb", sparse(10 << 30, b":W&B" + struct.pack("<HB", 0xBEE1, 0))),
    "100 MB of rows": wandb(lambda: [history(n, item("loss", f"{n}.5")) for n in range(1500)] * 1000),
    "many series": wandb(lambda: (history(n, *(item(f"k{n}.{m}", "1") for m in range(1000))) for n in range(300))),
    "many series in a row": wandb(lambda: [history(0, *(item(f"k{n}", "1") for n in range(250_000)))]),
    "long names": wandb(lambda: (history(n, item("x" * (7 * MIB), "1")) for n in range(10))),
    "paths": wandb(lambda: [history(0, item(("a",) * 2_000_000, "1"))]),
    "names alike": wandb(
        lambda: [history(0, *(item(("a.b", f"{n}")[:1] if n % 2 else ("a", "b"), "1") for n in range(200_000)))]
    ),
    "names that number each other": wandb(
        lambda: [
            history(
                0,
                *(
                    item(tuple("a.b.c.d.e.f.g.h.i.j.k.l.m.n".split(".", n % 14)) + ("",) * 0, "1")
                    for n in range(100_000)
                ),
            )
        ]
    ),
    "names told apart by numbers": wandb(
        lambda: [history(0, *(item(("a." * n + "a").split(".", m)[0:], "1") for n in range(60) for m in range(60)))]
    ),
    "escapes": wandb(
        lambda: [
            part(
                17,
                part(1, NASTY)
                + part(3, NASTY)
                + part(6, NASTY)
                + part(8, NASTY)
                + part(9, NASTY)
                + part(10, NASTY)
                + part(13, NASTY),
            )
            + settings(item(NASTY, f'"{NASTY}"')),
            history(0, item(NASTY, "1"), item("loss", "1")),
            part(10, part(1, NASTY)),
        ]
    ),
    "tags": wandb(lambda: [part(17, part(8, "run") + part(10, "tag") * 1_400_000), history(0, item("loss", "1"))]),
    "long words": wandb(
        lambda: [part(17, b"".join(part(n, "x" * MIB) for n in (1, 3, 6, 8, 9, 10, 13))), history(0, item("loss", "1"))]
    ),
    "settings": wandb(lambda: (settings(*(item(f"k{n}.{m}", "1") for m in range(20_000))) for n in range(50))),
    "long settings": wandb(lambda: (settings(item(f"k{n}", '"' + "x" * (7 * MIB) + '"')) for n in range(20))),
    "lists as settings": wandb(lambda: (settings(item(f"k{n}", "[" + "[]," * (2 * MIB) + "1]")) for n in range(20))),
    "settings of 100 000 letters": wandb(
        lambda: (settings(*(item(f"k{n}.{m}", '"' + "x" * 99_000 + '"') for m in range(70))) for n in range(28))
    ),
    "lists in lists": wandb(lambda: [settings(item("a", NESTED_JSON)), history(0, item("loss", "1"))]),
    "an integer of digits": wandb(
        lambda: [settings(item("a", "9" * 5_000_000)), history(0, item("loss", "9" * 2_000_000))]
    ),
    "a step without end": wandb(
        lambda: [
            part(2, item("loss", "1") + item("_step", step)) for step in ("Infinity", "NaN", "1e999", "-5", "9" * 400)
        ]
    ),
    "a time without end": wandb(
        lambda: [
            part(2, item("loss", "1") + item("_timestamp", when)) for when in ("Infinity", "NaN", "1e999", "-1e300")
        ]
    ),
    "summary": wandb(lambda: (part(3, b"".join(item(f"s{n}.{m}", "1") for m in range(20_000))) for n in range(20))),
    "machine": wandb(
        lambda: (part(7, b"".join(part(3, part(1, f"m{m}") + part(16, "1")) for m in range(5000))) for n in range(100))
    ),
    "alerts": wandb(lambda: (part(10, part(1, "x" * MIB) + part(2, "y" * MIB)) for n in range(100))),
    "fields": wandb(lambda: [part(4, "") * 3_500_000]),
    "exits": wandb(lambda: [history(0, item("loss", "1")), part(18, part(1, 1 << 63))]),
}

COMMANDS = [["runs"], ["plot", "log"], ["export", "log", "--out", "log.csv"]]


def nothing(folder: Path) -> None:
    (folder / "runs").mkdir()


def small_log(folder: Path) -> None:
    nothing(folder)
    events(lambda: [event(n, scalar("loss")) for n in range(3)])(folder / "runs" / "log")


GROUPS = {
    "tensorboard": Group("runs/log", TENSORBOARD, COMMANDS, small_log),
    "wandb": Group("runs/log", WANDB, COMMANDS, small_log),
}

if __name__ == "__main__":
    main(GROUPS, sys.argv[1:])
