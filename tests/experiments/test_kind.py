"""Kinds are found by their files, by what other packages declare, and by name; importing one imports no torch."""

import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from txlab.errors import LabError
from txlab.experiments import kind as kinds_module
from txlab.experiments.kind import UNKNOWN, Kind, explain_metric, kind_named, kind_names, kind_of_run
from txlab.experiments.schema import Scenario


class Walk(Kind):
    name = "random-walks"
    schema = Scenario


WALK = Walk()
NO_KIND = object()


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three entry points of another package, of which one is a kind."""
    values = {"random-walks": f"{__name__}:WALK", "broken": "no.such.module:KIND", "other": f"{__name__}:NO_KIND"}
    points = {name: EntryPoint(name, value, kinds_module.ENTRY_POINTS) for name, value in values.items()}
    monkeypatch.setattr(kinds_module, "plugins", lambda group: points)


def test_every_file_of_the_folder_is_a_kind_of_its_name() -> None:
    folder = Path(kinds_module.__file__).with_name("kinds")
    files = {path.stem.replace("_", "-") for path in folder.iterdir() if not path.name.startswith("__")}
    assert set(kind_names()) >= files
    for name in files:
        kind = kind_named(name)
        assert kind.name == name
        assert kind.title
        assert kind.schema.model_fields["kind"].default == name


def test_an_installed_package_adds_a_kind(installed: None) -> None:
    assert "random-walks" in kind_names()
    assert kind_named("random-walks") is WALK


@pytest.mark.parametrize(("name", "told"), [("broken", "cannot be imported"), ("other", "is not a Kind of")])
def test_a_wrong_declaration_of_another_package_is_a_readable_error(installed: None, name: str, told: str) -> None:
    with pytest.raises(LabError, match=told):
        kind_named(name)
    assert kind_of_run(name) is UNKNOWN  # its runs can still be looked at


def test_an_unknown_name_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(LabError, match=r"'mdp-contrl' is not an experiment.*nearest: mdp-control"):
        kind_named("mdp-contrl")
    with pytest.raises(LabError, match=r"(?s)'zzz'.*allowed: actor-critic, bandits, connect-four, convolution"):
        kind_named("zzz")
    assert explain_metric({"kind": "contrl"}, "loss", 1, {"loss": 1.0}) is None


def test_knowing_all_kinds_imports_no_torch() -> None:
    script = (
        "import sys; from txlab.experiments.kind import kind_named, kind_names; list(map(kind_named, kind_names()));"
        "print([name for name in ('torch', 'textual') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
