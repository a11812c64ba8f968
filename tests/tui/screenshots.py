"""Pictures of every screen for the README: `python tests/tui/screenshots.py RUN [FOLDER]`, or `make screenshots RUN=…`.

Notable: they are drawn from the program itself, on a run that exists, so a picture cannot show what is not there.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from picture import picture

from txlab.runs.directory import find_run
from txlab.tui.app import TxlabApp
from txlab.tui.rooms import ROOMS

SIZE = (120, 40)
SETTLES = 3.0  # seconds for a screen to read its run; nothing waits on these pictures


async def draw(run: Path, folder: Path) -> None:
    for room in ROOMS:
        app = TxlabApp(run=run, root=run.parent)
        async with app.run_test(size=SIZE) as pilot:
            await pilot.pause(SETTLES)
            await pilot.press(room.key)
            await pilot.pause(SETTLES)
            path = folder / f"{room.name}.png"
            picture(app).save(path, optimize=True)
            print(path)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: python tests/tui/screenshots.py RUN [FOLDER]")
    target = Path(sys.argv[2] if len(sys.argv) == 3 else "assets/screens")
    target.mkdir(parents=True, exist_ok=True)
    asyncio.run(draw(find_run(sys.argv[1]), target))
