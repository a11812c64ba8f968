"""How much of its speed a run keeps next to busy processes: `python benchmarks/contention.py [--busy 3]`.

The reference is the best speed of one thread on the idle machine (bfloat16 or float32, whichever is faster). It is
compared with `txlab run` next to N spinning processes, with the settings that the probe then chooses, and with a run on
all threads without these settings (no GOMP_SPINCOUNT, the default of most programs). Each is a process of its own,
since thread settings are read only once; idle and busy measurements alternate; the target ratio is 0.5 or more.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from statistics import median

from txlab.engine.cores import cores

CHILD = """
import json, sys, time
wanted = json.loads(sys.argv[1])
if wanted["care"]:
    from txlab.runs.writing import set_thread_environment
    set_thread_environment()
import torch
from txlab.experiments.kinds.language_model import KIND
from txlab.experiments.kinds.language_model.schema import LanguageModelScenario
scenario = LanguageModelScenario.model_validate(
    {"train": {"batch": 12, "steps": 10**6}, "compute": {"device": "cpu", **wanted["compute"]}}
)
scenario = KIND.resolve(scenario)
experiment = KIND.build(scenario)
for _ in range(5):
    experiment.step()
steps, began = 0, time.perf_counter()
while time.perf_counter() - began < wanted["seconds"]:
    experiment.step()
    steps += 1
speed = steps * 12 * scenario.model.context / (time.perf_counter() - began)
compute = scenario.compute
print(json.dumps([speed, f"{compute.dtype}, {compute.attention}, {compute.threads} threads, {compute.share}"]))
"""


def speed(seconds: float, busy: int, care: bool = True, **compute: object) -> tuple[float, str]:
    """Tokens per second in a separate process next to `busy` spinning ones, and its settings."""
    spinning = [subprocess.Popen([sys.executable, "-P", "-c", "while True: pass"]) for _ in range(busy)]
    try:
        wanted = json.dumps({"seconds": seconds, "care": care, "compute": compute})
        environment = {name: value for name, value in os.environ.items() if name != "GOMP_SPINCOUNT"}
        done = subprocess.run(
            [sys.executable, "-P", "-c", CHILD, wanted], capture_output=True, text=True, check=True, env=environment
        )
        rate, settings = json.loads(done.stdout.strip().splitlines()[-1])
        return float(rate), str(settings)
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--busy", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6.0)
    asked = parser.parse_args()
    usable = cores()
    settings = {
        "quiet, one thread": {"busy": 0, "threads": 1},
        f"{asked.busy} busy, as probed": {"busy": asked.busy},
        f"{asked.busy} busy, all threads, no care": {
            "busy": asked.busy,
            "care": False,
            "threads": usable,
            "thread_mode": "operations",
        },
    }
    speeds: dict[str, list[float]] = {name: [] for name in settings}
    for _ in range(asked.repeats):
        for name, wanted in settings.items():
            rate, chosen = speed(asked.seconds, **wanted)  # type: ignore[arg-type]
            speeds[name].append(rate)
            print(f"  {name:32} {rate:9,.0f} tokens/s   {chosen}", flush=True)
    quiet, probed, careless = speeds.values()
    for name, values in zip(("as probed", "no care"), (probed, careless), strict=True):
        ratio = median(a / b for a, b in zip(values, quiet, strict=True))
        print(f"{asked.busy} busy processes on {usable} cores, {name}: {ratio:.2f} of one quiet thread (wanted: 0.5)")


if __name__ == "__main__":
    main()
