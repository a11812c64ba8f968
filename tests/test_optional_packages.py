"""A package that is not installed: what needs it says in one sentence what to install, and all else works without."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import txlab.cli

REPOSITORY = Path(__file__).resolve().parent.parent
# As if it had never been installed.
HIDDEN = """
import sys
from importlib.machinery import PathFinder

found = PathFinder.find_spec
PathFinder.find_spec = lambda name, *where: None if name.partition(".")[0] in {hidden!r} else found(name, *where)
sys.argv = {argv!r}
"""
UNIGRAM = {"model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["a", -1.0]]}}
OPTIONAL = (
    *("textual_serve", "aiohttp", "tokenizers", "sentencepiece", "gymnasium", "transformers", "lightning"),
    *("pytorch_lightning", "accelerate", "yaml", "wandb", "trackio", "tensorboard", "torchvision", "datasets"),
    *("numba", "scipy", "pandas", "IPython"),
)


def without(hidden: tuple[str, ...], program: str, *words: str, runs: Path) -> subprocess.CompletedProcess[str]:
    begun = HIDDEN.format(hidden=hidden, argv=["txlab", *words])
    return subprocess.run(
        [sys.executable, "-c", begun + program],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        cwd=runs,
        env=os.environ | {"TXLAB_RUNS": str(runs), "COLUMNS": "100"},
    )


COMMAND = "from txlab.cli import main\nmain()\n"


@pytest.fixture
def files(tmp_path: Path, tiny_run: Path) -> Path:
    """A folder with what the commands below are asked about."""
    (tmp_path / "unigram.json").write_text(json.dumps(UNIGRAM))
    (tmp_path / "pieces.model").write_bytes(b"not read without the library")
    (tmp_path / "world.toml").write_text('kind = "mdp-control"\n[world]\nname = "gymnasium:Blackjack-v1"\n')
    (tmp_path / "text.txt").write_text("a b c " * 50)
    (tmp_path / "tiny").symlink_to(tiny_run)
    return tmp_path


@pytest.mark.parametrize(
    ("hidden", "line", "install"),
    [
        ("textual_serve", "serve --port=0", "'txlab[serve]'"),
        ("aiohttp", "serve --port=0", "'txlab[serve]'"),
        ("jinja2", "serve --port=0", "'txlab[serve]'"),
        ("tokenizers", "tokenize a --tokenizer=unigram.json", "'txlab[tokenizers]'"),
        ("sentencepiece", "tokenize a --tokenizer=pieces.model", "'txlab[sentencepiece]'"),
        ("gymnasium", "run world.toml", "'txlab[gymnasium]'"),
        ("matplotlib", "plot tiny --out=picture.png", "matplotlib"),
        ("matplotlib", "attend tiny text --out=picture.png", "matplotlib"),
        ("tensorboardX", "export tiny tensorboard --out=events", "tensorboardX"),
        ("torch", "score tiny --file=text.txt", "torch"),
        ("tiktoken", "tokenize a --tokenizer=gpt2", "tiktoken"),
    ],
)
def test_what_needs_a_package_says_what_to_install(files: Path, hidden: str, line: str, install: str) -> None:
    done = without((hidden,), COMMAND, *line.split(), runs=files)
    assert (done.returncode, done.stdout) == (2, "")
    (said,) = done.stderr.splitlines()
    assert said.startswith("txlab: ")
    assert re.search(f"pip install {re.escape(install)}(?!\\w)", said), said


def test_a_package_whose_import_is_blocked_is_as_one_that_is_missing(tmp_path: Path) -> None:
    done = without((), f"sys.modules['textual_serve'] = None\n{COMMAND}", "serve", "--port=0", runs=tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "pip install 'txlab[serve]'" in done.stderr


@pytest.mark.parametrize("name", ["rich.nothing", "txlab.nothing", None])
def test_a_module_that_an_installed_package_lacks_is_a_bug_with_a_traceback(
    name: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacking(**_: object) -> None:
        raise ModuleNotFoundError("no such module", name=name)

    monkeypatch.setitem(sys.modules, "rich", sys)
    monkeypatch.setattr(txlab.cli, "app", lacking)
    with pytest.raises(ModuleNotFoundError):
        txlab.cli.main()


@pytest.mark.parametrize("package", ["transformers", "lightning", "accelerate"])
def test_an_integration_says_what_to_install(tmp_path: Path, package: str) -> None:
    done = without((package, "pytorch_lightning"), f"import txlab.integrations.{package}", runs=tmp_path)
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"ImportError: txlab.integrations.{package} needs {package}: pip install {package}")
    assert "pytorch_lightning" not in last


@pytest.mark.evidence
def test_without_any_optional_package_all_else_works(files: Path, tiny_scenario: Path) -> None:
    """Among it the settings of Lightning's loggers, whose file needs yaml: the numbers are read without it."""
    log = files / "lightning_logs" / "version_0"
    log.mkdir(parents=True)
    (log / "metrics.csv").write_text("epoch,step,loss\n0,1,2.0\n0,2,1.5\n")
    (log / "hparams.yaml").write_text("lr: 0.1\n")
    lines = [
        ["run", str(tiny_scenario), "--out", "made"],
        ["runs"],
        ["doctor"],
        ["plot", "made"],
        ["plot", str(log)],
        ["plot", "made", "--out", "picture.png"],
        ["export", "made", "tensorboard", "--out", "events"],
        ["score", "made", "the cat"],
        ["scenarios"],
        ["tokenizer", "list"],
    ]
    program = (
        "import txlab.cli\n"
        f"for words in {lines!r}:\n"
        "    sys.argv = ['txlab', *words]\n"
        "    try:\n        txlab.cli.main()\n"
        "    except SystemExit as ended:\n        assert not ended.code, words\n"
        "import txlab.tui.app\n"
        "from txlab.integrations.tensorboard import SummaryWriter\n"
    )
    done = without(OPTIONAL, program, runs=files)
    assert done.returncode == 0, done.stderr


def test_every_extra_of_ours_is_among_them() -> None:
    extras = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    modules = {"textual-serve": "textual_serve"}
    for extra in set(extras) - {"test", "dev"}:
        for needed in extras[extra]:
            name = re.split(r"[<>=]", needed)[0]
            assert modules.get(name, name) in OPTIONAL


def test_the_oldest_versions_that_are_tested_are_the_oldest_that_are_allowed() -> None:
    needed = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["dependencies"]
    allowed = dict(re.match(r"([\w-]+)>=([\d.]+)", each).groups() for each in needed)  # type: ignore[union-attr]
    lines = (REPOSITORY / ".ci" / "oldest.txt").read_text().splitlines()
    tested = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert tested.keys() == allowed.keys()
    assert [name for name, oldest in allowed.items() if not f"{tested[name]}.".startswith(f"{oldest}.")] == []
