"""What a card says of itself, with a stand-in for NVML: by UUID, without exceptions, said once."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from txlab.engine.card import READINGS, Card, slowed
from txlab.engine.device import data_sheet, measure_copy, measure_peak


class NotThere(Exception):
    pass


class Nvml(ModuleType):
    """Two cards in NVML's order; `missing` are functions that this card does not support, `lost` = it fell off."""

    NVML_TEMPERATURE_GPU = 0

    def __init__(self, missing: tuple[str, ...] = (), lost: bool = False) -> None:
        super().__init__("pynvml")
        self.missing, self.lost, self.asked = missing, lost, list[str]()

    def nvmlInit(self) -> None: ...

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        if uuid not in ("GPU-aaaa", "MIG-bbbb"):
            raise NotThere("Not Found")
        return uuid

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvmlDeviceGet"):
            raise AttributeError(name)

        def asked(card: str, *more: Any) -> Any:
            self.asked.append(name)
            if self.lost:
                raise NotThere("GPU is lost")
            if name in self.missing:
                raise NotThere("Not Supported")
            return {
                "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=97, memory=40),
                "nvmlDeviceGetMemoryInfo": SimpleNamespace(used=41_000_000_000, total=85_000_000_000),
                "nvmlDeviceGetTemperature": 61,
                "nvmlDeviceGetPowerUsage": 312_000,
                "nvmlDeviceGetEnforcedPowerLimit": 400_000,
                "nvmlDeviceGetCurrentClocksThrottleReasons": 0x04,
            }[name]

        return asked


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> Nvml:
    found = Nvml()
    monkeypatch.setitem(sys.modules, "pynvml", found)
    return found


def test_a_card_is_read_in_the_units_of_its_names(nvml: Nvml) -> None:
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


def test_what_a_card_does_not_have_is_left_out_and_not_asked_for_again(nvml: Nvml) -> None:
    nvml.missing = ("nvmlDeviceGetPowerUsage",)
    card = Card("aaaa")
    assert set(card.read()) == set(READINGS) - {"gpu_watts"}
    nvml.asked.clear()
    assert set(card.read()) == set(READINGS) - {"gpu_watts"}
    assert "nvmlDeviceGetPowerUsage" not in nvml.asked
    assert card.trouble == ""


def test_trouble_is_a_sentence_and_costs_nothing_afterwards(nvml: Nvml, monkeypatch: pytest.MonkeyPatch) -> None:
    card = Card("aaaa")
    nvml.lost = True
    assert card.read() == {}
    assert card.trouble.endswith("are not read: GPU is lost")
    nvml.asked.clear()
    assert card.read() == {}
    assert nvml.asked == []
    assert Card("cccc").trouble.endswith("Not Found")
    monkeypatch.setitem(sys.modules, "pynvml", None)
    without = Card("aaaa")
    assert without.read() == {}
    assert without.trouble.endswith("pip install 'txlab[gpu]'")


def test_only_what_takes_speed_from_the_work_is_a_reason() -> None:
    assert slowed(0x00) == slowed(0x01) == slowed(0x02) == ""  # full speed, idle, clocks that somebody set
    assert slowed(0x04 | 0x20 | 0x01) == "power limit, temperature"


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
