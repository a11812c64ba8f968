"""`txlab doctor`: the capabilities of this machine and terminal, and how to fix what is missing.

Notable: it changes nothing, does not query the terminal (waiting for a missing answer would hang), and imports torch
last and reports the time, because that is the slowest part of starting txlab.
"""

from __future__ import annotations

import locale
import os
import platform
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Annotated, Literal

import typer

from txlab.cli import options
from txlab.cli.output import print_rows
from txlab.cli.terminal import ascii_asked, ascii_only, colour_text, columns, sanitize
from txlab.errors import one_line

MARKS = {"good": ("✓", "+", 32), "note": ("!", "!", 33), "bad": ("✗", "x", 31)}


@dataclass(frozen=True)
class Finding:
    """One line of the report: its severity, the check, the result, and advice (if any)."""

    verdict: Literal["good", "note", "bad"]
    name: str
    result: str
    advice: str = ""


def good_unless(doubtful: bool, name: str, result: str, advice: str) -> Finding:
    """Return a note with the advice if in doubt, else a good finding."""
    return Finding("note", name, result, advice) if doubtful else Finding("good", name, result)


def doctor(
    json: options.JsonLines = False,
    csv: options.Csv = False,
    torch: Annotated[bool, typer.Option("--torch/--no-torch", help="also import torch and ask for devices")] = True,
) -> None:
    """Check this machine and terminal, with advice on what to fix.

    Exit status 1 if something prevents runs or the console.
    """
    verdicts: set[str] = set()

    def findings() -> Iterator[Finding]:
        for finding in examine(torch):
            verdicts.add(finding.verdict)
            yield finding

    if not print_rows(map(asdict, findings()), json, csv):
        for finding in findings():
            mark, plain, colour = MARKS[finding.verdict]
            head = colour_text(plain if ascii_only() else mark, colour)
            print(f"{head} {finding.name:<12} {indent(sanitize(finding.result), 15)}", flush=True)
            if finding.advice:
                print(" " * 4 + indent(sanitize(finding.advice), 4), flush=True)
    raise typer.Exit(1 if "bad" in verdicts else 0)


def indent(text: str, margin: int) -> str:
    """Wrap a text at spaces to fit the terminal, with continuation lines indented by `margin`; a pipe gets one line."""
    if not sys.stdout.isatty():
        return text
    lines = textwrap.wrap(text, max(20, columns() - margin - 1), break_long_words=False, break_on_hyphens=False)
    return ("\n" + " " * margin).join(lines)


def examine(torch: bool = True) -> Iterator[Finding]:
    """Yield all findings, the quick ones first."""
    yield python()
    yield from packages()
    yield processors()
    yield memory()
    yield disk()
    yield openmp()
    yield from terminal(os.environ)
    yield from multiplexer(os.environ)
    if torch:
        yield from devices()


def python() -> Finding:
    version = f"{platform.python_version()} ({sys.executable}), {platform.system()} {platform.machine()}"
    return Finding("good" if sys.version_info >= (3, 11) else "bad", "Python", version)


def packages() -> Iterator[Finding]:
    from importlib.metadata import PackageNotFoundError, version  # 30 ms, and every command imports this module

    try:
        yield Finding("good", "torch", version("torch"))
    except PackageNotFoundError:
        yield Finding("bad", "torch", "not installed", "pip install torch; without it runs can be viewed, not computed")
    yield Finding("good", "textual", version("textual"))


def processors() -> Finding:
    """Check the cores that this process may use, and their load."""
    from txlab.engine.cores import cores

    here = cores()
    try:
        load = os.getloadavg()[0]
    except OSError:
        return Finding("good", "cores", f"{here}")
    text = f"{here} of {os.cpu_count()} usable, load {load:.1f}"
    busy = "other processes are busy; the probe may choose fewer threads, runs are slower"
    return good_unless(load > 0.7 * here, "cores", text, busy)


def memory() -> Finding:
    import psutil

    about = psutil.virtual_memory()
    free, total = about.available / 2**30, about.total / 2**30
    need = "torch and a small model need about 0.6 GiB"
    return good_unless(free < 1, "memory", f"{free:.1f} GiB free of {total:.1f}", need)


def disk() -> Finding:
    """Check the free space where runs are written, and whether the folder is writable."""
    from txlab.runs.folder import first_existing
    from txlab.runs.root import default_root

    root = default_root().absolute()
    there = first_existing(root)
    free = shutil.disk_usage(there).free / 2**30
    text = f"runs go to {root}, {free:.1f} GiB free"
    if not os.access(there, os.W_OK):
        return Finding("bad", "disk", f"{text}, not writable", "name another folder: txlab --runs DIR …, or TXLAB_RUNS")
    kept = "a run keeps up to record.frames_mb of frames (64 MB), and its checkpoints"
    return good_unless(free < 1, "disk", text, kept)


def openmp() -> Finding:
    """Check OpenMP's spinning: threads that spin slow a busy machine; a run sets the count before importing torch."""
    spin, threads = os.environ.get("GOMP_SPINCOUNT"), os.environ.get("OMP_NUM_THREADS")
    text = f"GOMP_SPINCOUNT {spin or 'is set to 10000 by each run'}, OMP_NUM_THREADS {threads or 'unset'}"
    spins = os.environ.get("OMP_WAIT_POLICY", "").lower() == "active" or (spin or "0").lower() == "infinity"
    slow = "waiting threads spin: with other busy processes runs become many times slower"
    return good_unless(spins, "OpenMP", text, slow)


def terminal(environment: os._Environ[str] | dict[str, str]) -> Iterator[Finding]:
    """Check the terminal's name, size, colours, Unicode and clipboard."""
    term = environment.get("TERM", "")
    size = shutil.get_terminal_size((0, 0))
    here = sys.stdout.isatty()
    if not here:
        advice = "the console needs one; every command works without"
        yield Finding("note", "terminal", "standard output is not a terminal", advice)
    elif term in ("", "dumb", "unknown"):
        advice = "the console cannot draw here; set TERM, e.g. xterm-256color"
        yield Finding("bad", "terminal", f"TERM is {term or 'not set'}", advice)
    else:
        small = size.columns < 80 or size.lines < 24
        advice = "the console is made for 80×24 and more"
        yield good_unless(small, "terminal", f"{term}, {size.columns}×{size.lines}", advice)
    yield colours(environment)
    encoding = getattr(sys.stdout, "encoding", "") or "unknown"
    name = f"{encoding}, locale {'.'.join(part for part in locale.getlocale() if part) or 'C'}"
    if ascii_only():
        asked = ascii_asked()
        advice = "" if asked else "characters are drawn in ASCII; for the better ones: export LC_ALL=C.UTF-8"
        yield Finding("note", "Unicode", name + (", ASCII requested" if asked else ""), advice)
    else:
        yield Finding("good", "Unicode", f"{name}; these are four cells: ▁▄█⣿")
    if here:
        yield Finding("good", "clipboard", "copies go through the terminal (OSC 52), so also over SSH", "")


def colours(environment: os._Environ[str] | dict[str, str]) -> Finding:
    """Check the colour depth that programs will detect."""
    term, colorterm = environment.get("TERM", ""), environment.get("COLORTERM", "")
    variables = f"TERM={term or '–'} COLORTERM={colorterm or '–'}"
    if environment.get("NO_COLOR"):
        return Finding("note", "colours", "none: NO_COLOR is set")
    if term in ("", "dumb", "unknown"):
        return Finding("note", "colours", f"none: TERM is {term or 'not set'}")
    known = ("xterm-kitty", "alacritty", "xterm-ghostty", "foot")
    if colorterm in ("truecolor", "24bit") or "direct" in term or term in known:
        return Finding("good", "colours", f"16 million ({variables})")
    if "256" in term:
        lost = "if your terminal has more (SSH does not pass COLORTERM on): export COLORTERM=truecolor"
        if environment.get("TMUX"):
            lost = "export COLORTERM=truecolor: tmux turns colours that the terminal outside lacks into ones it has"
        return Finding("note", "colours", f"256 ({variables})", lost)
    lost = "if your terminal has more: export TERM=xterm-256color COLORTERM=truecolor"
    return Finding("note", "colours", f"16 ({variables})", lost)


def multiplexer(environment: os._Environ[str] | dict[str, str]) -> Iterator[Finding]:
    """Check what tmux and screen filter out, with the lines of configuration that fix it."""
    if environment.get("TMUX"):
        names = ("escape-time", "default-terminal", "focus-events", "set-clipboard")
        options = {name: tmux_option(name) for name in names}
        advice = []
        if (options["escape-time"] or "0").isdigit() and int(options["escape-time"] or 0) > 50:
            advice.append("set -sg escape-time 10   # Esc without delay")
        if options["default-terminal"] and "256color" not in options["default-terminal"]:
            advice.append("set -g default-terminal tmux-256color   # colours")
        if options["focus-events"] == "off":
            advice.append("set -g focus-events on")
        if options["set-clipboard"] == "off":
            advice.append("set -g set-clipboard on   # copying")
        known = ", ".join(f"{name} {value}" for name, value in options.items() if value)
        text = f"in ~/.tmux.conf: {'; '.join(advice)}" if advice else ""
        yield good_unless(bool(advice), "tmux", known or "its options cannot be queried", text)
    elif environment.get("STY") or environment.get("TERM", "").startswith("screen"):
        text = (
            "in ~/.screenrc: term screen-256color; maptimeout 10; defutf8 on. ctrl+a is screen's own: txlab needs none"
        )
        yield Finding("note", "screen", f"TERM={environment.get('TERM', '')}", text)
    if environment.get("SSH_CONNECTION"):
        yield Finding("good", "SSH", "over SSH; runs started with --detach or from the console survive a dropped line")


def tmux_option(name: str) -> str:
    """Return the value of a tmux option, or "" if tmux does not report it."""
    import subprocess

    for scope in ("-sv", "-gv"):
        command = ["tmux", "show-options", scope, name]
        try:
            asked = subprocess.run(command, capture_output=True, text=True, timeout=2, stdin=subprocess.DEVNULL)
        except (OSError, subprocess.SubprocessError):
            return ""
        if asked.returncode == 0 and asked.stdout.strip():
            return asked.stdout.strip()
    return ""


def devices() -> Iterator[Finding]:
    """Check the devices that torch finds, and how long it took to import."""
    from txlab.engine.cores import has_nvidia

    begun = time.perf_counter()
    try:
        import torch
    except (ImportError, OSError) as error:
        mend = "reinstall it: pip install --force-reinstall torch"
        yield Finding("bad", "torch", f"cannot be imported: {error}", mend)
        return
    spent = time.perf_counter() - begun
    yield Finding("good", "import", f"torch in {spent:.1f} s, threads: {torch.get_num_threads()}")
    if torch.cuda.is_available():
        for i in range(torch.cuda.device_count()):
            about = torch.cuda.get_device_properties(i)
            yield Finding("good", "device", f"cuda:{i} {about.name}, {about.total_memory / 2**30:.0f} GiB")
            yield card(f"cuda:{i}", str(about.uuid))
            yield peak(f"cuda:{i}")
    elif torch.backends.mps.is_available():
        yield Finding("good", "device", "mps")
    elif torch.version.cuda is None and has_nvidia():
        mend = "this torch is built without CUDA; install the CUDA build"
        yield Finding("note", "device", "cpu, despite an NVIDIA GPU", mend)
    else:
        wide = getattr(torch.backends.cpu, "get_cpu_capability", lambda: "unknown")()
        yield Finding("good", "device", f"cpu only ({wide})")
        yield peak("cpu")
    yield cost()


def card(device: str, uuid: str) -> Finding:
    """Query an NVIDIA card's memory, power, temperature and clock throttling."""
    from txlab.engine.card import Card, describe_slowdown

    there = Card(uuid)
    values = there.read()
    if there.trouble:
        return Finding("note", "card", f"{device}: {there.trouble}")
    units: dict[str, Callable[[float], str]] = {
        "gpu_busy": lambda value: f"{100 * value:.0f} % busy",
        "gpu_used_mb": lambda value: f"{value / 1e3:.1f} GB in use",
        "gpu_celsius": lambda value: f"{value:.0f} °C",
        "gpu_watts": lambda value: f"{value:.0f} W",
        "gpu_watts_limit": lambda value: f"of {value:.0f} W allowed",
    }
    readings = ", ".join(word(values[name]) for name, word in units.items() if name in values)
    reasons = describe_slowdown(values.get("gpu_slowed", 0))
    return good_unless(bool(reasons), "card", f"{device}: {readings}", f"its clock is slowed: {reasons}")


def peak(device: str) -> Finding:
    """Measure the reference for the speed of runs: products of large matrices, and copies within the memory."""
    import torch

    from txlab.engine.device import data_sheet, describe, measure_copy, measure_peak

    there = torch.device(device)
    try:
        speeds = {
            name: measure_peak(there, dtype) for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16))
        }
        copied = measure_copy(there)
    except RuntimeError as error:  # other programs have taken its memory
        return Finding("note", "peak", f"{device}: cannot be measured: {one_line(error)}")
    sheet = data_sheet(describe(there)) if there.type == "cuda" else None
    figures = ", ".join(
        f"{name} {value / 1e12:.3g} TFLOP/s" if value > 1e12 else f"{name} {value / 1e9:.0f} GFLOP/s"
        for name, value in speeds.items()
    )
    figures += f" of {sheet.bfloat16 / 1e12:.0f} on the data sheet" if sheet else ""
    figures += f", copy {copied / 1e9:.3g} GB/s"
    figures += f" of {sheet.bandwidth / 1e9:.0f}" if sheet and sheet.bandwidth else ""
    return Finding("good", "peak", f"{device}: {figures}")


def cost() -> Finding:
    """The price of the scenario that a beginner runs first, by arithmetic; `txlab run NAME --dry-run` measures it."""
    from txlab.errors import LabError
    from txlab.experiments.price import price_line
    from txlab.runs.scenario import load_scenario

    name = "gpt-docs"
    try:
        scenario = load_scenario(name, []).scenario
    except LabError as error:  # an installation without the shipped scenarios
        return Finding("note", "a run", one_line(error))
    return Finding("good", "a run", f"{name}: {price_line(scenario, scenario)}; txlab run NAME --dry-run measures it")
