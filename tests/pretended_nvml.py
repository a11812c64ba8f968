"""A stand-in for libnvidia-ml.so.1 that is called as the library is: pointers in, numbers behind them, a status out.

Standard library only, so that it also runs before the reader on another machine (`prelude`).
"""

import ctypes
import json  # noqa: F401 - for the lines of `prelude`
import os  # noqa: F401

SUCCESS, UNSUPPORTED, NOT_FOUND, TOO_SMALL, LOST = 0, 3, 6, 7, 15
LIBRARY = "libnvidia-ml.so.1"


class PretendedNvml:
    """Cards in NVML's order, as dictionaries (`a_card`). `absent` are functions that the driver is too old for, and
    `unsupported` those that the cards refuse; `lost`: they fell off the bus."""

    def __init__(self, cards, absent=(), unsupported=(), lost=False):
        self.cards, self.absent, self.unsupported, self.lost = cards, absent, unsupported, lost
        self.asked = []

    def __getattr__(self, name):
        function = FUNCTIONS.get(name)
        if function is None or name in self.absent:
            raise AttributeError(name)

        def called(*given):
            self.asked.append(name)
            if self.lost and name.startswith("nvmlDeviceGet"):
                return LOST
            if name in self.unsupported:
                return UNSUPPORTED
            return function(self, *given)

        return called

    def of(self, handle):
        return self.cards[handle.value - 1]


def number(key):
    def read(nvml, handle, out):
        out._obj.value = nvml.of(handle)[key]
        return SUCCESS

    return read


def text(key):
    def read(nvml, handle, buffer, size):
        data = nvml.of(handle)[key].encode()
        if len(data) >= size.value:
            return TOO_SMALL
        buffer.value = data
        return SUCCESS

    return read


def count(nvml, out):
    out._obj.value = len(nvml.cards)
    return SUCCESS


def by_index(nvml, index, out):
    out._obj.value = index.value + 1
    return SUCCESS


def by_uuid(nvml, uuid, out):
    names = [card["uuid"].encode() for card in nvml.cards]
    if uuid not in names:
        return NOT_FOUND
    out._obj.value = names.index(uuid) + 1
    return SUCCESS


def utilization(nvml, handle, out):
    out._obj.gpu, out._obj.memory = nvml.of(handle)["percent"], 1
    return SUCCESS


def memory(nvml, handle, out):
    card = nvml.of(handle)
    out._obj.total, out._obj.used, out._obj.free = card["total"], card["used"], card["total"] - card["used"]
    return SUCCESS


def processes(key):
    def read(nvml, handle, size, entries):
        there = nvml.of(handle)[key]
        room, size._obj.value = size._obj.value, len(there)
        if len(there) > room:
            return TOO_SMALL
        for entry, (pid, used) in zip(entries, there.items()):
            entry.pid, entry.used = int(pid), 2**64 - 1 if used is None else used
        return SUCCESS

    return read


def samples(nvml, handle, entries, size, since):
    there = nvml.of(handle)["samples"]
    if not there:
        return NOT_FOUND
    size._obj.value = len(there)
    for entry, (pid, time, busy) in zip(entries, there):
        entry.pid, entry.time, entry.busy = pid, time, busy
    return SUCCESS


FUNCTIONS = {
    "nvmlInit_v2": lambda nvml: SUCCESS,
    "nvmlDeviceGetCount_v2": count,
    "nvmlDeviceGetHandleByIndex_v2": by_index,
    "nvmlDeviceGetHandleByUUID": by_uuid,
    "nvmlDeviceGetUUID": text("uuid"),
    "nvmlDeviceGetName": text("name"),
    "nvmlDeviceGetUtilizationRates": utilization,
    "nvmlDeviceGetMemoryInfo": memory,
    "nvmlDeviceGetTemperature": lambda nvml, handle, sensor, out: number("celsius")(nvml, handle, out),
    "nvmlDeviceGetPowerUsage": number("milliwatts"),
    "nvmlDeviceGetEnforcedPowerLimit": number("limit"),
    "nvmlDeviceGetCurrentClocksThrottleReasons": number("slowed"),
    "nvmlDeviceGetComputeRunningProcesses": processes("compute"),
    "nvmlDeviceGetComputeRunningProcesses_v3": processes("compute"),
    "nvmlDeviceGetGraphicsRunningProcesses_v3": processes("graphics"),
    "nvmlDeviceGetProcessUtilization": samples,
}


def a_card(index=0, **values):
    """An H100 with nothing on it; `compute` and `graphics` are {pid: bytes}, `samples` [(pid, microseconds, %)]."""
    card = {"uuid": "GPU-%08d-aaaa" % index, "name": "NVIDIA H100 80GB HBM3", "percent": 0, "celsius": 34}
    card.update({"used": 600_000_000, "total": 85_000_000_000, "milliwatts": 70_000, "limit": 700_000, "slowed": 1})
    card.update({"compute": {}, "graphics": {}, "samples": []})
    card.update(values)
    return card


def install(nvml):
    """Replace the library in this process; returns what was there."""
    before = ctypes.CDLL

    def load(name, *rest, **named):
        if name != LIBRARY:
            return before(name, *rest, **named)
        if nvml is None:
            raise OSError(name)
        return nvml

    ctypes.CDLL = load
    return before


def prelude():
    """Lines for the reader on another machine (far_machine.py): it has the cards that $PRETENDED names, or none."""
    with open(__file__) as file:
        code = file.read().partition("\ndef prelude")[0]
    return code + "\ncards = json.loads(os.environ['PRETENDED'])\ninstall(PretendedNvml(cards) if cards else None)\n"
