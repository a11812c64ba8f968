"""What is switched, as plain dictionaries in the order in which it was: finding one, putting one, taking one out.

Notable: these are the JSON of interpret.interventions and no objects of it, so that a key is answered before torch.
"""

from __future__ import annotations

from txlab.errors import LabError
from txlab.tui.screens.attention.bench import Switch


def same(switch: Switch, one: Switch) -> bool:
    """Whether a switch is about what `one` names."""
    return all(switch.get(key) == value for key, value in one.items())


def put(switched: tuple[Switch, ...], one: Switch, value: Switch | None) -> tuple[Switch, ...]:
    """With `one` switched to `value` in its old place or at the end; None takes it out."""
    made = None if value is None else {**one, **value}
    if any(same(switch, one) for switch in switched):
        found = [made if same(switch, one) else switch for switch in switched]
        return tuple(switch for switch in found if switch is not None)
    return switched if made is None else (*switched, made)


def one_line(text: str) -> str:
    """A text in the one line of a dialog."""
    return text.replace("\n", " ")


def whole_numbers(text: str) -> tuple[int, ...]:
    """`3, 4` → (3, 4). LabError for anything else."""
    try:
        return tuple(int(part) for part in text.replace("[", " ").replace("]", " ").replace(",", " ").split())
    except ValueError:
        raise LabError(f"{text!r} is no index: whole numbers, as 3, 4") from None
