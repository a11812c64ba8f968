"""Alerts: trouble in a run, detected from its rows alone by robust statistics, and the user's command that is notified.

    not finite   a loss, or a metric that was finite before, is NaN or infinite
    spike        a loss is high above the 100 rows before it: the median of its last 5 by 6 σ and 10 %, or one value by
                 20 σ and 100 %; σ = 1.4826 · the median absolute deviation
    slow         the last 3 windows of 10 s and 20 rows made less than half of the median of the windows before, steps/s
    stalled      no row for 5 times the longest silence so far, 60 s at least (10 minutes before the first row)
    disk         less than 1 GiB is free, or less than 2 % of a disk under 50 GiB

Notable: each kind warns once, and about the same metric again only after it has recovered: after NaN once it is finite
again, after a spike once 100 rows have set a new baseline, a number that doubles each time. No step of an ordinary loss
curve of 100 000 noisy steps is reported (tests/runs/test_alerts.py).
"""

from __future__ import annotations

import math
import os
import shlex
import subprocess
import tempfile
import tomllib
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Literal

import orjson
from platformdirs import user_config_path

from txlab.errors import LabError
from txlab.files import read_regular
from txlab.runs.as_json import encode_json
from txlab.runs.root import environment_of_child

Level = Literal["info", "warning", "error"]
LEVELS: tuple[Level, ...] = ("info", "warning", "error")
LOSSES = ("loss", "nll", "cross_entropy", "train_loss", "training_loss", "val_loss", "valid_loss", "eval_loss")

NORMAL, RECENT, AT_LEAST = 100, 5, 30  # rows: of the baseline, of the recent values, and the shortest baseline
SIGMA = 1.4826  # median absolute deviation of a normal distribution → its standard deviation
LIFTED, LIFTED_BY = 6.0, 1.1  # in σ, and as a factor
JUMPED, JUMPED_BY = 20.0, 2.0
REFRESH = 10  # rows after which the baseline is recomputed (sorting 100 numbers takes 20 µs)

WINDOW_SECONDS, WINDOW_ROWS = 10.0, 20
WINDOWS, WINDOWS_KNOWN, WINDOWS_SLOW = 60, 12, 3
SLOW = 0.5

SILENCES, SILENT_AT_LEAST, SILENT_FIRST = 5.0, 60.0, 600.0
DISK_LEAST, DISK_SHARE = 1 << 30, 0.02


@dataclass(frozen=True)
class Alert:
    """One alert. `kind` is the check that raised it; "" = the loop itself."""

    title: str
    text: str = ""
    level: Level = "warning"
    kind: str = ""


def is_loss(name: str) -> bool:
    """Whether a metric is a loss that should fall: `loss`, `train/loss`, but not the loss of a policy.

    >>> is_loss("train/loss"), is_loss("policy_loss"), is_loss("lr")
    (True, False, False)
    """
    return name.rpartition("/")[2].lower() in LOSSES


@dataclass
class LossWatch:
    """The last values of one loss; `normal` and `sigma` are of those before the recent ones."""

    values: deque[float] = field(default_factory=lambda: deque(maxlen=NORMAL + RECENT))
    normal: float = math.nan
    sigma: float = 0.0
    age: int = REFRESH
    quiet: int = 0  # rows for which it stays silent
    jumps: int = 0

    def add(self, value: float) -> str:
        """Add a finite value; returns how it is a spike, "" if it is not one."""
        self.values.append(value)
        if self.quiet:
            self.quiet -= 1
            return ""
        if len(self.values) < AT_LEAST + RECENT:
            return ""
        self.age += 1
        if self.age > REFRESH:
            self.age = 1
            before = list(self.values)[:-RECENT]
            self.normal = median(before)
            self.sigma = SIGMA * median(abs(each - self.normal) for each in before)
        above, size = value - self.normal, abs(self.normal)
        if above <= LIFTED * self.sigma or above <= (LIFTED_BY - 1) * size:  # nearly always
            return ""
        recent = median(list(self.values)[-RECENT:])
        lifted = recent - self.normal > max(LIFTED * self.sigma, (LIFTED_BY - 1) * size)
        if not lifted and above <= max(JUMPED * self.sigma, (JUMPED_BY - 1) * size):
            return ""
        self.jumps += 1
        self.quiet, self.age = NORMAL * 2 ** min(self.jumps - 1, 10), REFRESH
        shown = recent if lifted else value
        return f"{shown:.4g}, and {self.normal:.4g} ± {self.sigma:.2g} before" + ("" if lifted else ", in one row")


class Alarms:
    """Detects trouble in the rows of one run, in the order in which they are written; times are Unix seconds.

    `metrics` is called for each row of metrics, `look` about once a second by a clock, `rest` when the run is paused or
    resumed, because the speed before says nothing about the speed after. Costs 2.4 µs per row with one loss.
    """

    def __init__(self, now: float) -> None:
        self.losses: dict[str, LossWatch] = {}
        self.kinds: dict[str, bool] = {}  # name → whether it is a loss
        self.bad: set[str] = set()  # metrics that are not finite now
        self.finite: set[str] = set()  # metrics that were finite once
        self.rows = 0
        self.last = now  # time of the last row
        self.silence = 0.0  # the longest so far
        self.resting = self.stalled = self.full = False
        self.began: tuple[float, int, int] | None = None  # time, step and rows at the beginning of this window
        self.speeds: deque[float] = deque(maxlen=WINDOWS)
        self.slow = False

    def metrics(self, step: int, values: dict[str, Any], now: float) -> list[Alert]:
        """The alerts that one row of metrics gives rise to."""
        alerts = []
        for name, value in values.items():
            loss = self.kinds.get(name)
            if loss is None:
                loss = self.kinds[name] = is_loss(name)
            if not math.isfinite(value):
                if name not in self.bad and (loss or name in self.finite):
                    level: Level = "error" if loss else "warning"
                    alerts.append(Alert(f"{name} is {_name_of(value)}", f"at step {step}", level, "not finite"))
                self.bad.add(name)
                continue
            self.bad.discard(name)
            if not loss:
                self.finite.add(name)
            elif jump := self.losses.setdefault(name, LossWatch()).add(value):
                alerts.append(Alert(f"{name} jumped", f"{jump}, at step {step}", "warning", "spike"))
        if self.rows:
            self.silence = max(self.silence, now - self.last)
        self.rows += 1
        self.last, self.stalled = now, False
        if self.began is None or step < self.began[1]:
            self.began = (now, step, self.rows)
        elif now - self.began[0] >= WINDOW_SECONDS and self.rows - self.began[2] >= WINDOW_ROWS:
            alerts += self._speed((step - self.began[1]) / (now - self.began[0]), step)
            self.began = (now, step, self.rows)
        return alerts

    def _speed(self, speed: float, step: int) -> list[Alert]:
        self.speeds.append(speed)
        if len(self.speeds) < WINDOWS_KNOWN + WINDOWS_SLOW:
            return []
        known = list(self.speeds)
        before = median(known[:-WINDOWS_SLOW])
        if max(known[-WINDOWS_SLOW:]) >= SLOW * before:
            self.slow = False
            return []
        if self.slow:
            return []
        self.slow = True
        now = median(known[-WINDOWS_SLOW:])
        return [Alert("slower", f"{now:.3g} steps/s, and {before:.3g} before, at step {step}", "warning", "slow")]

    def rest(self, now: float, resting: bool) -> None:
        """Note that the run is paused, waits for the user, or continues."""
        self.resting, self.last, self.began, self.stalled = resting, now, None, False

    def look(self, now: float, free: float, size: float) -> list[Alert]:
        """The alerts of the clock: silence, and the disk with `free` of `size` bytes."""
        alerts = []
        silent = now - self.last
        allowed = max(SILENT_AT_LEAST, SILENCES * self.silence) if self.rows else SILENT_FIRST
        if silent > allowed and not self.resting and not self.stalled:
            self.stalled = True
            longest = f"; the longest silence before was {self.silence:.0f} s" if self.rows > 1 else ""
            alerts.append(Alert("stalled", f"no numbers for {silent:.0f} s{longest}", "warning", "stalled"))
        least = min(DISK_LEAST, DISK_SHARE * size)
        if free < least and not self.full:
            self.full = True
            alerts.append(Alert("disk nearly full", f"{free / 1e6:.0f} MB are left", "warning", "disk"))
        elif free > 2 * least:
            self.full = False
        return alerts


def _name_of(value: float) -> str:
    return "NaN" if math.isnan(value) else "infinite" if value > 0 else "−infinite"


# The user's command

VARIABLE, KEY = "TXLAB_ALERT_COMMAND", "alert_command"
LARGEST_FILE = 64 * 1024
AT_ONCE = 8  # commands that may still be running; alerts beyond are only recorded


def settings_file() -> Path:
    """The user's configuration file, which the console reads too."""
    return user_config_path("txlab", appauthor=False) / "config.toml"


def command() -> list[str]:
    """The words of the command that is started for each alert, from config.toml or $TXLAB_ALERT_COMMAND; [] = none.
    Raises LabError if the setting is not a command."""
    text: Any = os.environ.get(VARIABLE)
    where = f"${VARIABLE}"
    if text is None:
        where = f"{settings_file()}: {KEY}"
        try:
            text = tomllib.loads(read_regular(settings_file(), LARGEST_FILE).decode()).get(KEY, "")
        except (OSError, ValueError, RecursionError):
            return []  # the console says what is wrong with the file
    try:
        return shlex.split(text)
    except (ValueError, AttributeError, TypeError) as error:
        raise LabError(f"{where} = {str(text)[:60]!r} is not a command: {error}") from None


class AlertCommand:
    """Starts the user's command for each alert of one run, and reaps finished ones.

    Notable: the command is never taken from a run directory or a scenario, which may come from another user. It is
    split into words by shlex and started without a shell, with the alert as JSON on its standard input. Nothing waits
    for it.
    """

    def __init__(self) -> None:
        self.started: list[subprocess.Popen[bytes]] = []

    def tell(self, alert: dict[str, Any]) -> str:
        """Start the command with the alert; returns why that failed, "" if it succeeded or there is no command."""
        self.started = [each for each in self.started if each.poll() is None]
        try:
            words = command()
            if not words:
                return ""
            if len(self.started) >= AT_ONCE:
                return f"{AT_ONCE} alert commands are still running; this alert started none"
            with tempfile.TemporaryFile() as file:  # a pipe would need a thread that writes into it
                file.write(encode_json(alert, orjson.OPT_APPEND_NEWLINE))
                file.seek(0)
                self.started.append(
                    subprocess.Popen(
                        words,
                        env=environment_of_child(),
                        stdin=file,
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL,
                        start_new_session=True,  # ctrl-c is for the run
                    )
                )
        except LabError as error:
            return str(error)
        except (OSError, ValueError) as error:  # no such program, no disk for its input; a NUL in a word
            return f"the alert command was not started: {getattr(error, 'strerror', None) or error}"
        return ""
