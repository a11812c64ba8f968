"""The command of the user's own that is told of each alert: a line in config.toml, or $TXLAB_ALERT_COMMAND.

Notable: it is never taken from a run directory or a scenario, which may be somebody else's. It is split into words by
shlex and started without a shell; the alert is JSON on its standard input. Nobody waits for it.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import orjson
from platformdirs import user_config_path

from txlab.errors import LabError
from txlab.files import read_regular

VARIABLE, KEY = "TXLAB_ALERT_COMMAND", "alert_command"
LARGEST_FILE = 64 * 1024
AT_ONCE = 8  # commands that may still be running; alerts beyond are only recorded


def settings_file() -> Path:
    """The user's configuration file, which the console reads too."""
    return user_config_path("txlab", appauthor=False) / "config.toml"


def command() -> list[str]:
    """The words of the command, [] if there is none. Raises LabError if the setting is not a command."""
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
    """Starts the command for each alert of one run, and collects those that have ended."""

    def __init__(self) -> None:
        self.started: list[subprocess.Popen[bytes]] = []

    def tell(self, alert: dict[str, Any]) -> str:
        """Start the command with the alert, and return why that was not possible, "" if it was or there is none."""
        self.started = [each for each in self.started if each.poll() is None]
        try:
            words = command()
            if not words:
                return ""
            if len(self.started) >= AT_ONCE:
                return f"{AT_ONCE} alert commands are still running; this alert started none"
            with tempfile.TemporaryFile() as told:  # a pipe would need somebody who writes into it
                told.write(orjson.dumps(alert, default=str, option=orjson.OPT_APPEND_NEWLINE))
                told.seek(0)
                self.started.append(
                    subprocess.Popen(
                        words,
                        stdin=told,
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
