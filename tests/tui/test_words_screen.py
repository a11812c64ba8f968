"""Screen 5, Words: the map of a run, cursor, nearest words, analogies, axes, marks, paths, and what is next to it."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import recorded
from picture import strips_of, text_of
from recorded import HOSTILE, make_run, settle
from textual.pilot import Pilot

import txlab
from txlab.drawing.scatter import Shows
from txlab.engine.embeddings.embedding import Embedding
from txlab.engine.embeddings.neighbours import nearest, telling_analogy, unit
from txlab.engine.embeddings.why import meetings
from txlab.errors import LabError
from txlab.runs.directory import RunDirectory, RunInfo
from txlab.runs.process import execute, prepare
from txlab.runs.reader import RunReader
from txlab.runs.scenario import load_scenario
from txlab.runs.word_updates import WordUpdates
from txlab.tui.app import TxlabApp
from txlab.tui.screens.words.picture import Look, embedding_of_frame
from txlab.tui.screens.words.recorded import Pictures
from txlab.tui.screens.words.screen import WordsScreen
from txlab.tui.screens.words.text import analogy_words, axis_pairs

WORDS = ["king", "queen", "man", "woman", "apple", "pear", *(f"word{number}" for number in range(60))]
SIZES = [(60, 20), (80, 24), (120, 40), (200, 60)]


def vectors(step: int, seed: int = 3) -> np.ndarray:
    """king − man + woman = queen exactly; the rest is random and drifts with the step."""
    rng = np.random.default_rng(seed)
    found = rng.standard_normal((len(WORDS), 8))
    royal, female, one = rng.standard_normal((3, 8)) * 3
    found[0], found[1], found[2], found[3] = one + royal, one + royal + female, one, one + female
    return found + 0.02 * step * rng.standard_normal(found.shape) * (np.arange(len(WORDS))[:, None] > 3)


def words_run(root: Path, name: str = "my-words", words: list[str] | None = None, kind: str = "recorded") -> Path:
    run = txlab.record(name, root=root, steps=30)
    for step in (10, 20, 30):
        run.log(step, loss=1 / step)
        tokens = {"words": words or WORDS}
        tensors = {"words/v": vectors(step).astype(np.float32), "words/u": vectors(step, 4).astype(np.float32)}
        run.frame(step, tensors, tokens=tokens, facts={"counts": list(range(len(WORDS), 0, -1))})
    run.close("done")
    info = RunInfo.load(RunDirectory(run.path))
    info.kind = kind
    info.save(RunDirectory(run.path))
    return run.path


def screen_of(app: TxlabApp) -> WordsScreen:
    assert isinstance(app.screen, WordsScreen)
    return app.screen


app_on = partial(recorded.app_on, screen="words")


async def opened(pilot: Pilot[None], app: TxlabApp) -> WordsScreen:
    await pilot.press("5")
    await settle(pilot, lambda: screen_of(app).laid is not None)
    return screen_of(app)


@pytest.fixture
def app(tmp_path: Path) -> TxlabApp:
    return app_on(tmp_path, words_run(tmp_path))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("ascii", [False, True])
async def test_the_map_and_the_nearest_words_are_shown(app: TxlabApp, size: tuple[int, int], ascii: bool) -> None:
    app.ascii = ascii
    async with app.run_test(size=size) as pilot:
        screen = await opened(pilot, app)
        await settle(pilot, lambda: "king" in text_of(app))
        shown = text_of(app)
        assert "my-words" in shown
        assert "30" in shown
        units = unit(vectors(30))
        wanted = nearest(units, units[0], 1, [0])[0]
        assert screen.listed[0][0] == wanted[0]
        assert screen.listed[0][1] == pytest.approx(wanted[1], abs=1e-6)
        if size[0] < 60:
            await pilot.press("i")
        assert f"{wanted[1]:.2f}"[1:] in text_of(app)
        assert not ascii or shown.isascii()


async def test_the_newest_run_of_word_vectors_is_opened_when_none_is_chosen(tmp_path: Path) -> None:
    run = words_run(tmp_path, kind="word-vectors")
    make_run(tmp_path, "later")
    app = app_on(tmp_path)
    async with app.run_test(size=(100, 30)) as pilot:
        await opened(pilot, app)
        assert app.current_run == run


async def test_the_time_line_goes_through_the_frames(app: TxlabApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, app)
        await pilot.press("left_curly_bracket")
        await settle(pilot, lambda: screen.laid is not None and screen.laid.step == 10)
        assert "@ 10" in text_of(app)
        await pilot.press("right_square_bracket")
        await settle(pilot, lambda: screen.laid is not None and screen.laid.step == 20)


async def test_find_goes_to_a_word_by_its_beginning_and_says_what_is_missing(app: TxlabApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, app)
        await pilot.press("slash", *"app", "enter")
        await settle(pilot, lambda: app.screen is screen and WORDS[screen.map.cursor] == "apple")
        await pilot.press("slash", *"zzz", "enter")
        await settle(pilot, lambda: "'zzz' has no vector" in text_of(app))
        await pilot.press("escape")
        assert WORDS[screen.map.cursor] == "apple"


async def test_an_analogy_is_answered_and_its_arrows_drawn(app: TxlabApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, app)
        await pilot.press("a", "ctrl+u", *"queen", "space", *"woman", "space", *"man")
        await settle(pilot, lambda: "woman is to queen as man is to" in text_of(app))
        await pilot.press("enter")
        await settle(pilot, lambda: screen.analogy is not None)
        assert WORDS[screen.listed[0][0]] == "king"
        assert len(screen.map.picture.arrows) == 2
        await pilot.press("escape")
        assert screen.analogy is None
        assert not screen.map.picture.arrows


async def test_arrows_go_from_label_to_label_and_enter_goes_to_a_listed_word(app: TxlabApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, app)
        _row, column = screen.map.drawing.places[screen.map.cursor]
        for key, further in (("right", 1), ("left", -1)):
            before = screen.map.cursor
            await pilot.press(key)
            await pilot.pause()
            if screen.map.cursor != before:
                assert (screen.map.drawing.places[screen.map.cursor][1] - column) * further > 0
                break
        await pilot.press("tab", "down", "enter")
        await pilot.pause()
        wanted = screen.listed
        assert wanted
        assert screen.map.cursor in range(len(WORDS))


async def test_a_key_of_the_cursor_does_not_lay_the_screen_out_again(app: TxlabApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, app)
        await settle(pilot)
        laid_out: list[bool] = []
        lay_out = screen._refresh_layout
        screen._refresh_layout = lambda *given, **named: (laid_out.append(True), lay_out(*given, **named))[1]  # type: ignore[method-assign]
        before = screen.map.cursor
        await pilot.press("right", "down", "left", "up", "right")
        await settle(pilot)
        assert screen.map.cursor != before
        assert WORDS[screen.map.cursor] in text_of(app)
        assert not laid_out


async def test_context_vectors_axes_marks_colours_and_paths(app: TxlabApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, app)
        await pilot.press("v")
        await settle(pilot, lambda: "context vectors" in text_of(app))
        assert screen.laid is not None
        assert screen.laid.units == pytest.approx(unit(vectors(30, 4)), abs=1e-6)
        await pilot.press("v")
        await settle(pilot, lambda: "context vectors" not in text_of(app))
        await pilot.press("p", *"woman", "space", *"man", "space", *"king", "space", *"man", "enter")
        await settle(pilot, lambda: "woman − man" in text_of(app))
        axis = unit(vectors(30))[3] - unit(vectors(30))[2]
        wanted = unit(vectors(30)) @ (axis / np.linalg.norm(axis))
        assert screen.laid is not None
        assert screen.laid.plane.points[:, 0] == pytest.approx(wanted, abs=1e-5)
        await pilot.press("f")
        assert screen.map.picture.classes is not None
        assert screen.map.picture.ordered
        await pilot.press("m", "slash", *"pear", "enter", "m")
        await settle(pilot, lambda: screen.marks == ("king", "pear"))
        assert set(np.unique(screen.map.picture.classes)) == {0, 1}
        await pilot.press("t")
        await settle(pilot, lambda: screen.path is not None)
        assert screen.path is not None
        assert screen.path.points.shape == (3, 2)
        await settle(pilot, lambda: "path of pear, steps 10 to 30" in text_of(app))
        assert "○ step 10" in text_of(app) or "step 10 ○" in text_of(app)
        assert "pear step 30" in text_of(app)


async def test_w_says_why_two_words_are_alike(app: TxlabApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, app)
        await pilot.press("w")
        await settle(pilot, lambda: "cos(v, w) = v·w / (‖v‖ ‖w‖)" in text_of(app))
        assert repr(WORDS[screen.listed[0][0]]) in text_of(app)


async def test_w_continues_with_their_last_updates(tmp_path: Path) -> None:
    changes = ["data.tokens=20000", "train.words=2300", "train.epochs=1", "vectors.width=8", "record.frame_every=5"]
    run = prepare(load_scenario("words-planted", changes), root=tmp_path)
    execute(run)
    app = app_on(tmp_path, run)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, app)
        assert screen.laid is not None
        words = screen.laid.embedding.words
        updates = WordUpdates(RunDirectory(run))
        blocks = [block for step in range(screen.laid.step or 0) for block in updates.experiment.blocks(step)]
        cursor = screen.map.cursor

        def met(row: int) -> bool:
            return all(any(meetings(b, *pair).any() for b in blocks) for pair in ((cursor, row), (row, cursor)))

        place = next(place for place, (row, _) in enumerate(screen.listed) if met(row))
        one, other = words[cursor], words[screen.listed[place][0]]
        told = updates.last(one, other, screen.laid.step)
        await pilot.press("tab", *["down"] * place, "w")
        await settle(pilot, lambda: "1 of 3" in text_of(app) and "cos(v, w)" in text_of(app))
        await pilot.press("right")
        await settle(pilot, lambda: "e = n (σ(x) − 1)" in text_of(app) and told.question in text_of(app))
        assert f"and its context {other!r}?" in text_of(app)
        await pilot.press("right")
        await settle(pilot, lambda: f"{other!r} and its context {one!r}?" in text_of(app))
        await pilot.press("left")  # known by now
        await settle(pilot, lambda: told.question in text_of(app))


async def test_another_embedding_is_opened_and_shown_next_to_the_first(app: TxlabApp, tmp_path: Path) -> None:
    file = tmp_path / "other.txt"
    rows = "\n".join(f"{word} {' '.join(map(str, row))}" for word, row in zip(WORDS[:20], vectors(1)[:20], strict=True))
    file.write_text(f"20 8\n{rows}\n")
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, app)
        screen.beside(str(file))
        await settle(pilot, lambda: screen.second is not None and "compared with" in text_of(app))
        assert screen.has_class("-two")
        await pilot.press("c")
        assert screen.second is None
        screen.open(str(file))
        await settle(pilot, lambda: screen.opened == str(file))
        assert screen.laid is not None
        assert len(screen.laid.embedding.words) == 20
        await pilot.press("escape")
        await settle(pilot, lambda: screen.laid is not None and len(screen.laid.embedding.words) == len(WORDS))
        screen.open(str(tmp_path / "none"))
        await settle(pilot, lambda: "none" in text_of(app))
        assert screen.laid is not None


async def test_every_objective_of_a_run_is_seen_and_offered(tmp_path: Path) -> None:
    from txlab.runs.process import execute, prepare
    from txlab.runs.scenario import load_scenario

    few = ["data.tokens=7000", "train.words=1000", "train.epochs=1", "vectors.width=8", "vectors.block=64"]
    run = prepare(load_scenario("words-softmax", [*few, "record.frame_every=2"]), root=tmp_path)
    execute(run)
    app = app_on(tmp_path, run)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, app)
        seen = {}
        for name in ("softmax", "hierarchical", "nce", "sampling"):
            await settle(pilot, lambda name=name: f"   by {name}   " in text_of(app))
            assert screen.laid is not None
            seen[name] = screen.laid.embedding
            assert (screen.laid.embedding.context is None) == (name == "hierarchical")
            await pilot.press("b")
        await settle(pilot, lambda: "   by softmax   " in text_of(app))
        assert len({embedding.vectors.tobytes() for embedding in seen.values()}) == 4
        await pilot.press("b", "b", "left_square_bracket")  # nce, one frame back: from the frame, not a checkpoint
        await settle(pilot, lambda: " @ 6   by nce   " in text_of(app))
        await pilot.press("c")
        await settle(pilot, lambda: "its vectors by nce" in text_of(app))


async def test_a_run_without_word_vectors_says_so(tmp_path: Path) -> None:
    app = app_on(tmp_path, make_run(tmp_path))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("5")
        await settle(pilot, lambda: "has recorded no word vectors" in text_of(app))


async def test_hostile_words_and_broken_frames_are_shown_as_data_or_refused(tmp_path: Path) -> None:
    hostile = [HOSTILE, *WORDS[1:]]
    app = app_on(tmp_path, words_run(tmp_path, words=hostile))
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, app)
        assert "\x1b" not in text_of(app)
    run = txlab.record("broken", root=tmp_path, steps=3)
    run.frame(1, {"words/v": np.full((66, 8), np.nan, np.float32)}, tokens={"words": WORDS})
    run.frame(2, {"words/v": np.zeros((5, 8), np.float32)}, tokens={"words": WORDS})
    run.frame(3, {"words/v": np.zeros(66, np.float32)}, tokens={"words": ["same"] * 66})
    run.close("done")
    app = app_on(tmp_path, run.path)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("5")
        await settle(pilot, lambda: "66 words for vectors (66,)" in text_of(app))
        await pilot.press("left_curly_bracket")
        await settle(pilot, lambda: "not finite" in text_of(app))


@pytest.mark.evidence
@pytest.mark.parametrize("seed", [1, 2])
async def test_random_keys_break_nothing(app: TxlabApp, seed: int) -> None:
    choice = random.Random(seed)
    keys = [*"mvtfcawoip/hjkl", "up", "down", "left", "right", "tab", "enter", "escape", "plus", "minus", "space"]
    keys += ["left_square_bracket", "right_square_bracket", "left_curly_bracket", "escape", "escape"]
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, app)
        for done in range(400):
            await pilot.press(choice.choice(keys))
            if done % 40 == 0:
                await pilot.resize_terminal(*choice.choice([*SIZES, (30, 10), (8, 3)]))
            assert app._exception is None
        assert app.is_running


async def test_what_another_frame_does_not_have_is_taken_back(tmp_path: Path) -> None:
    run = txlab.record("growing", root=tmp_path, steps=2)
    for step, size in ((1, 5), (2, 20)):
        tensors = {"words/v": vectors(step)[:size].astype(np.float32)}
        run.frame(step, tensors, tokens={"words": WORDS[:size]}, facts={"counts": "many"})
    run.close("done")
    app = app_on(tmp_path, run.path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, app)
        await pilot.press("slash", *"pear", "enter", "m", "a", "ctrl+u")
        await pilot.press(*"pear", "space", *"king", "space", *"man", "enter")
        await settle(pilot, lambda: screen.analogy is not None)
        await pilot.press("left_curly_bracket")
        await settle(pilot, lambda: screen.laid is not None and screen.laid.step == 1)
        assert screen.analogy is None
        assert len(screen.listed) == 4
        await pilot.press("f")
        assert not screen.by_frequency  # frequencies are not known
        assert screen.anchors == tuple(WORDS[:5])  # nor is the mark


CONTENT = ["the", "of", "list", "x", "class", *(f"word{number}x" for number in range(20))]


async def test_labels_are_no_function_words_and_dots_have_colours_from_the_start(tmp_path: Path) -> None:
    run = txlab.record("manual", root=tmp_path, steps=1)
    run.frame(1, {"words/v": vectors(1)[: len(CONTENT)].astype(np.float32)}, tokens={"words": CONTENT})
    run.close("done")
    app = app_on(tmp_path, run.path)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, app)
        await settle(pilot, lambda: "list" in text_of(app))
        labels = {label.text for label in screen.map.labels(200) if label.shows == Shows.LABEL}
        assert labels
        assert not labels & {"the", "of", "x"}
        assert screen.anchors == ("list", "class", "word0x", "word1x", "word2x", "word3x")
        picture = screen.map.picture
        assert picture.classes is not None
        rows = [CONTENT.index(word) for word in screen.anchors]
        units = unit(vectors(1)[: len(CONTENT)])
        assert picture.classes.tolist() == (units @ units[rows].T).argmax(1).tolist()
        colours = {style.color for strip in strips_of(app) for text, style, _ in strip if "word" in text and style}
        assert len(colours) > 2
        await pilot.press("slash", *"the", "enter")  # they can be asked about
        await settle(pilot, lambda: screen.word == "the")


async def test_space_plays_the_frames_of_a_run_that_has_ended(app: TxlabApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, app)
        await settle(pilot, lambda: "space play" in text_of(app))
        steps: list[int | None] = []
        show = screen.show_laid
        screen.show_laid = lambda laid: (steps.append(laid.step), show(laid))[1]  # type: ignore[method-assign]
        await pilot.press("space")
        await settle(pilot, lambda: steps[-1:] == [30])
        assert steps == [10, 20, 30]
        assert not screen.run.playing
        assert screen.run.timeline.live
        screen.run.play(True)
        await pilot.press("left_curly_bracket")  # moving by hand ends it
        assert not screen.run.playing


@pytest.mark.parametrize("way", ["backwards", "by name", "compared"])
async def test_a_frame_has_one_picture_however_it_is_reached(tmp_path: Path, way: str) -> None:
    changes = ["data.tokens=20000", "train.words=2300", "train.epochs=1", "vectors.width=8", "record.frame_every=2"]
    run = prepare(load_scenario("words-planted", changes), root=tmp_path)
    execute(run)
    app = app_on(tmp_path, run)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, app)
        assert screen.laid is not None
        last, points, share = screen.laid.step, screen.laid.plane.points, screen.laid.plane.share
        if way == "backwards":
            await pilot.press("left_curly_bracket")
            await settle(pilot, lambda: screen.laid is not None and screen.laid.step == 0)
            await pilot.press("right_curly_bracket")
            await settle(pilot, lambda: screen.laid is not None and screen.laid.step == last)
        elif way == "by name":
            screen.open(run.name)
            await settle(pilot, lambda: screen.opened == run.name)
        else:
            screen.beside(run.name)
            await settle(pilot, lambda: screen.second is not None)
        laid = screen.second if way == "compared" else screen.laid
        assert laid is not None
        assert laid.plane.share == share
        spread = np.abs(laid.plane.points - laid.plane.points.mean(0) - points + points.mean(0))
        assert spread.max() < 1e-6


def test_words_of_a_checkpoint_lie_on_the_axes_of_the_frame(tmp_path: Path) -> None:
    """A frame has fewer words than a checkpoint, which may be written later."""
    reader = RunReader(words_run(tmp_path))
    frame = embedding_of_frame(reader.frames.read(30), "")
    more = Embedding((*frame.words, "more", "still"), np.concatenate([frame.vectors, vectors(30, 9)[:2] * 40]))
    before = Pictures().lay(reader, frame, 30, Look())
    after = Pictures().lay(reader, more, 30, Look())
    assert after.plane.share == before.plane.share
    assert after.plane.points[: len(WORDS)] == pytest.approx(before.plane.points, abs=1e-5)


async def test_suggested_words_have_vectors_here(app: TxlabApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, app)
        assert screen.laid is not None
        await pilot.press("a", "enter")
        await settle(pilot, lambda: screen.analogy is not None)
        assert screen.analogy == screen.laid.telling_analogy(0)
        for row in range(len(WORDS)):
            asked = screen.laid.telling_analogy(row)
            assert asked is not None
            assert len(set(asked)) == 3
            assert set(asked) <= set(WORDS)


def test_a_suggested_analogy_is_the_one_whose_step_leads_to_its_answer() -> None:
    units = unit(vectors(30))
    found = telling_analogy(units, 0, [2, 10, 11], [3, 12, 13])
    assert found == (2, 3)  # king − man + woman: queen exactly
    assert telling_analogy(units, 0, [0], [1]) is None


@pytest.mark.parametrize("typed", ["a b", "a b c d", "king man nobody"])
def test_an_invalid_analogy_is_a_readable_error(typed: str) -> None:
    embedding = Embedding(("king", "man", "woman"), np.eye(3))
    with pytest.raises(LabError):
        analogy_words(embedding, typed)
    with pytest.raises(LabError):
        axis_pairs(embedding, f"{typed} nobody")
    assert analogy_words(embedding, " ") is None
    assert axis_pairs(embedding, " ") == ()
    assert axis_pairs(embedding, "king man, woman man") == (("king", "man"), ("woman", "man"))


async def test_w_under_an_analogy_explains_the_cosine_that_the_list_shows(app: TxlabApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, app)
        await pilot.press("slash", *"apple", "enter", "a", "ctrl+u")
        await pilot.press(*"queen", "space", *"woman", "space", *"man", "enter")
        await settle(pilot, lambda: screen.analogy is not None)
        await pilot.press("w")
        await settle(pilot, lambda: "'queen − woman + man' and 'king'" in text_of(app))
        assert f"by {screen.listed[0][1]:.3f}" in text_of(app)


async def test_a_path_that_is_no_longer_wanted_is_not_drawn(app: TxlabApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, app)
        screen.action_trail()
        screen.action_trail()  # taken back while it is computed
        await settle(pilot, lambda: not screen.trail_task.busy)
        await pilot.pause(0.2)
        assert screen.path is None


@pytest.mark.parametrize("flat", ["zeros", "equal"])
async def test_vectors_that_do_not_differ_are_drawn_in_one_place(tmp_path: Path, flat: str) -> None:
    """As the context vectors of a run before its first step."""
    run = txlab.record("flat", root=tmp_path, steps=3)
    for step in (0, 1, 2):
        v, u = vectors(step).astype(np.float32), vectors(step, 4).astype(np.float32)
        if step == 0:
            u = np.zeros_like(u) if flat == "zeros" else np.ones_like(u)
            v = np.ones_like(v) if flat == "equal" else v
        run.frame(step, {"words/v": v, "words/u": u}, tokens={"words": WORDS})
    run.close("done")
    app = app_on(tmp_path, run.path)
    async with app.run_test(size=(100, 30)) as pilot:
        screen = await opened(pilot, app)
        for keys in ((), ("v",), ("t",), ("m", "f"), ("plus", "minus", *"hjkl"), ("v",)):
            await pilot.press(*keys)
            for key, step in (("left_curly_bracket", 0), ("right_square_bracket", 1)):
                await pilot.press(key)
                await settle(pilot, lambda step=step: screen.laid is not None and screen.laid.step == step)  # type: ignore[misc]
                assert app._exception is None
                assert np.isfinite(screen.laid.plane.points).all()  # type: ignore[union-attr]


async def test_the_dialog_says_what_enter_does_with_a_run_that_is_not_listed(app: TxlabApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, app)
        await pilot.press("o")
        await settle(pilot, lambda: len(app.screen_stack) == 2)
        await pilot.press(*"box", "colon", *"words", "at", *"20")
        await settle(pilot, lambda: "enter opens words of the machine box, at step 20" in text_of(app))
        assert "no match" not in text_of(app)
        await pilot.press("escape", "c")
        await settle(pilot, lambda: "Compare with" in text_of(app))
        await pilot.press(*"x.txt")
        await settle(pilot, lambda: "enter compares with x.txt" in text_of(app))


@pytest.mark.parametrize("size", SIZES)
async def test_the_colours_are_named_whatever_else_is_shown(app: TxlabApp, size: tuple[int, int]) -> None:
    async with app.run_test(size=size) as pilot:
        screen = await opened(pilot, app)
        for key in ("t", "v"):
            await pilot.press(key)
        await settle(pilot, lambda: screen.look.context and screen.laid is not None and screen.laid.look.context)
        await settle(pilot, lambda: screen.path is not None)
        line = next(line for line in text_of(app).splitlines() if "my-words" in line)
        assert len(screen.anchors) == 6
        for word in screen.anchors:
            assert f" {word[:4]}" in line
        assert ("path of king" in line) == (size[0] > 60)
