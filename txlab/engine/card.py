"""What an NVIDIA card says of itself: memory of all programs, temperature, power, whether and why its clock is slowed.

By NVML, the library behind nvidia-smi, through the package nvidia-ml-py (the extra `gpu`). torch is not imported.

Notable: a card is found by its UUID, because NVML counts the cards of the machine and CUDA those that
CUDA_VISIBLE_DEVICES leaves. Readings are a courtesy: whatever fails leaves a sentence in `trouble` and no exception.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from txlab.errors import one_line

# Reasons that lower a clock below what the work could use (nvml.h, nvmlClocksEventReason…); a limit that a person set
# and an idle card are none.
SLOWED = {
    0x04: "power limit",
    0x08: "hardware",
    0x20: "temperature",
    0x40: "temperature (hardware)",
    0x80: "power supply",
}

READINGS: dict[str, Callable[[Any, Any], float]] = {
    "gpu_busy": lambda nvml, card: nvml.nvmlDeviceGetUtilizationRates(card).gpu / 100,
    "gpu_used_mb": lambda nvml, card: nvml.nvmlDeviceGetMemoryInfo(card).used / 1e6,
    "gpu_total_mb": lambda nvml, card: nvml.nvmlDeviceGetMemoryInfo(card).total / 1e6,
    "gpu_celsius": lambda nvml, card: nvml.nvmlDeviceGetTemperature(card, nvml.NVML_TEMPERATURE_GPU),
    "gpu_watts": lambda nvml, card: nvml.nvmlDeviceGetPowerUsage(card) / 1000,
    "gpu_watts_limit": lambda nvml, card: nvml.nvmlDeviceGetEnforcedPowerLimit(card) / 1000,
    "gpu_slowed": lambda nvml, card: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(card),
}
"""gpu_busy is the share of the time in which any kernel ran, however little of the card it used; gpu_slowed the sum of
the reasons that NVML gives, see `slowed`."""


def slowed(reasons: float) -> str:
    """Why the clock is slowed, in words; "" = it is not.

    >>> slowed(0x01), slowed(0x24)
    ('', 'power limit, temperature')
    """
    return ", ".join(word for bit, word in SLOWED.items() if int(reasons) & bit)


class Card:
    """One card.

    trouble   why it says nothing; "" = it does
    """

    def __init__(self, uuid: str) -> None:
        """`uuid` with or without "GPU-"."""
        self.trouble = ""
        self.readings = dict(READINGS)
        try:
            import pynvml
        except ImportError:
            self.trouble = "the card's power, temperature and memory are not read: pip install 'txlab[gpu]'"
            return
        self.nvml: Any = pynvml
        try:
            pynvml.nvmlInit()
            self.card = pynvml.nvmlDeviceGetHandleByUUID(uuid if "-" in uuid[:4] else f"GPU-{uuid}")
        except Exception as error:  # no driver, no rights, a part of a card that NVML does not name, …
            self._give_up(error)

    def read(self) -> dict[str, float]:
        """The values by the names of READINGS; those that this card does not have are missing, all in case of trouble.
        Takes a few milliseconds."""
        found: dict[str, float] = {}
        if self.trouble:
            return found
        for name, reading in list(self.readings.items()):
            try:
                found[name] = float(reading(self.nvml, self.card))
            except Exception as error:
                if "Not Supported" not in str(error):
                    self._give_up(error)
                    return {}
                del self.readings[name]
        return found

    def _give_up(self, error: Exception) -> None:
        self.trouble = f"the card's power, temperature and memory are not read: {one_line(error)}"
