"""Scenario → process → run directory → frames. A viewer and a computation share only the run directory."""

import os

if os.name == "nt":  # before what imports fcntl, pwd and termios
    from txlab.errors import PLATFORMS

    raise ImportError(PLATFORMS)
