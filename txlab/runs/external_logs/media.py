"""Pictures, histograms and tables of other programs' logs, as frames and texts of a run.

Notable: their files are hostile. A file is opened only inside the log's own folder and up to a size, and a picture is
decoded only as PNG, JPEG or GIF with at most MOST_PIXELS.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

from txlab.files import closing, open_regular
from txlab.runs.as_json import text_of
from txlab.runs.external_logs.log import LARGEST_RECORD, LONGEST_NAME, LONGEST_TEXT

MOST_PIXELS = 1 << 24
MOST_BINS = 512
MOST_ROWS, MOST_COLUMNS, WIDEST = 50, 20, 40  # of a table that is shown, and the characters of a cell


def read_inside(folder: Path, relative: Any, largest: int) -> bytes:
    """The content of a regular file below a folder. Raises OSError, ValueError for a path that leads elsewhere."""
    path = (folder / str(relative)).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise ValueError("its path leads out of the log")
    with closing(open_regular(path)) as descriptor:
        if os.fstat(descriptor).st_size > largest:
            raise ValueError("it is too large")
        return os.pread(descriptor, largest, 0)


def picture(name: str, folder: Path, relative: Any) -> dict[str, Any]:
    """The content of a frame with a picture from a file. Raises ImportError without Pillow, OSError, ValueError."""
    import numpy as np
    from PIL import Image

    from txlab.runs.pictures import pixels_of

    data = read_inside(folder, relative, LARGEST_RECORD)
    try:
        with Image.open(io.BytesIO(data), formats=("PNG", "JPEG", "GIF")) as image:
            if image.width * image.height > MOST_PIXELS:
                raise ValueError("it has too many pixels")
            array = np.asarray(image.convert("L" if image.mode in ("1", "L", "I;16") else "RGB"))
    except (SyntaxError, MemoryError, Image.DecompressionBombError) as error:
        raise ValueError(str(error)) from None
    pixels, span = pixels_of(array)
    return _frame("image", name, pixels, span)


def histogram(name: str, counts: Any, edges: Any) -> dict[str, Any]:
    """The content of a frame with a histogram whose bins are equal. Raises ValueError, TypeError."""
    import numpy as np

    if len(edges) != len(counts) + 1 or not 1 <= len(counts) <= MOST_BINS:
        raise ValueError("its edges do not fit its counts")
    heights, places = np.asarray(counts, np.float64), np.asarray(edges, np.float64)
    widths = np.diff(places)
    if not (
        np.isfinite(heights).all() and np.isfinite(places).all() and (heights >= 0).all() and (heights < 2**53).all()
    ):
        raise ValueError("its numbers are not finite counts")
    if not (widths > 0).all() or widths.max() > 1.001 * widths.min():
        raise ValueError("its bins differ in width")
    return _frame("histogram", name, heights.round().astype(np.int64), [float(places[0]), float(places[-1]), 0.0])


def _frame(kind: str, name: str, values: Any, span: list[float]) -> dict[str, Any]:
    name = text_of(name, LONGEST_NAME)
    return {"tensors": {f"{kind}/{name}": values}, "facts": {kind: {name: span}}}


def table_text(columns: Any, rows: Any) -> str:
    """A table as aligned lines of text. Raises TypeError if it is none.

    >>> print(table_text(["step", "answer"], [[1, "yes"], [20, "no"]]))
    step  answer
    1     yes
    20    no
    """
    lines = [
        [text_of(cell, WIDEST).replace("\n", " ") for cell in row[:MOST_COLUMNS]]
        for row in [columns, *rows[:MOST_ROWS]]
    ]
    widths = [max(len(line[place]) for line in lines if place < len(line)) for place in range(max(map(len, lines)))]
    text = "\n".join(
        "  ".join(f"{cell:{width}}" for cell, width in zip(line, widths, strict=False)).rstrip() for line in lines
    )
    more = f"\n… {len(rows) - MOST_ROWS} more rows" if len(rows) > MOST_ROWS else ""
    return text_of(text + more, LONGEST_TEXT)
