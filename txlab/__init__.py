"""txlab: a lab bench for the mathematics of language models, in a terminal.

Importing the package is cheap: `record` is imported on first use, and torch only when a command needs it.
"""

from typing import TYPE_CHECKING

__all__ = ["Recording", "record"]

if TYPE_CHECKING:
    from txlab.runs.recording import Recording, record
else:

    def __getattr__(name):
        if name in __all__:
            from txlab.runs import recording

            return getattr(recording, name)
        raise AttributeError(f"module 'txlab' has no attribute {name!r}")
