"""txlab: a lab bench for the mathematics of language models, in a terminal.

Notable: importing this costs nothing. `record` brings the recording in when it is first used, torch only when a
command needs it.
"""

from typing import Any

__all__ = ["record"]


def __getattr__(name: str) -> Any:
    if name == "record":
        from txlab.runs.recording import record

        return record
    raise AttributeError(f"module 'txlab' has no attribute {name!r}")
