"""The package that people install: built, installed outside the repository, and used from another folder."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, built by its own build backend without touching the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(REPOSITORY)]
    try:
        import hatchling  # noqa: F401

        build.insert(4, "--no-isolation")
    except ImportError:
        pass  # pip fetches it into an environment of its own
    # From elsewhere: a folder called build/ in the checkout would be taken for the module.
    done = subprocess.run(build, capture_output=True, text=True, check=False, cwd=folder, env=without_checkout())
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return next(folder.glob("txlab-*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel in it; its dependencies are those of the environment that runs the tests."""
    home = tmp_path_factory.mktemp("installed")
    venv.create(home, with_pip=False, symlinks=True)
    site = next((home / "lib").glob("python*/site-packages"))
    pip = [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python")]
    install = [*pip, "install", "--no-deps", "--quiet", str(wheel)]
    subprocess.run(install, check=True, capture_output=True, env=without_checkout(), cwd=home)
    assert (site / "txlab" / "__init__.py").is_file()
    (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")  # after the wheel's own place
    return home / "bin"


def without_checkout() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def call(installed: Path, folder: Path, *words: str, status: int = 0) -> str:
    """Run the installed `txlab` from a folder of its own; its standard output."""
    done = subprocess.run(
        [installed / "txlab", *words],
        capture_output=True,
        text=True,
        cwd=folder,
        env=without_checkout() | {"TXLAB_RUNS": str(folder / "runs")},
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == status, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def test_the_wheel_holds_what_is_needed_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    scenarios = {f"txlab/_shipped/scenarios/{path.name}" for path in (REPOSITORY / "scenarios").glob("*.toml")}
    styles = {str(path.relative_to(REPOSITORY)) for path in (REPOSITORY / "txlab").rglob("*.tcss")}
    sources = {str(path.relative_to(REPOSITORY)) for path in (REPOSITORY / "txlab").rglob("*.py")}
    texts = {f"txlab/_shipped/texts/{path.name}" for path in (REPOSITORY / "assets" / "texts").iterdir()}
    maps = {f"txlab/_shipped/maps/{path.name}" for path in (REPOSITORY / "assets" / "maps").iterdir()}
    manual = {f"txlab/_shipped/docs/{path.name}" for path in (REPOSITORY / "docs").iterdir()}
    assert "txlab/_shipped/texts/sentences.toml" in texts
    assert "txlab/_shipped/maps/four-rooms.txt" in maps
    assert "txlab/_shipped/docs/processes.md" in manual
    assert scenarios | styles | sources | texts | maps | manual <= names
    assert "txlab/py.typed" in names
    assert all(name.startswith(("txlab/", "txlab-")) for name in names)
    assert not any("tests/" in name or name.endswith(".pyc") for name in names)


def test_the_installed_program_is_not_the_checkout(installed: Path, tmp_path: Path) -> None:
    where = subprocess.run(
        [installed / "python", "-c", "import txlab; print(txlab.__file__)"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=without_checkout(),
        check=True,
    ).stdout
    assert where.strip().startswith(str(installed.parent))


def test_the_installed_program_runs_a_shipped_scenario(installed: Path, tmp_path: Path) -> None:
    assert "gpt-tiny" in call(installed, tmp_path, "scenarios")
    small = ["--set", "train.steps=3", "--set", "compute.threads=1", "--set", "train.validation_batches=1"]
    said = call(installed, tmp_path, "run", "gpt-tiny", *small)
    assert "done" in said
    runs = list((tmp_path / "runs").iterdir())
    assert len(runs) == 1
    assert call(installed, tmp_path, "export", "latest", "csv", "--out", "metrics.csv") is not None
    assert "loss" in (tmp_path / "metrics.csv").read_text()
    assert "gpt-tiny" in call(installed, tmp_path, "runs")


def test_the_installed_program_brings_its_formulas(installed: Path, tmp_path: Path) -> None:
    assert "Scaled dot-product attention" in call(installed, tmp_path, "formulas", "T1")


def test_the_installed_program_brings_its_manual(installed: Path, tmp_path: Path) -> None:
    assert call(installed, tmp_path, "help", "slurm").startswith("# Many processes")


def test_the_installed_program_brings_its_sentences(installed: Path, tmp_path: Path) -> None:
    said = call(installed, tmp_path, "tokenizer", "compare", "bytes", "python-docs")
    assert "English" in said
    assert "Tamil" in said


def test_the_installed_program_brings_its_maps(installed: Path, tmp_path: Path) -> None:
    code = "from txlab.engine.rl.worlds import world_named; print(world_named('four-rooms').title)"
    said = subprocess.run(
        [installed / "python", "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=without_checkout(),
        check=True,
    ).stdout
    assert said == "Four rooms with a door in each wall\n"


NEWER = {"torch": "2.15.0", "numpy": "2.5.0", "rich": "15.3.0", "pydantic": "2.99.0", "textual": "8.9.0"}


def test_newer_packages_that_are_there_stay_as_they_are(wheel: Path, tmp_path: Path) -> None:
    """pip would install txlab and nothing else next to them."""
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read(next(name for name in archive.namelist() if name.endswith("METADATA"))).decode()
    needed = [line.split(": ")[1] for line in metadata.splitlines() if line.startswith("Requires-Dist: ")]
    names = {re.split(r"[^\w.-]", each)[0] for each in needed if "extra ==" not in each}
    assert NEWER.keys() <= names
    home = tmp_path / "environment"
    venv.create(home, with_pip=False, symlinks=True)
    site = next((home / "lib").glob("python*/site-packages"))
    for name in names:
        version = NEWER.get(name, "9999.0")
        folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    pip = [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python"), "install"]
    dry = [*pip, "--dry-run", "--no-index", "--quiet", "--report", "-", str(wheel)]
    own = {name: value for name, value in without_checkout().items() if not name.startswith("PIP_")}
    own["PIP_CONFIG_FILE"] = os.devnull  # a machine may have constraints of its own
    done = subprocess.run(dry, capture_output=True, text=True, cwd=tmp_path, env=own, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert [each["metadata"]["name"] for each in json.loads(done.stdout)["install"]] == ["txlab"]
