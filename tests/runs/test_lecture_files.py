"""Lectures as files: the form, mistakes as sentences, the runs they show, and where each was left."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from txlab.errors import LabError
from txlab.runs.directory import RunDirectory, RunInfo
from txlab.runs.events import encode_row
from txlab.runs.lecture import Lecture, character_name, find_lecture, load_lecture, pressed_keys, shipped_lectures
from txlab.runs.lecture_progress import forget_progress, read_progress, write_progress
from txlab.runs.lecture_runs import find_lecture_run, missing_runs, prepare_run, runs_folder
from txlab.runs.process import execute
from txlab.tui.screen_registry import screen_names

SCREENS = ("lab", "tokens", "train", "attention")
GOOD = """\
title = "Two steps"

[[run]]
name = "root"
scenario = "newton-root"
set = ["descent.steps=3"]

[[step]]
title = "One"
say = "A sentence."
screen = "train"
run = "root"
keys = ["down 2", "type a b", "ctrl+s"]
press = "x"

[[step]]
keep = true
title = "Two"
say = "Another."
"""


def write(folder: Path, text: str) -> str:
    path = folder / "talk.toml"
    path.write_text(text)
    return str(path)


def lecture_of(folder: Path, text: str = GOOD) -> Lecture:
    return load_lecture(write(folder, text), SCREENS)


def test_a_lecture_is_read_with_its_steps_and_runs(tmp_path: Path) -> None:
    lecture = lecture_of(tmp_path)
    assert [step.title for step in lecture.steps] == ["One", "Two"]
    assert lecture.full_step(1) == 0
    assert lecture.steps[0].place.keys == ("down 2", "type a b", "ctrl+s")
    assert [key for key, _ in pressed_keys(lecture.steps[0].keys)] == ["down", "down", "a", "space", "b", "ctrl+s"]
    assert runs_folder(lecture) == tmp_path / "talk"


@pytest.mark.parametrize(
    ("change", "line", "sentence"),
    [
        (('screen = "train"', 'scren = "train"'), 11, "step[0].scren is not a key (nearest: screen)"),
        (('screen = "train"', 'screen = "trian"'), 11, 'step[0].screen = "trian" is not allowed (nearest: train)'),
        (('run = "root"', 'run = "rot"'), 12, 'step[0].run = "rot" is not allowed (nearest: root); allowed: root'),
        (('"ctrl+s"', '"entr"'), 13, 'step[0].keys[2]: "entr" is not a key (nearest: enter)'),
        (('"down 2"', '"down twice"'), 13, 'step[0].keys[0]: "down twice" is not allowed: after the key comes how'),
        (('press = "x"', 'press = "xx"'), 14, 'step[0].press: "xx" is not a key'),
        (('title = "Two"', "until = -1"), 18, "step[1].until = -1 is not allowed; allowed: a whole number, at least 0"),
        (('say = "Another."', ""), 16, "step[1].say is missing"),
        (("keep = true", 'screen = "lab"\nkeep = true'), 16, "step[1]: keep begins with the state before it"),
        (("keep = true", ""), 16, "step[1]: screen is missing"),
        (("scenario =", "scenaro ="), 5, "run[0].scenaro is not a key (nearest: scenario)"),
        (('say = "A sentence."', "say = A sentence."), 10, "is not valid TOML"),
    ],
)
def test_a_mistake_is_a_sentence_with_its_line(
    tmp_path: Path, change: tuple[str, str], line: int, sentence: str
) -> None:
    with pytest.raises(LabError) as raised:
        lecture_of(tmp_path, GOOD.replace(*change))
    assert f"talk.toml, line {line}" in str(raised.value)
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('title = "T"', "step is missing"),
        (GOOD.replace('screen = "train"\nrun = "root"', "keep = true"), "there is no step before the first"),
        (GOOD + '[[run]]\nname = "root"\nscenario = "cliff"\n', 'run[1].name = "root" is there twice'),
    ],
)
def test_a_lecture_that_cannot_be_played_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(LabError) as raised:
        lecture_of(tmp_path, text)
    assert sentence in str(raised.value)


def test_an_unknown_lecture_names_those_that_exist(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="nearest: first-steps"):
        find_lecture("first-step")
    with pytest.raises(LabError, match="cannot be read"):
        load_lecture(str(tmp_path / "none.toml"), SCREENS)


def test_every_shipped_lecture_is_well_formed_and_its_runs_are_of_scenarios_that_exist() -> None:
    from txlab.runs.lecture_runs import load_run

    assert next(iter(shipped_lectures())) == "first-steps"
    for name in shipped_lectures():
        lecture = load_lecture(name, screen_names())
        assert lecture.contents.about, name
        for run in lecture.contents.run:
            load_run(lecture, run)
        assert {step.run for step in lecture.steps} - {""} == set(lecture.runs), name


def test_the_names_of_keys_are_those_of_textual() -> None:
    from textual.keys import _character_to_key

    for character in "aZ5é.,-+/\\@_[]{}<>?:= ":
        assert character_name(character) == _character_to_key(character)


def test_runs_are_prepared_once_found_again_and_never_replaced(tmp_path: Path) -> None:
    lecture = lecture_of(tmp_path)
    folder, root = runs_folder(lecture), tmp_path / "runs"
    assert missing_runs(lecture, folder, root) == ["root"]
    computed: list[Path] = []

    def compute(path: Path) -> None:
        computed.append(path)
        execute(path)

    prepare_run(lecture, "root", folder, compute)
    assert RunInfo.load(folder / "root").changes == {"descent.steps": 3}
    assert missing_runs(lecture, folder, root) == []
    prepare_run(lecture, "root", folder, compute)
    assert computed == [folder / "root"]  # it was done

    other = lecture_of(tmp_path, GOOD.replace("steps=3", "steps=4"))
    assert missing_runs(other, folder, root) == ["root"]
    with pytest.raises(LabError, match="other settings"):
        prepare_run(other, "root", folder, compute)
    assert RunInfo.load(folder / "root").changes == {"descent.steps": 3}


def test_the_folder_can_be_carried_and_a_run_of_the_same_settings_serves_as_well(tmp_path: Path) -> None:
    lecture = lecture_of(tmp_path)
    prepare_run(lecture, "root", tmp_path / "talk", execute)
    carried = tmp_path / "elsewhere"
    shutil.move(tmp_path / "talk", carried)
    assert find_lecture_run(lecture, "root", carried, tmp_path / "runs") == carried / "root"

    known = tmp_path / "runs" / "2026-11-20_143012_newton-root"
    shutil.copytree(carried / "root", known)
    assert find_lecture_run(lecture, "root", tmp_path / "talk", tmp_path / "runs") == known

    changed = {"event": "control", "time": 1.0, "step": 2, "request": "set", "key": "lr", "to": 1.0, "applied": True}
    with RunDirectory(known).events.open("ab") as file:
        file.write(encode_row(changed | {"applied": False}))
    assert find_lecture_run(lecture, "root", tmp_path / "talk", tmp_path / "runs") == known  # it was refused
    with RunDirectory(known).events.open("ab") as file:
        file.write(encode_row(changed))
    assert find_lecture_run(lecture, "root", tmp_path / "talk", tmp_path / "runs") is None


def test_a_branch_is_not_what_the_scenario_gives(tmp_path: Path) -> None:
    lecture = lecture_of(tmp_path)
    branch = tmp_path / "runs" / "2026-11-20_143012_newton-root"
    prepare_run(lecture, "root", tmp_path / "talk", execute)
    shutil.move(tmp_path / "talk" / "root", branch)
    assert find_lecture_run(lecture, "root", tmp_path / "talk", tmp_path / "runs") == branch
    info = RunInfo.load(branch)
    info.branched = {"run": "another", "step": 1}
    info.save(RunDirectory(branch))
    assert find_lecture_run(lecture, "root", tmp_path / "talk", tmp_path / "runs") is None


def test_a_run_whose_log_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    lecture = lecture_of(tmp_path)
    broken = tmp_path / "runs" / "2026-11-21_143012_newton-root"
    prepare_run(lecture, "root", tmp_path / "talk", execute)
    shutil.move(tmp_path / "talk" / "root", broken)
    sound = broken.with_name("2026-11-20_143012_newton-root")
    shutil.copytree(broken, sound)
    RunDirectory(broken).events.unlink()
    RunDirectory(broken).events.mkdir()
    assert find_lecture_run(lecture, "root", tmp_path / "talk", tmp_path / "runs") == sound


def test_an_interrupted_preparation_goes_on(tmp_path: Path) -> None:
    lecture = lecture_of(tmp_path)
    folder = runs_folder(lecture)
    prepare_run(lecture, "root", folder, lambda path: None)  # killed before its first step
    assert missing_runs(lecture, folder, tmp_path) == ["root"]
    prepare_run(lecture, "root", folder, execute)
    assert missing_runs(lecture, folder, tmp_path) == []


def test_the_step_is_kept_for_this_file_alone(tmp_path: Path) -> None:
    lecture = lecture_of(tmp_path)
    assert read_progress(lecture) == 0
    write_progress(lecture, 1)
    assert read_progress(lecture) == 1
    (tmp_path / "other").mkdir()
    assert read_progress(lecture_of(tmp_path / "other")) == 0  # another file of the same name
    shorter = lecture_of(tmp_path, GOOD[: GOOD.rindex("[[step]]")])
    assert read_progress(shorter) == 0
    forget_progress(lecture)
    assert read_progress(lecture) == 0
