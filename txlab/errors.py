"""Errors that the user can fix. Everything else is a bug and keeps its traceback.

The message is one sentence that names the place, the value given, the values allowed and the nearest valid name. The
command line prints it on stderr and exits with `exit_status`; a screen shows the same sentence.
"""

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

PLATFORMS = "txlab runs on Linux and macOS; on Windows it runs in WSL"


class LabError(Exception):
    """The user's input is wrong, or something outside txlab failed; the message is one sentence."""

    exit_status = 2


class RunFailed(LabError):
    """A run started and could not continue (a NaN, a full disk, out of memory); the reason is in its directory."""

    exit_status = 1


class Guess(UserWarning):
    """Something not specified by the input was guessed; the message is one sentence. Commands print it on stderr."""


@contextmanager
def prefix_errors(where: object) -> Iterator[None]:
    """Put the place in front of the message of a LabError raised inside: a file, a key."""
    try:
        yield
    except LabError as error:
        raise LabError(f"{where}: {error}") from None


@contextmanager
def convert_os_errors(what: object) -> Iterator[None]:
    """Raise an OSError inside as a LabError: "notes.txt cannot be read: Permission denied"."""
    try:
        yield
    except OSError as error:
        raise LabError(f"{what}: {error.strerror}") from None


def nearest(given: str, allowed: Iterable[str]) -> str:
    """Return ' (nearest: X)' for the closest of the allowed names, or '' if none is close. The given name itself is
    never suggested: if a known name is refused, the sentence has to give the reason.

    >>> nearest("learning_rat", ["learning_rate", "warmup"])
    ' (nearest: learning_rate)'
    """
    close = difflib.get_close_matches(given, [name for name in allowed if name != given], n=1, cutoff=0.5)
    return f" (nearest: {close[0]})" if close else ""


def choices(given: str, allowed: Iterable[str], word: str = "allowed") -> str:
    """Return the end of a sentence about an unknown name: the closest of the allowed names, and all of them.

    A long list is left out if one of them is close enough to be the intended name.

    >>> choices("gtp", ["gpt", "bert"])
    ' (nearest: gpt); allowed: gpt, bert'
    >>> choices("wrold-98", [f"world-{n}" for n in range(99)])
    ' (nearest: world-98)'
    """
    names = list(allowed)
    close = nearest(given, names)
    return close if close and len(names) > LONG_LIST else f"{close}; {word}: {', '.join(names)}"


LONG_LIST = 17  # names: two or three lines of a terminal


def one_line(error: BaseException) -> str:
    """The message of an exception on one line of at most 300 characters, or its type's name if it has no message."""
    return " ".join(str(error).split())[:300] or type(error).__name__
