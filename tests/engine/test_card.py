"""What cards report, with a substitute for NVML: by UUID, without exceptions, once."""

from __future__ import annotations

import ast
import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from pretended_nvml import PretendedNvml, a_card, install
from waiting import LONGEST

from txlab.engine.card import READINGS, Card, Cards, OldProcess, Process, Sample, describe_slowdown
from txlab.engine.device import data_sheet, measure_copy, measure_peak

BUSY: dict[str, Any] = {"percent": 97, "used": 41_000_000_000, "celsius": 61, "milliwatts": 312_000, "slowed": 0x04}


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> PretendedNvml:
    found = PretendedNvml([a_card(0), a_card(1, uuid="GPU-aaaa", limit=400_000, **BUSY), a_card(2, uuid="MIG-bbbb")])
    monkeypatch.setattr(ctypes, "CDLL", ctypes.CDLL)  # put back afterwards
    install(found)
    return found


def test_a_card_is_read_in_the_units_of_its_names(nvml: PretendedNvml) -> None:
    assert Card("aaaa").read() == {
        "gpu_busy": 0.97,
        "gpu_used_mb": 41_000.0,
        "gpu_total_mb": 85_000.0,
        "gpu_celsius": 61.0,
        "gpu_watts": 312.0,
        "gpu_watts_limit": 400.0,
        "gpu_slowed": 4.0,
    }
    assert set(Card("MIG-bbbb").read()) == set(READINGS)


def test_what_a_card_does_not_have_is_left_out_and_not_asked_for_again(nvml: PretendedNvml) -> None:
    nvml.unsupported = ("nvmlDeviceGetPowerUsage",)
    card = Card("aaaa")
    assert set(card.read()) == set(READINGS) - {"gpu_watts"}
    nvml.asked.clear()
    assert set(card.read()) == set(READINGS) - {"gpu_watts"}
    assert "nvmlDeviceGetPowerUsage" not in nvml.asked
    assert card.trouble == ""


def test_trouble_is_a_sentence_and_costs_nothing_afterwards(nvml: PretendedNvml) -> None:
    card = Card("aaaa")
    nvml.lost = True
    assert card.read() == {}
    assert card.trouble.endswith("are not read: GPU is lost")
    nvml.asked.clear()
    assert card.read() == {}
    assert nvml.asked == []
    nvml.lost = False
    assert Card("cccc").trouble.endswith("Not Found")
    install(None)
    without = Card("aaaa")
    assert without.read() == {}
    assert without.trouble.endswith("no NVIDIA driver is installed")
    assert Cards().trouble == "no NVIDIA driver is installed"


def test_the_processes_of_all_cards_are_read_with_their_memory_and_share(nvml: PretendedNvml) -> None:
    nvml.cards[0].update(compute={11: 5_000_000_000, 12: None}, samples=[(11, 2, 40), (11, 1, 90), (12, 2, 4_000_000)])
    nvml.cards[1].update(compute={11: 7_000_000_000}, graphics={13: 1_000_000})
    cards = Cards()
    rows, processes = cards.read()
    assert [(row["index"], row["uuid"], row["gpu_busy"]) for row in rows] == [
        (0, "GPU-00000000-aaaa", 0.0),
        (1, "GPU-aaaa", 0.97),
        (2, "MIG-bbbb", 0.0),
    ]
    assert processes == {
        11: [(0, 5_000_000_000, 0.40), (1, 7_000_000_000, None)],  # the newest sample, not the last
        12: [(0, None, None)],  # the driver does not say, and 40 000 % is no share
        13: [(1, 1_000_000, None)],
    }
    nvml.absent = ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetProcessUtilization")  # a driver of 2020
    assert cards.read()[1][11] == [(0, 5_000_000_000, None), (1, 7_000_000_000, None)]
    nvml.cards[0]["compute"] = dict.fromkeys(range(1, 2000), 1)
    assert set(cards.read()[1]) == {11, 13}  # more than fit: the cards are still read
    nvml.lost = True
    rows, processes = cards.read()
    assert processes == {}
    assert all(row["trouble"].endswith("GPU is lost") for row in rows)


@pytest.mark.skipif(shutil.which("cc") is None or sys.platform != "linux", reason="it needs a C compiler")
def test_a_library_in_c_is_called_as_nvml_h_declares(tmp_path: Path) -> None:
    source = Path(__file__).with_name("pretended_nvml.c")
    library = tmp_path / "libnvidia-ml.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True, timeout=LONGEST)
    program = "from txlab.engine.card import *; print(Card('second').read()); print(*Cards().read(), sep='\\n')"
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=LONGEST
    )
    assert done.returncode == 0, done.stderr
    second, rows, processes = map(ast.literal_eval, done.stdout.splitlines())
    assert second == {
        "gpu_busy": 0.9,
        "gpu_used_mb": 90_000.0,
        "gpu_total_mb": 85_000.0,
        "gpu_celsius": 85.0,
        "gpu_watts": 90.0,
        "gpu_watts_limit": 700.0,
        "gpu_slowed": float(1 << 40 | 4),
    }
    assert rows[1] == {"uuid": "GPU-second", "name": "GPU-second", "index": 1, "trouble": ""} | second
    assert processes == {
        10: [(0, 5_000_000_000, 0.33)],
        11: [(0, 5_000_000_001, None)],
        90: [(1, 5_000_000_000, 0.33)],
        91: [(1, 5_000_000_001, None)],
    }


def test_the_structures_have_the_sizes_of_nvml_h() -> None:
    """sizeof on a 64-bit machine, from a C program with the declarations of nvml.h."""
    assert [ctypes.sizeof(kind) for kind in (OldProcess, Process, Sample)] == [16, 24, 32]
    assert (Process.used.offset, Process.part.offset, Sample.busy.offset) == (8, 16, 16)


def test_only_what_takes_speed_from_the_work_is_a_reason() -> None:
    assert (
        describe_slowdown(0x00) == describe_slowdown(0x01) == describe_slowdown(0x02) == ""
    )  # full speed, idle, clocks set by hand
    assert describe_slowdown(0x04 | 0x20 | 0x01) == "power limit, temperature"


@pytest.mark.parametrize(
    ("name", "tera"),
    [
        ("NVIDIA H100 80GB HBM3", 989),
        ("NVIDIA H100 PCIe", 756),
        ("NVIDIA H100 NVL", 835),
        ("NVIDIA H200", 989),
        ("NVIDIA A100-SXM4-40GB", 312),
        ("NVIDIA A100 80GB PCIe", 312),
        ("NVIDIA GB200", 2500),
        ("NVIDIA B200", 2250),
        ("AMD Instinct MI300X", 1300),
        ("NVIDIA GeForce RTX 4090", 165),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
        ("NVIDIA GeForce RTX 4090 D", None),
        ("NVIDIA H200 NVL", None),
        ("Tesla T4", None),
    ],
)
def test_a_data_sheet_is_that_of_this_very_card_or_none(name: str, tera: float | None) -> None:
    sheet = data_sheet(name)
    assert (sheet and sheet.bfloat16 / 1e12) == tera


def test_products_and_copies_are_measured_on_a_cpu_too() -> None:
    cpu = torch.device("cpu")
    assert 1e8 < measure_peak(cpu, torch.float32, 0.01) < 1e14
    assert 1e7 < measure_copy(cpu, 0.01) < 1e13
