"""What a machine does at the moment: its cards, its processes and which run each computes, processors, memory, disks.

Sent to the agent on other machines, so it needs the standard library only, and Python 3.6; this machine is read by
the same code. From NVML (engine/card.py) and from /proc.

Notable: a process is known by its id and its start, because ids are used again: a heartbeat that was written before the
process started is not its heartbeat. The names of other users' processes may be hidden; their memory on a card is not.
"""

import json
import os
import pwd
import socket
import threading
import time
from typing import Any, Dict, List, Optional, Tuple

from txlab.engine.card import Cards
from txlab.runs.remote.agent import contents, encodable, mark_of, within

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
SLACK = 1.0  # seconds that the start of a process, counted from the start of the machine, may be wrong
SCAN_EVERY = 10.0  # seconds between two looks at the heartbeats
BUSY = 0.2  # of a core: a process that is listed although it has no card and no run
MOST_BUSY, MOST_PROCESSES, MOST_RUNS = 12, 300, 5000
LONGEST = 200  # characters of a command line
MOST_STEPS = 2**53
REST = 20  # a reading is repeated after this many times the processor time that it took
EVERY, LEAST_OFTEN = 1.5, 5.0  # seconds between two readings


def read_text(path: str, most: int = 1 << 16) -> str:
    """The beginning of a file of /proc; "" if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(most).decode("utf-8", "replace")
    except OSError:
        return ""


class Box:
    """Readings of this machine; shares of time are those since the reading before."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.cards: Optional[Cards] = None  # a driver that sleeps takes seconds to wake up
        self.before: Dict[str, Any] = {}
        self.timed = 0.0  # when the processes were last read
        self.users: Dict[int, str] = {}
        self.spent: Dict[Tuple[int, int], float] = {}  # (pid, start) → seconds of processor time
        self.beats: Dict[str, Any] = {}  # name of a run → (mark, heartbeat): process, time and step
        self.scanned = float("-inf")
        self.newest: Dict[str, Any] = {}
        self.reading: Optional[threading.Thread] = None
        self.due, self.failed = 0.0, ""

    def latest(self) -> Dict[str, Any]:
        """The last reading; the next one is taken in a thread, so that a card that does not answer holds up nothing."""
        if not (self.reading and self.reading.is_alive()) and time.time() >= self.due:
            self.reading = threading.Thread(target=self.try_to_read, daemon=True)
            self.reading.start()
            self.reading.join(0.5)
        return self.newest

    def try_to_read(self) -> None:
        spent = time.process_time()
        try:
            self.newest, self.failed = self.read(), ""
        except Exception as error:  # a /proc of another form: said to the user, not printed into the connection
            self.failed = str(error) if isinstance(error, OSError) else "%s: %s" % (type(error).__name__, error)
        spent = time.process_time() - spent
        self.due = time.time() + min(LEAST_OFTEN, max(EVERY, REST * spent))

    def read(self) -> Dict[str, Any]:
        began = time.time()
        self.cards = self.cards or Cards()
        cards, on_cards = self.cards.read()
        processes = self.processes()
        chosen = self.choose(processes, on_cards)
        state = self.machine(began)
        state.update(cards=cards, trouble=self.cards.trouble, processes=chosen, count=len(processes))
        return state

    # The machine

    def machine(self, now: float) -> Dict[str, Any]:
        times = [int(each) for each in read_text("/proc/stat").partition("\n")[0].split()[1:9]]
        idle, total = sum(times[3:5]), sum(times)
        disks = [
            line.split() for line in read_text("/proc/diskstats").splitlines() if len(line.split()) > 12
        ]  # columns: kernel's Documentation/admin-guide/iostats.rst
        disks = [line for line in disks if os.path.exists("/sys/block/%s/device" % line[2])]
        written = {line[2]: int(line[12]) for line in disks}
        here: Dict[str, Any] = {"now": now, "idle": idle, "total": total, "disks": written}
        then, self.before = self.before, here
        passed = 1000 * (now - then["now"]) if then else 0.0
        worked = [ticks - then["disks"].get(name, ticks) for name, ticks in written.items()] if then else []
        kilobytes = {line.split(":")[0]: line.split()[1] for line in read_text("/proc/meminfo").splitlines()}
        memory = 1024 * int(kilobytes.get("MemTotal", 0))
        free = 1024 * int(kilobytes.get("MemAvailable", kilobytes.get("MemFree", 0)))
        ran = total - then["total"] if then else 0
        return {
            "host": socket.gethostname(),
            "time": now,
            "cores": os.cpu_count() or 1,
            "busy": min(1.0, max(0.0, 1 - (idle - then["idle"]) / ran)) if ran > 0 else None,
            "load": os.getloadavg()[0],
            "memory_mb": max(0, memory - free) / 1e6,
            "total_mb": memory / 1e6,
            "disk_busy": min(1.0, max(0, *worked) / passed) if worked and passed > 0 else None,
            "disks": self.disks(),
        }

    def disks(self) -> List[Dict[str, Any]]:
        """The file systems of the runs and of the machine itself."""
        found: Dict[int, Dict[str, Any]] = {}
        for path in (self.root or os.path.expanduser("~"), "/"):
            shown = path[-LONGEST:].encode("utf-8", "replace").decode()
            try:
                device, about = os.stat(path).st_dev, os.statvfs(path)
            except OSError:
                continue
            total, free = about.f_blocks * about.f_frsize, about.f_bavail * about.f_frsize
            found.setdefault(device, {"path": shown, "free_mb": free / 1e6, "total_mb": total / 1e6})
        return list(found.values())

    # Processes

    def processes(self) -> Dict[int, Dict[str, Any]]:
        """Every process that can be seen, by its id; `cpu` is in cores."""
        if not os.path.exists("/proc/stat"):
            raise OSError("processes are read from Linux's /proc, which is not there")
        uptime = read_text("/proc/uptime").split()
        now = time.time()
        boot, found, spent = now - float(uptime[0]) if uptime else 0.0, {}, {}
        passed = now - self.timed if self.timed else 0.0
        for name in os.listdir("/proc"):
            head, _, rest = read_text("/proc/%s/stat" % name, 4096).rpartition(")") if name.isdigit() else ("", "", "")
            fields = rest.split()
            if len(fields) < 22 or fields[0] in "ZX":
                continue
            pid, start = int(name), int(fields[19])
            key = pid, start
            spent[key] = (int(fields[11]) + int(fields[12])) / TICKS
            ran = spent[key] - self.spent.get(key, spent[key])
            found[pid] = {
                "pid": pid,
                "parent": int(fields[1]),
                "started": boot + start / TICKS,
                "name": head.partition("(")[2][:64],
                "cpu": max(0.0, ran) / passed if passed > 0 else 0.0,
                "memory_mb": int(fields[21]) * PAGE / 1e6,
            }
        self.spent, self.timed = spent, now
        return found

    def choose(self, processes: Dict[int, Dict[str, Any]], on_cards: Dict[int, Any]) -> List[Dict[str, Any]]:
        """The processes on cards, those that compute runs, and the busiest others, described in full."""
        runs = self.runs(processes)
        busy = sorted(processes, key=lambda pid: -processes[pid]["cpu"])[:MOST_BUSY]
        busy = [pid for pid in busy if processes[pid]["cpu"] >= BUSY]
        chosen = []
        for pid in list(dict.fromkeys(list(on_cards) + list(runs) + busy))[:MOST_PROCESSES]:
            about = dict(processes.get(pid, {"pid": pid}))  # not in /proc: hidden, or in another name space
            about.pop("parent", None)
            about["user"] = self.owner_of(pid)
            words = read_text("/proc/%d/cmdline" % pid, 4 * LONGEST).split("\0")
            about["command"] = " ".join(words).strip()[:LONGEST]
            about["run"] = self.run_of(pid, processes, runs)
            about["step"] = self.beats[about["run"]][1][2] if about["run"] else None
            about["cards"] = [
                {"index": card, "mb": None if used is None else used / 1e6, "busy": share}
                for card, used, share in on_cards.get(pid, ())
            ]
            chosen.append(about)
        return chosen

    def owner_of(self, pid: int) -> str:
        """The user of a process, by number without a name; "" if the process cannot be seen."""
        try:
            number = os.stat("/proc/%d" % pid).st_uid
        except OSError:
            return ""
        if number not in self.users:
            try:
                self.users[number] = pwd.getpwuid(number).pw_name
            except KeyError:
                self.users[number] = str(number)
        return self.users[number]

    # Runs

    def runs(self, processes: Dict[int, Dict[str, Any]]) -> Dict[int, str]:
        """{pid: run} of the runs whose heartbeat names a living process of this machine."""
        if time.time() - self.scanned > SCAN_EVERY:
            self.scanned, self.beats = time.time(), self.scan()
        found: Dict[int, Tuple[float, str]] = {}
        for name, (_, beat) in self.beats.items():  # (process, time, step)
            if beat and beat[0] in processes and processes[beat[0]]["started"] <= beat[1] + SLACK:
                found[beat[0]] = max((beat[1], name), found.get(beat[0], (0.0, "")))
        return {pid: name for pid, (_, name) in found.items()}

    def scan(self) -> Dict[str, Any]:
        beats = {}
        try:
            names = sorted(filter(encodable, os.listdir(self.root)), reverse=True)[:MOST_RUNS] if self.root else []
        except OSError:
            names = []
        for name in names:
            try:
                with within(self.root, name) as folder:
                    mark = mark_of(folder, "heartbeat")
                    if mark is None or mark == self.beats.get(name, (None,))[0]:
                        beats[name] = self.beats.get(name, (None, None))
                    else:
                        beats[name] = mark, living(contents(folder, "heartbeat", 4096))
            except OSError:  # not a folder, or not ours to read
                continue
        return beats

    def run_of(self, pid: int, processes: Dict[int, Dict[str, Any]], runs: Dict[int, str]) -> str:
        """The run that a process computes: its own, one of an ancestor, or that of a rank beside it under torchrun."""
        for _ in range(9):
            if pid in runs:
                return runs[pid]
            parent = processes[pid]["parent"] if pid in processes else 0
            beside = [run for each, run in runs.items() if processes[each]["parent"] == parent > 1]
            words = read_text("/proc/%d/cmdline" % parent, 4096) if beside else ""
            if "torchrun" in words or "torch.distributed.run" in words:
                return beside[0]
            pid = parent
        return ""


def living(data: Optional[bytes]) -> Optional[Tuple[int, float, Optional[int]]]:
    """(pid, time, step) of a heartbeat of a run that computes on this machine; None for any other."""
    try:
        beat = json.loads((data or b"").decode())
        ours = beat["host"] == socket.gethostname() and beat["status"] in ("running", "paused")
        step = beat.get("step")
        step = step if type(step) is int and 0 <= step <= MOST_STEPS else None
        return (int(beat["pid"]), float(beat["time"]), step) if ours else None
    except (ValueError, KeyError, TypeError, OverflowError):
        return None
