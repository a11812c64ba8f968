"""Pictures: whole files of the right kind, the same bytes each time, and any text in them taken literally."""

import io
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import orjson
import pytest
from PIL import Image

from txlab.drawing.picture import Stroke, draw_attention, draw_curves, strokes_of
from txlab.errors import LabError
from txlab.runs.reader import RunReader

WICKED = [
    "$x^2$",
    "$\\frac{",
    "\\alpha_1$$",
    "日本語",
    "\U0001f600",
    "\ud800",
    "\x1b[31m",
    "a\nb",
    "\0",
    "‮abc",
    "&<b>",
    "",
    "क्षि",
]
STEPS = np.arange(1, 301)
LOSS = 5 / STEPS**0.3


def colours_of(path: Path) -> set[tuple[int, int, int]]:
    return {colour for _, colour in Image.open(path).convert("RGB").getcolors(1 << 24)}


class TestCurves:
    @pytest.mark.parametrize(("theme", "log"), [("light", False), ("dark", True)])
    def test_a_png_shows_every_role(self, tmp_path: Path, theme: str, log: bool) -> None:
        strokes = [
            Stroke("", STEPS[100:200], LOSS[100:200] + 1, "dead", 0),
            Stroke("loss", STEPS, LOSS, "train", 0),
            Stroke("val_loss", STEPS[::30], LOSS[::30], "validation", 1),
        ]
        plain = draw_curves(strokes, tmp_path / "a.png", theme=theme, log_x=log, log_y=log, smoothing=10, size=(4, 2))
        image = Image.open(plain)
        assert image.format == "PNG"
        assert image.size == (576, 288)
        for left_out in range(3):
            fewer = strokes[:left_out] + strokes[left_out + 1 :]
            other = draw_curves(fewer, tmp_path / "b.png", theme=theme, log_x=log, log_y=log, smoothing=10, size=(4, 2))
            assert other.read_bytes() != plain.read_bytes()

    def test_the_same_numbers_are_the_same_bytes(self, tmp_path: Path) -> None:
        for suffix in ("png", "svg"):
            one = draw_curves([Stroke("loss", STEPS, LOSS)], tmp_path / f"one.{suffix}", title="t")
            two = draw_curves([Stroke("loss", STEPS, LOSS)], tmp_path / f"two.{suffix}", title="t")
            assert one.read_bytes() == two.read_bytes()

    def test_no_text_breaks_a_picture_or_means_anything(self, tmp_path: Path) -> None:
        strokes = [Stroke(text, STEPS[:9], LOSS[:9]) for text in WICKED]
        out = draw_curves(strokes, tmp_path / "a.svg", title=" ".join(WICKED), y_label="$\\frac{", x_label="\ud800")
        assert ElementTree.fromstring(out.read_bytes()).tag.endswith("svg")
        for text in ("$x^2$", "$\\frac{", "\\alpha_1$$", "日本語", "\\ud800", "a↵b"):
            assert f"<!-- {text} -->" in out.read_text("utf-8")

    def test_a_dollar_is_drawn_as_a_dollar(self, tmp_path: Path) -> None:
        out = draw_curves([Stroke("", STEPS, LOSS)], tmp_path / "a.svg", title="$a$")
        assert "<!-- $a$ -->" in out.read_text("utf-8")

    def test_gaps_infinities_and_non_positive_numbers_are_left_out(self, tmp_path: Path) -> None:
        values = np.array([1.0, np.nan, np.inf, -np.inf, -1.0, 0.0, 1e300, 5e-324, 2.0])
        for log in (False, True):
            out = draw_curves(
                [Stroke("x", np.arange(9), values)], tmp_path / "a.png", log_x=log, log_y=log, smoothing=2
            )
            assert Image.open(out).size == (1296, 720)

    def test_nothing_and_one_point_are_pictures_too(self, tmp_path: Path) -> None:
        draw_curves([], tmp_path / "none.png")
        draw_curves([Stroke("x", np.array([], int), np.array([]))], tmp_path / "empty.png", log_x=True, log_y=True)
        draw_curves([Stroke("x", np.array([3]), np.array([0.0]))], tmp_path / "one.png", log_y=True)
        draw_curves([Stroke("x", np.array([0, 1]), np.array([1.0, np.nan]))], tmp_path / "gap.png", log_x=True)
        assert len(list(tmp_path.glob("*.png"))) == 4

    def test_a_million_points_are_thinned_first(self, tmp_path: Path) -> None:
        steps = np.arange(200_000)
        out = draw_curves([Stroke("x", steps, np.sin(steps))], tmp_path / "a.svg")
        assert len(out.read_bytes()) < 1_000_000

    def test_a_users_settings_and_ours_leave_each_other_alone(self, tmp_path: Path) -> None:
        import matplotlib

        with matplotlib.rc_context({"text.usetex": True, "lines.linewidth": 9.0}):
            one = draw_curves([Stroke("x", STEPS, LOSS)], tmp_path / "a.png", title="$")
            assert matplotlib.rcParams["lines.linewidth"] == 9.0
            assert matplotlib.rcParams["text.usetex"]
        two = draw_curves([Stroke("x", STEPS, LOSS)], tmp_path / "b.png", title="$")
        assert one.read_bytes() == two.read_bytes()

    def test_wrong_suffixes_and_places_are_reported(self, tmp_path: Path) -> None:
        with pytest.raises(LabError, match=r"\.png or \.svg"):
            draw_curves([], tmp_path / "a.pdf")
        (tmp_path / "file").write_text("")
        with pytest.raises(LabError, match="cannot be written"):
            draw_curves([], tmp_path / "file" / "a.png")


class TestStrokesOfARun:
    def test_dead_branches_come_first_and_validation_is_known(self, tmp_path: Path) -> None:
        rows = [
            {"event": "metrics", "time": 0.0, "step": s, "values": {"loss": 1.0, "val_loss": 2.0}} for s in range(5)
        ]
        rows += [{"event": "rewind", "time": 0.0, "step": 2}]
        (tmp_path / "events.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
        reader = RunReader(tmp_path)
        reader.poll()
        strokes = strokes_of(reader, ["loss", "val_loss"], run="docs")
        assert [(s.name, s.role, len(s.steps)) for s in strokes] == [
            ("", "dead", 2),
            ("", "dead", 2),
            ("docs loss", "train", 3),
            ("docs val_loss", "validation", 3),
        ]
        with pytest.raises(LabError, match="nearest: loss"):
            strokes_of(reader, ["los"])


class TestAttention:
    def test_the_mask_looks_other_than_a_learnt_zero(self, tmp_path: Path) -> None:
        pattern = np.eye(4, dtype=np.float16)
        one = draw_attention(pattern, tmp_path / "a.png", queries=list("abcd"), causal=True)
        two = draw_attention(pattern, tmp_path / "b.png", queries=list("abcd"))
        assert (0xD9, 0xDD, 0xE2) in colours_of(one)
        assert one.read_bytes() != two.read_bytes()

    def test_tokens_are_drawn_as_they_are(self, tmp_path: Path) -> None:
        count = len(WICKED)
        pattern = np.full((count, count), 1 / count)
        out = draw_attention(pattern, tmp_path / "a.svg", queries=WICKED, title="$")
        assert len(re.findall(r"<!-- \$x\^2\$ -->", out.read_text("utf-8"))) == 2

    def test_cross_attention_and_long_texts_fit(self, tmp_path: Path) -> None:
        out = draw_attention(np.full((3, 7), 1 / 7), tmp_path / "a.png", queries=list("abc"), keys=list("defghij"))
        assert Image.open(io.BytesIO(out.read_bytes())).format == "PNG"
        out = draw_attention(np.full((100, 100), 1 / 100), tmp_path / "b.png", queries=["tok"] * 100, causal=True)
        assert max(Image.open(out).size) < 5000

    def test_labels_that_do_not_fit_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(LabError, match="does not fit 2 queries"):
            draw_attention(np.eye(3), tmp_path / "a.png", queries=["a", "b"])
