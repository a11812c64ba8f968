"""The user's configuration file: keys, theme, ASCII, how often the screen may change.

An invalid file never keeps the program from starting: one sentence reports the mistake and the defaults are used.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from platformdirs import user_config_path, user_state_path
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from txlab.errors import LabError, nearest
from txlab.files import atomic_write, read_regular
from txlab.runs.scenario_errors import format_value

LARGEST_FILE = 64 * 1024


class Settings(BaseModel):
    """The contents of config.toml.

    theme = "txlab-light"
    [keys]
    "run.step" = "full_stop,n"
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    theme: str = Field("txlab-dark", description="txlab-dark, txlab-light, or any theme that the palette offers")
    ascii: bool = Field(False, description="draw with ASCII alone: no box drawing, blocks or bullets")
    hall: bool = Field(False, description="begin in hall mode (key H): thick lines and bright labels for the back row")
    refresh: float = Field(4.0, ge=0.2, le=5.0, description="how often a second a watched run may change the screen")
    alert_command: str = Field("", description="a command that receives a run's alerts, as JSON on its standard input")
    machines: list[str] = Field(
        default_factory=list, max_length=64, description="machines that the screen Machines shows, as ssh names them"
    )
    keys: dict[str, str] = Field(
        default_factory=dict,
        description='binding id = "key,key"; ? and then i lists the ids, e.g. "run.pause"',
    )


def settings_file() -> Path:
    return user_config_path("txlab", appauthor=False) / "config.toml"


def log_file() -> Path:
    """Return the file that tracebacks are written to."""
    return user_state_path("txlab", appauthor=False) / "txlab.log"


def load_settings(path: Path | None = None) -> Settings:
    """Return the settings of the file, or the defaults without one; raises LabError naming file, key and mistake."""
    path = settings_file() if path is None else path
    try:
        text = read_regular(path, LARGEST_FILE).decode()
    except FileNotFoundError:
        return Settings()
    except OSError as error:
        raise LabError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise LabError(f"{path}: cannot be read: byte {error.start} is not UTF-8") from error
    try:
        return Settings.model_validate(tomllib.loads(text))
    except RecursionError as error:
        raise LabError(f"{path}: not valid TOML: it is nested too deeply") from error
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])[:60]
        if first["type"] == "extra_forbidden":
            allowed = list(Settings.model_fields)
            hint = f"{nearest(key, allowed)}; allowed: {', '.join(allowed)}"
            raise LabError(f"{path}: {key} is not a setting{hint}") from error
        value = first["input"]
        shown = format_value(value) if isinstance(value, int) else repr(value)[:80]
        raise LabError(f"{path}: {key} = {shown}: {first['msg'].lower()}") from error
    except ValueError as error:  # also: an integer of more digits than Python reads
        raise LabError(f"{path}: not valid TOML: {error}") from error


def save_theme(name: str, path: Path | None = None) -> Path:
    """Write `theme = "name"` into the settings file, leaving the rest as it is; return the file.

    LabError if the file cannot be written or parsed.
    """
    path = settings_file() if path is None else path
    before = load_settings(path)
    text = read_regular(path, LARGEST_FILE).decode() if path.exists() else ""
    line = f'theme = "{name}"'
    text, replaced = re.subn(r"^theme\s*=.*$", line, text, count=1, flags=re.MULTILINE)
    text = text if replaced else f"{line}\n{text}"
    if Settings.model_validate(tomllib.loads(text)) != before.model_copy(update={"theme": name}):
        raise LabError(f"{path}: write {line} there yourself: the file is not simple enough to change")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, text.encode())
    except OSError as error:
        raise LabError(f"{path}: cannot be written: {error.strerror or error}") from error
    return path
