"""Readings of NVIDIA cards: memory, temperature, power, whether and why the clock is slowed, and their processes.

By NVML, the library behind nvidia-smi, which comes with the driver; torch is not imported. The file is also sent to
other machines (runs/remote), so it needs the standard library only, and Python 3.6.

Notable: NVML is called through ctypes. nvidia-ml-py is missing on most machines, and nvidia-smi takes up to seconds on
one with eight cards, where these calls take milliseconds. A card is found by its UUID, because NVML counts the cards of
the machine and CUDA those that CUDA_VISIBLE_DEVICES leaves. Readings are optional: a failure leaves a sentence in
`trouble` and raises nothing.
"""

import ctypes
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

Use = Tuple[int, Optional[int], Optional[float]]  # of a process: card, bytes on it, share of its time

LIBRARY = "libnvidia-ml.so.1"
NO_CARD = "no NVIDIA driver is installed"
UNSUPPORTED = 3
ERRORS = {1: "Uninitialized", 2: "Invalid Argument", UNSUPPORTED: "Not Supported", 4: "Insufficient Permissions"}
ERRORS.update({6: "Not Found", 9: "Driver Not Loaded", 10: "Timeout", 15: "GPU is lost", 16: "GPU requires reset"})
ERRORS.update({18: "Driver/library version mismatch", 999: "Unknown Error"})
MOST_CARDS, MOST_PROCESSES, MOST_SAMPLES = 64, 1024, 4096
NOT_KNOWN = 2**64 - 1  # the memory of a process, where the driver does not say

# Reasons that lower a clock below what the work could use (nvml.h, nvmlClocksEventReason…); a limit set by the user and
# an idle card do not count.
SLOWED = {
    0x04: "power limit",
    0x08: "hardware",
    0x20: "temperature",
    0x40: "temperature (hardware)",
    0x80: "power supply",
}


class Utilization(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class Memory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


class Process(ctypes.Structure):
    """nvmlProcessInfo_v2_t."""

    _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("part", ctypes.c_uint), ("sub", ctypes.c_uint)]


class OldProcess(ctypes.Structure):
    """nvmlProcessInfo_v1_t."""

    _fields_ = Process._fields_[:2]


class Sample(ctypes.Structure):
    """nvmlProcessUtilizationSample_t; the shares are percentages."""

    _fields_ = [("pid", ctypes.c_uint), ("time", ctypes.c_ulonglong)]
    _fields_ += [(name, ctypes.c_uint) for name in ("busy", "memory", "encoder", "decoder")]


class NvmlError(Exception):
    """What NVML answered; `code` is its number, -1 without the library."""

    def __init__(self, code: int) -> None:
        super().__init__(NO_CARD if code == -1 else ERRORS.get(code, "NVML error %d" % code))
        self.code = code


class Nvml:
    """The library, initialized. Raises NvmlError."""

    def __init__(self) -> None:
        try:
            self.library: Any = ctypes.CDLL(LIBRARY)
        except OSError:
            raise NvmlError(-1) from None
        self.call("nvmlInit_v2")

    def call(self, name: str, *arguments: Any) -> None:
        function = getattr(self.library, name, None)  # an older driver has fewer functions
        code = UNSUPPORTED if function is None else function(*arguments)
        if code:
            raise NvmlError(code)

    def ask(self, name: str, kind: Any, *arguments: Any) -> Any:
        """The value that a function writes behind its last argument."""
        value = kind()
        self.call(name, *arguments, ctypes.byref(value))
        return value

    def text(self, name: str, card: Any) -> str:
        buffer = ctypes.create_string_buffer(96)
        self.call(name, card, buffer, ctypes.c_uint(96))
        return buffer.value.decode("utf-8", "replace")

    def find(self, uuid: str) -> Any:
        return self.ask("nvmlDeviceGetHandleByUUID", ctypes.c_void_p, uuid.encode())

    def cards(self) -> List[Any]:
        count = min(MOST_CARDS, self.ask("nvmlDeviceGetCount_v2", ctypes.c_uint).value)
        return [self.ask("nvmlDeviceGetHandleByIndex_v2", ctypes.c_void_p, ctypes.c_uint(i)) for i in range(count)]

    def array(self, name: str, card: Any, kind: Any, most: int, *more: Any) -> List[Any]:
        """The entries of a list that a function writes, at most `most`."""
        entries, count = (kind * most)(), ctypes.c_uint(most)
        buffers = [ctypes.byref(count), entries]
        self.call(name, card, *((buffers[::-1] if more else buffers) + list(more)))
        return list(entries[: min(most, count.value)])

    def processes(self, card: Any) -> Dict[int, Optional[int]]:
        """{pid: bytes on the card, None = the driver does not say}."""
        used: Dict[int, Optional[int]] = {}
        for work in ("Graphics", "Compute"):
            for version, kind in (("_v3", Process), ("_v2", Process), ("", OldProcess)):
                name = "nvmlDeviceGet%sRunningProcesses%s" % (work, version)
                try:
                    listed = self.array(name, card, kind, MOST_PROCESSES)
                except NvmlError as error:
                    if error.code == UNSUPPORTED:
                        continue
                    break  # more than fit, or no rights: the card itself can still be read
                used.update({each.pid: None if each.used == NOT_KNOWN else each.used for each in listed})
                break
        return used

    def shares(self, card: Any, seconds: float = 4.0) -> Dict[int, float]:
        """{pid: share of the time in which its kernels ran}, by the newest sample of the last `seconds`."""
        since = ctypes.c_ulonglong(int((time.time() - seconds) * 1e6))
        try:
            samples = self.array("nvmlDeviceGetProcessUtilization", card, Sample, MOST_SAMPLES, since)
        except NvmlError:  # no sample, or none on this card
            return {}
        return {each.pid: each.busy / 100 for each in sorted(samples, key=lambda each: each.time) if each.busy <= 100}


READINGS: Dict[str, Callable[[Nvml, Any], float]] = {
    "gpu_busy": lambda nvml, card: nvml.ask("nvmlDeviceGetUtilizationRates", Utilization, card).gpu / 100,
    "gpu_used_mb": lambda nvml, card: nvml.ask("nvmlDeviceGetMemoryInfo", Memory, card).used / 1e6,
    "gpu_total_mb": lambda nvml, card: nvml.ask("nvmlDeviceGetMemoryInfo", Memory, card).total / 1e6,
    "gpu_celsius": lambda nvml, card: nvml.ask("nvmlDeviceGetTemperature", ctypes.c_uint, card, ctypes.c_uint(0)).value,
    "gpu_watts": lambda nvml, card: nvml.ask("nvmlDeviceGetPowerUsage", ctypes.c_uint, card).value / 1000,
    "gpu_watts_limit": lambda nvml, card: nvml.ask("nvmlDeviceGetEnforcedPowerLimit", ctypes.c_uint, card).value / 1000,
    "gpu_slowed": lambda nvml, card: (
        nvml.ask("nvmlDeviceGetCurrentClocksThrottleReasons", ctypes.c_ulonglong, card).value
    ),
}
"""gpu_busy is the share of the time in which any kernel ran, however little of the card it used; gpu_slowed the sum of
the reasons that NVML gives, see `describe_slowdown`."""


def describe_slowdown(reasons: float) -> str:
    """Why the clock is slowed, in words; "" = it is not.

    >>> describe_slowdown(0x01), describe_slowdown(0x24)
    ('', 'power limit, temperature')
    """
    return ", ".join(word for bit, word in SLOWED.items() if int(reasons) & bit)


class Card:
    """One card.

    trouble   why it says nothing; "" = it does
    """

    def __init__(self, uuid: str = "", nvml: Optional[Nvml] = None, card: Any = None) -> None:
        """`uuid` with or without "GPU-"; or a `card` of an initialized `nvml`."""
        self.trouble = ""
        self.readings = dict(READINGS)
        try:
            self.nvml = nvml or Nvml()
            self.card = card or self.nvml.find(uuid if "-" in uuid[:4] else "GPU-" + uuid)
        except NvmlError as error:  # no driver, no rights, a part of a card that NVML does not name, …
            self._give_up(error)

    def read(self) -> Dict[str, float]:
        """The values by the names of READINGS; those that this card does not have are missing, all in case of trouble.
        Takes a few milliseconds."""
        values: Dict[str, float] = {}
        if self.trouble:
            return values
        for name, reading in list(self.readings.items()):
            try:
                values[name] = float(reading(self.nvml, self.card))
            except NvmlError as error:
                if error.code != UNSUPPORTED:
                    self._give_up(error)
                    return {}
                del self.readings[name]
        return values

    def _give_up(self, error: NvmlError) -> None:
        self.trouble = "the card's power, temperature and memory are not read: %s" % error


class Cards:
    """All cards of the machine. trouble: why there are none, "" = there are."""

    def __init__(self) -> None:
        self.trouble = ""
        self.cards: List[Tuple[Dict[str, Any], Card]] = []
        try:
            nvml = Nvml()
            for index, handle in enumerate(nvml.cards()):
                about = {"uuid": nvml.text("nvmlDeviceGetUUID", handle), "name": nvml.text("nvmlDeviceGetName", handle)}
                self.cards.append((dict(about, index=index), Card("", nvml, handle)))
        except NvmlError as error:
            self.trouble = str(error)

    def read(self) -> Tuple[List[Dict[str, Any]], Dict[int, List[Use]]]:
        """What each card says, and {pid: [(card, bytes on it, share of its time)]}."""
        rows: List[Dict[str, Any]] = []
        processes: Dict[int, List[Use]] = {}
        for about, card in self.cards:
            rows.append(dict(about, **card.read(), trouble=card.trouble))
            if card.trouble:
                continue
            shares = card.nvml.shares(card.card)
            for pid, used in card.nvml.processes(card.card).items():
                processes.setdefault(pid, []).append((about["index"], used, shares.get(pid)))
        return rows, processes
