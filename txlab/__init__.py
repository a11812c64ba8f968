"""txlab: a lab bench for the mathematics of language models, in a terminal.

Importing the package is cheap: its public names are imported on first use, and torch only when a command needs it.
"""

from typing import TYPE_CHECKING

__all__ = ["Recording", "SummaryWriter", "record"]

if TYPE_CHECKING:
    from txlab.integrations.tensorboard import SummaryWriter
    from txlab.runs.record import record
    from txlab.runs.recording import Recording
else:
    _WHERE = {"Recording": "runs.recording", "SummaryWriter": "integrations.tensorboard", "record": "runs.record"}

    def __getattr__(name):
        if name in _WHERE:
            from importlib import import_module

            return getattr(import_module(f"txlab.{_WHERE[name]}"), name)
        raise AttributeError(f"module 'txlab' has no attribute {name!r}")
