"""What `txlab run NAME --dry-run` says, and what the run then takes: memory within a fifth, time within a factor 1.5?

    python benchmarks/price.py [NAME …]

Each scenario is priced in a process of its own, and run in another one right after it, in a folder that is removed.
What the first dry run measured as the best settings is given to a second one and to the run: on a busy machine another
measurement chooses other settings, which need other memory. The memory is the most that the process held (VmHWM by
wait4), the time that of the whole command. All figures are printed, also those that fail; exit status 1 if one does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

# Eleven scenarios of ten kinds, with fewer steps where the whole would take minutes.
SCENARIOS: dict[str, list[str]] = {
    "linear-regression": [],
    "gpt-tiny": [],
    "gpt-copy": ["train.steps=200"],
    "bert-docs": ["train.steps=500"],
    "vit-shapes": ["train.steps=200"],
    "translate": ["train.steps=120"],
    "words-planted": [],
    "cliff": [],
    "random-walk-19": [],
    "playground-spiral": [],
    "tictactoe-q": [],
}
MEMORY, TIME = 0.2, 1.5


def command(*words: str) -> list[str]:
    return [sys.executable, "-P", "-m", "txlab", *words]


def price(name: str, settings: list[str]) -> dict[str, Any]:
    """Memory in bytes and time in seconds, as the dry run gives them, and the settings that it measured as best."""
    said = subprocess.run(command("run", name, "--dry-run", "--json", *settings), capture_output=True, check=True)
    told = json.loads(said.stdout)
    return {"memory": told["memory_total"], "seconds": told["seconds_total"], "compute": told["compute"]}


def use(name: str, settings: list[str]) -> dict[str, float]:
    """Memory in bytes, wall and processor seconds, as the run takes them."""
    with tempfile.TemporaryDirectory() as folder:
        words = command("run", name, "--json", "--out", str(Path(folder) / "run"), *settings)
        began = time.perf_counter()
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - began
    if status:
        sys.exit(f"{name} ended with status {os.waitstatus_to_exitcode(status)}")
    scale = 1 if sys.platform == "darwin" else 1024
    return {"memory": used.ru_maxrss * scale, "seconds": wall, "cpu": used.ru_utime + used.ru_stime}


def main() -> None:
    asked = sys.argv[1:] or list(SCENARIOS)
    print("scenario            memory said  used   ratio        time said  used (cpu)   ratio", flush=True)
    failed = 0
    for name in asked:
        settings = [word for each in SCENARIOS.get(name, []) for word in ("--set", each)]
        said = price(name, settings)
        chosen = [f"compute.{key}={str(value).lower()}" for key, value in said["compute"].items()]
        settings += [word for each in chosen for word in ("--set", each)]
        said = price(name, settings) if chosen else said
        used = use(name, settings)
        memory, slower = said["memory"] / used["memory"], said["seconds"] / used["seconds"]
        good = abs(memory - 1) <= MEMORY, 1 / TIME <= slower <= TIME
        failed += sum(not each for each in good)
        marks = ["" if each else " ✗" for each in good]
        print(
            f"{name:<20}{said['memory'] / 1e6:7.0f} MB {used['memory'] / 1e6:5.0f}   {memory:.2f}{marks[0]:<5}"
            f"{said['seconds']:10.1f} s {used['seconds']:6.1f} ({used['cpu']:.1f})   {slower:.2f}{marks[1]}",
            flush=True,
        )
    print(
        f"{2 * len(asked) - failed} of {2 * len(asked)} within {MEMORY:.0%} of the memory and a factor {TIME} of time"
    )
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
