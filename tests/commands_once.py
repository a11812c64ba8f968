"""The tree of commands is built once in a process of tests, not in each call. Importing this does it."""

from __future__ import annotations

from functools import cache

import typer.main

typer.main.get_command = cache(typer.main.get_command)  # 50 ms, in hundreds of tests that call a command
