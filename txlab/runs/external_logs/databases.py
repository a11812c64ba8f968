"""Databases of other programs: one SQLite file with the runs of trackio or of MLflow.

Notable: SQLite would create files next to a database even when it only reads, so a database without a write-ahead log
is opened as immutable, and one with a log uses its writer's shared memory read-only. The schema is not trusted, and a
query that takes too long is given up.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from txlab.runs.as_json import text_of
from txlab.runs.external_logs.log import LARGEST_RECORD, LONGEST_TEXT

MOST_RUNS = 500
PATIENCE = 5.0  # seconds that a query may take
SUFFIXES = (".db", ".sqlite", ".sqlite3")


@contextlib.contextmanager
def open_database(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database for reading. Raises OSError if it has no table of metrics, is busy, or is damaged."""
    log, memory = (path.with_name(path.name + end) for end in ("-wal", "-shm"))
    with_log = log.exists() and log.stat().st_size > 0 and memory.exists()
    how = "mode=ro&readonly_shm=1" if with_log else "mode=ro&immutable=1"
    try:
        database = sqlite3.connect(f"file:{quote(str(path))}?{how}", uri=True, timeout=0.2, isolation_level=None)
        try:
            until = time.monotonic() + PATIENCE
            database.set_progress_handler(lambda: time.monotonic() > until, 100_000)
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_RECORD)
            for setting in ("trusted_schema = OFF", "query_only = ON", "cell_size_check = ON", "mmap_size = 0"):
                database.execute(f"PRAGMA {setting}")
            if "metrics" not in tables(database):
                raise OSError(0, "it has no table of metrics", str(path))
            yield database
        finally:
            database.close()
    except (sqlite3.Error, sqlite3.Warning, UnicodeError, OverflowError) as error:
        raise OSError(0, f"it is not a database of trackio or MLflow, or it is busy ({error})", str(path)) from None


def tables(database: sqlite3.Connection) -> set[str]:
    """The tables of a database; views do not count."""
    return {
        name
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table' LIMIT 1000")
        if isinstance(name, str)
    }


def columns(database: sqlite3.Connection) -> set[str]:
    """The columns of the table of metrics."""
    return {str(row[1]) for row in database.execute("PRAGMA table_info(metrics)")}


def as_text(value: object) -> str:
    return text_of(value, LONGEST_TEXT)
