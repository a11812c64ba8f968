"""The manual: pages that are short, lead where they say, belong to each screen, and are found by any of their words."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, get_args

import pytest
import typer.main
from documents import REPOSITORY, SOURCES, blocks, links

from txlab.cli import app
from txlab.experiments.reference_numbers import Provenance, figures
from txlab.manual import anchor, find_sections, page_about, page_of_screen, pages, unknown_topic
from txlab.runs.scenario import catalogue, load_scenario
from txlab.tui.screen_registry import SCREENS

LARGEST = 12_000  # bytes
README = SOURCES["README.md"]


@pytest.mark.parametrize("name", SOURCES)
def test_no_page_is_longer_than_one_reads(name: str) -> None:
    assert len(SOURCES[name].encode()) <= LARGEST


@pytest.mark.parametrize("name", SOURCES)
def test_every_link_leads_to_a_file_and_to_a_heading_in_it(name: str) -> None:
    for link in links(SOURCES[name]):
        target, _, heading = link.partition("#")
        path = (REPOSITORY / name).parent / target
        assert path.exists(), link
        if heading:
            titles = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.M)
            assert heading in map(anchor, titles), link


def test_the_readme_links_to_every_page() -> None:
    assert {f"docs/{name}.md" for name in pages()} <= set(links(README))


@pytest.mark.parametrize("name", SOURCES)
def test_every_shell_block_says_whether_it_is_run_and_why_not(name: str) -> None:
    for block in blocks(SOURCES[name]):
        if block.language == "sh":
            assert re.fullmatch(r"(no-run .+)?", block.note), block


@pytest.mark.parametrize("name", pages())
def test_a_page_begins_with_its_words_a_title_and_one_sentence(name: str) -> None:
    page = pages()[name]
    assert page.words
    assert page.text.startswith(f"# {page.title}\n")
    assert page.about.endswith(".")
    assert 20 < len(page.about) < 110
    assert "<!--" not in page.text
    assert "](../assets" not in page.text


def test_every_screen_has_a_page_and_pages_name_only_screens() -> None:
    named = [screen for page in pages().values() for screen in page.screens]
    assert sorted(named) == sorted(entry.name for entry in SCREENS)
    assert all(page_of_screen(screen) is page for page in pages().values() for screen in page.screens)
    assert page_of_screen("of another package").name == "console"


@pytest.mark.parametrize(
    ("topic", "name"),
    [
        *(("runs", "runs"), ("Word vectors", "word-vectors"), ("games.md", "games"), ("wandb", "logs")),
        *((word, "processes") for word in ("slurm", "SRUN", "torchrun", "ddp", "fsdp")),
        *(("cuda", "gpu"), ("bpe", "tokenizers"), ("callback", "recording"), ("ssh", "remote"), ("llama", "models")),
        *(("rlhf", "feedback"), ("sarsa", "worlds"), ("keys", "console"), ("theme", "configuration")),
        *(("resume", "runs"), ("gensim", "word-vectors"), ("lstm", "small-networks"), ("math", "lectures")),
    ],
)
def test_a_page_is_found_by_its_name_and_by_words_that_stand_for_it(topic: str, name: str) -> None:
    found = page_about(topic)
    assert found is not None
    assert found.name == name


def test_every_command_finds_a_page() -> None:
    names = set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    assert [name for name in names if page_about(name) is None] == []


def test_a_word_stands_for_one_page() -> None:
    words = [word for page in pages().values() for word in (*page.words, page.name)]
    assert [word for word in words if words.count(word) > 1] == []


def test_sections_are_found_by_words_of_their_text_those_with_them_in_the_heading_first() -> None:
    found = [(section.page, section.title) for section in find_sections("bit for bit")]
    assert ("runs", "Resuming and branching") in found
    assert find_sections("Resuming")[0].title == "Resuming and branching"
    assert find_sections("no such words at all") == []
    assert find_sections("") == []


def test_a_line_of_code_is_no_heading() -> None:
    titles = [section.title for section in pages()["processes"].sections]
    assert titles == ["Many processes", "Slurm", "Guarantees", "Not measured"]


def test_the_nearest_word_is_suggested() -> None:
    assert "(nearest: slurm)" in str(unknown_topic("slrum"))


# What the pages say


def test_the_numbers_of_verify_are_as_many_as_it_says_of_each_provenance() -> None:
    text = pages()["verify"].text
    said = [int(each) for each in re.findall(r"(?:computes|^-) (\d+) (?:reference numbers|are \*)", text, re.M)]
    numbers = [number.provenance for figure in figures() if not figure.needs for number in figure.numbers]
    assert said == [len(numbers), *map(numbers.count, get_args(Provenance))]


def test_there_are_as_many_scenarios_as_it_says() -> None:
    for source in (README, pages()["scenarios"].text):
        assert re.findall(r"(\d+) (?:scenarios|come with)", source) == [str(len(catalogue()))]


def toml(note: str) -> str:
    """The only block of TOML with that note."""
    (code,) = [block.code for source in SOURCES.values() for block in blocks(source) if block.note == note]
    return code


def test_the_scenario_that_is_written_there_is_one(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(toml("scenario"), encoding="utf-8")
    (tmp_path / "notes.txt").write_text("a text " * 300)
    assert load_scenario(path).scenario.kind == "language-model"


def test_the_world_that_is_drawn_there_is_one() -> None:
    from txlab.experiments.tabular.world import WorldSection, world_of

    world = world_of(WorldSection.model_validate(tomllib.loads(toml("world"))["world"]))
    assert world.process.size == 24
    assert not world.notes


def test_the_lecture_that_is_written_there_is_one(tmp_path: Path) -> None:
    from txlab.runs.lecture import Step, load_lecture
    from txlab.tui.screen_registry import screen_names

    path = tmp_path / "talk.toml"
    path.write_text(toml("lecture"), encoding="utf-8")
    assert load_lecture(str(path), screen_names()).full_step(1) == 0
    page = pages()["lectures"].text
    assert all(f"`{name}`" in page for name in Step.model_fields)


def test_the_settings_that_are_written_there_are_some(tmp_path: Path) -> None:
    from txlab.tui.settings import load_settings

    path = tmp_path / "config.toml"
    path.write_text(toml("config"), encoding="utf-8")
    assert load_settings(path).theme == "txlab-light"


@pytest.mark.parametrize("name", ["README.md", "docs/recording.md"])
def test_the_lines_for_a_loop_of_ones_own_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    import txlab

    monkeypatch.setenv("TXLAB_RUNS", str(tmp_path))
    model = torch.nn.Sequential()
    model.head, model.drop = torch.nn.Linear(2, 2), torch.nn.Dropout(0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run_blocks = [block for block in blocks(SOURCES[name]) if block.note == "run"]
    assert run_blocks
    for number, block in enumerate(run_blocks):
        with txlab.record(f"block-{number}") as run:
            known: dict[str, Any] = {
                **{"txlab": txlab, "run": run, "step": 1, "epoch": 1, "model": model, "optimizer": optimizer},
                **{"scheduler": torch.optim.lr_scheduler.ConstantLR(optimizer), "batches": range(3), "loss": 1.0},
                **{"other": 2.0, "pixels": torch.zeros(2, 2), "text": "a", "prompt": "b", "path": "model-1"},
                **{"p": torch.full((1, 1, 2, 2), 0.5), "labels": ["a", "b"], "save": lambda *_: None},
                **{"train": lambda _: 1.0, "train_one_step": lambda: 1.0, "tokenizer": None},
            }
            exec(block.code.replace("run.watch(", "(lambda *_, **__: 0)("), known)


# The two commands of the README


@pytest.mark.parametrize("marker", ["run", "test"])
def test_the_two_commands_are_one_line_each_between_their_markers(marker: str) -> None:
    found = re.search(rf"<!-- {marker} command -->\s*```[a-z]*\n(.+?)\n```\s*<!-- end -->", README, re.DOTALL)
    assert found
    assert "\n" not in found[1]
    assert found[1].startswith("python3 -m venv ")
    assert " && " in found[1]


def test_ci_takes_the_test_command_word_for_word() -> None:
    script = (REPOSITORY / ".ci" / "run").read_text(encoding="utf-8")
    program = re.search(r"<<'PY'\n(.+?)\nPY\n", script, re.DOTALL)
    assert program
    said = subprocess.run(
        [sys.executable, "-", str(REPOSITORY / "README.md")],
        input=program[1],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.strip() in README
    assert said.stdout.strip().endswith("-m pytest -n auto --maxprocesses 8 --dist worksteal")
