"""Captions: sentences with the numbers of a frame, recomputed here; and none where a number is missing."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from txlab.drawing.captions import decisions, feedback, figures, functions, language, machines, recurrent, runs
from txlab.drawing.captions.decisions import Learner
from txlab.drawing.captions.sentence import Sentence, clauses_that_fit
from txlab.drawing.text import width
from txlab.drawing.update_lines import compact
from txlab.experiments.kind import kind_named
from txlab.experiments.protocol import Frame
from txlab.runs.scenario import catalogue, load_scenario
from txlab.runs.summary import RunSummary

STEPS = np.arange(1, 101)


def gradients(**curves: Any) -> Frame:
    tensors = {f"curve/{name}": np.asarray(values, float) for name, values in curves.items()}
    return Frame(5, tensors, facts={"curve": {"y": "log₁₀ ‖∂L_T/∂s_t‖", "from": 0}})


def test_the_lost_powers_of_ten_are_those_between_the_ends_of_a_gradient() -> None:
    rnn, lstm = -np.linspace(1.0, 26.2, 100), np.linspace(-1.0, -1.3, 100)
    said = recurrent.gradients(gradients(lstm=lstm, rnn=rnn))
    assert round(rnn[0] - rnn[-1]) == 25
    assert said == ("The RNN's gradient has lost 25 powers of ten over 99 steps", "the LSTM's none")
    grown = recurrent.gradients(gradients(rnn=np.linspace(0.0, 3.2, 51)))
    assert grown == ("The RNN's gradient has grown by 3 powers of ten over 50 steps",)
    kept = recurrent.gradients(gradients(gru=np.zeros(11), rnn=np.full(11, 0.2)))
    assert kept == ("The GRU's gradient has kept its size over 10 steps", "the RNN's too")
    one = recurrent.gradients(gradients(rnn=[0.0, -1.0]))
    assert one == ("The RNN's gradient has lost 1 power of ten over 1 step",)


def test_a_frame_without_a_logarithm_of_a_gradient_has_no_sentence_about_one() -> None:
    frame = gradients(rnn=[0.0, -3.0])
    assert recurrent.gradients(Frame(5, frame.tensors)) == ()
    assert recurrent.gradients(Frame(5, frame.tensors, facts={"curve": {"y": "loss"}})) == ()
    assert recurrent.gradients(gradients(rnn=[0.0, np.nan])) == ()
    assert recurrent.gradients(gradients(rnn=[0.0])) == ()


def test_a_unit_is_described_by_the_tokens_after_which_it_is_highest_and_lowest() -> None:
    values = np.random.default_rng(1).uniform(-0.9, 0.9, (2, 5, 3))
    frame = Frame(0, {"state/h": values}, tokens={"probe": list("ab (c")})
    row = values[1, :, 2]
    high, low = ("a space" if "ab (c"[at] == " " else f"“{'ab (c'[at]}”" for at in (row.argmax(), row.argmin()))
    said = recurrent.unit(frame, "h", 1, 2)
    assert said[0].startswith(f"Unit 3 of layer 2 is highest after {high}, ")
    assert said[1].startswith(f"lowest after {low}, ")
    of_target = Frame(0, frame.tensors, tokens={"target": list("ab (c")}, facts={"tokens": "target"})
    assert recurrent.unit(of_target, "h", 1, 2) == said
    assert numbers(said[0])[-1] == pytest.approx(row.max(), abs=0.005)
    assert numbers(said[1])[-1] == pytest.approx(row.min(), abs=0.005)
    assert recurrent.unit(frame, "c", 1, 2) == recurrent.unit(frame, "h", 2, 0) == ()


def numbers(text: str) -> list[float]:
    return [float(each.replace("−", "-")) for each in re.findall(r"[−+]?\d*\.?\d+", text)]


def test_a_curve_has_fallen_from_its_first_value_to_that_of_the_shown_step() -> None:
    loss, val = 5 * np.exp(-STEPS / 30.0), 5 * np.exp(-STEPS / 30.0) + 0.5 * (STEPS > 60)
    said = runs.curve("loss", "nats", True, (STEPS, loss), (STEPS, val))
    assert said[0] == f"The loss has fallen from {loss[0]:.3f} to {loss[-1]:.3f} nats in 99 steps"
    assert said[1] == f"on unseen data {val[-1]:.3f}"
    assert said[2] == f"its best was {val.min():.3f} at step {STEPS[val.argmin()]}" != "the best so far"
    early = runs.curve("loss", "nats", True, (STEPS, loss), (STEPS, val), at=40)
    assert early[0].endswith(f"to {loss[39]:.3f} nats in 39 steps")
    assert early[2] == "the best so far"
    flat = runs.curve("val_accuracy", "", None, (STEPS, np.ones(100)))
    assert flat == ("The val accuracy is 1.000, as it was 99 steps before",)
    assert runs.curve("loss", "", True, (STEPS[:1], loss[:1])) == ()
    one = runs.curve("return", "return of an episode", False, (np.array([1, 2]), np.array([-8.0, -6.0])))
    assert one == ("The return has risen from −8.000 to −6.000 in 1 step",)
    assert runs.curve("loss", "", True, (STEPS, np.full(100, np.nan))) == ()


def test_the_best_of_curves_drawn_together_is_that_of_the_metric() -> None:
    lines = [("sarsa", STEPS, -STEPS / 10), ("q", STEPS, -STEPS / 5)]
    assert runs.family("return", "", False, lines) == (
        "At step 100 sarsa has the best return, −10.00",
        "q the worst, −20.00",
    )
    assert runs.family("loss", "", True, lines, at=50) == (
        "At step 50 q has the best loss, −10.00",
        "sarsa the worst, −5.000",
    )
    assert runs.family("return", "", False, lines[:1]) == ()


def summary(name: str, status: str, created: float, **more: Any) -> RunSummary:
    from pathlib import Path

    return RunSummary(Path(name), name, name, status=status, created=created, **more)


def test_the_lab_names_the_run_that_is_computed_before_any_that_has_ended() -> None:
    ended = summary("gpt", "done", 2.0, step=450, metric="loss", value=0.0379)
    going = summary("cliff", "running", 1.0, step=12, steps=500, seconds_left=61.0)
    assert runs.runs([ended, going], 2, 81) == ("cliff is at step 12 of 500", "1m01s to go")
    assert runs.runs([ended], 1, 81) == ("The run gpt ended at step 450", "loss 0.0379")
    failed = summary("a", "failed", 0.0)
    assert runs.runs([ended, failed], 2, 81)[2] == "1 of all failed"
    assert len(runs.runs([ended, failed], 9, 81)) == 2, "the other seven are not known"
    assert runs.runs([], 0, 81) == ("No run yet: each of the 81 scenarios starts one",)
    assert runs.runs([], 3, 81) == runs.runs([], 0, 0) == ()


def test_a_head_that_copies_is_named_after_it_and_any_other_after_its_largest_weight() -> None:
    queries, weights = ["the", "·cat", " sat"], np.array([0.1, 0.62, 0.28])
    copies = language.head(1, 0, {"induction": 0.96, "previous": 0.05}, queries, queries, 2, weights)
    assert copies == ("Head 2.1 copies: .96 of its weight on what followed this token before",)
    back = language.head(0, 3, {"induction": np.nan, "previous": 0.46}, queries, queries, 2, weights)
    assert back == ("Head 1.4 looks one back: .46 of its weight is on the token before",)
    other = language.head(1, 2, {"induction": 0.1}, queries, queries, 2, weights)
    assert other == ("“·sat” looks most at “·cat” in head 2.3, with .62 of its weight",)
    own = language.head(1, 2, {}, queries, queries, 1, weights)
    assert own[0].startswith("“·cat” looks most at itself")
    assert language.head(1, 2, {}, queries, queries, 2, np.zeros(0)) == ()
    assert language.head(1, 2, {}, queries, queries, 2, np.full(3, np.nan)) == ()


def test_what_comes_next_is_said_with_the_change_by_the_edits() -> None:
    assert language.prediction("next after", "y", ("m", 0.97, None), None, 0) == ("next after “y”: “m”, .97",)
    edited = language.prediction("next after", "y", ("m", 0.03, 0.97), 2.3125, 1)
    assert edited == ("The edit changes what comes next by 2.31 nats", "“m” from .97 to .03")
    assert language.prediction("next after", "y", None, None, 0) == ()


def test_tokens_are_counted_with_their_bytes_and_beside_those_of_others() -> None:
    assert language.tokens(293, 44, [("bpe", 182)], 0) == (
        "293 bytes are 182 tokens of 1.61 bytes (bpe)",
        "4.14 tokens a word",
    )
    assert f"{293 / 182:.2f} {182 / 44:.2f}" == "1.61 4.14"
    assert language.tokens(293, 44, [("bpe", 182), ("bytes", 293)], 1)[1] == "182 by bpe"
    assert language.tokens(0, 0, [("bpe", 0)], 0) == ()


def test_the_next_merge_is_said_with_how_often_it_was_found() -> None:
    lengths = np.array([100, 90, 84])
    said = language.merging(2, lengths, 100, "t + h", "th", 9)
    assert said == ("After 2 merges the text of 100 bytes has 84 tokens", "the next merge is t + h, found 9 times")
    assert language.merging(3, lengths, 100, "t + h", "th", 9) == ()
    assert language.merging(2, lengths, 100, "", "", 0) == said[:1]


def test_near_words_and_analogies_have_their_cosines() -> None:
    near = language.nearest("king", [("queen", 0.71), ("prince", 0.66)], 12, 9150)
    assert near == ("“king”, 12th of 9 150 words, is nearest to “queen”: cosine .71", "then “prince”, .66")
    assert language.analogy("king", "man", "woman", [("queen", 0.77)]) == (
        "“man” is to “king” as “woman” is to “queen”: cosine .77",
    )
    assert language.nearest("king", [("queen", np.nan)], 1, 2) == language.analogy("a", "b", "c", []) == ()


def test_learners_are_compared_by_what_they_earn_and_stay_without_exploration() -> None:
    sarsa, q = Learner("SARSA", -29.31, -17.0, 0.1), Learner("Q-learning", -50.51, -13.0, 0.1)
    assert decisions.learners([sarsa, q], "episode", 500) == (
        "After 500 episodes SARSA earns −29.3 an episode", "Q-learning −50.5", "greedily −17 and −13",
    )  # fmt: skip
    stuck = Learner("SARSA", -17.0, -17.0, 0.0, [-17.0] * 6)
    assert decisions.learners([stuck], "episode", 9) == (
        "ε = 0: only what is already best is tried, so SARSA stays at −17",
    )
    for moving in (
        Learner("SARSA", -17.0, None, 0.0, [-17.0] * 4),
        Learner("SARSA", -17.0, None, 0.0, [-16.0, *[-17.0] * 4]),
    ):
        assert decisions.learners([moving], "episode", 9)[0].startswith("After 9 episodes")
    wild = [
        Learner("TD", 1.0, warning="TD diverges: Q = 9e9; lower α"),
        Learner("Q", warning="Q diverges: 1e9; lower α"),
    ]
    assert decisions.learners(wild, "step", 3) == ("TD diverges: Q = 9e9", "Q diverges too")
    rms = [Learner("TD(0)", 0.05, measure="rms/td-0"), Learner("TD(λ)", 0.04, measure="rms/td")]
    assert decisions.learners(rms, "episode", 1) == (
        "After 1 episode the root-mean-square error is .05 for TD(0)", ".04 for TD(λ)",
    )  # fmt: skip
    assert decisions.learners([Learner("SARSA")], "episode", 0) == ()


def test_a_plan_is_said_by_its_best_and_its_worst_state() -> None:
    frame = Frame(3, {"0/v": np.array([0.5, np.nan, -1.0, 0.811])})
    assert decisions.planned(frame) == ("The best state is worth .811, the worst −1",)
    assert decisions.planned(Frame(0, {"0/v": np.zeros(4)})) == decisions.planned(Frame(0)) == ()


def test_a_position_is_said_by_its_best_and_its_worst_move() -> None:
    values = {"centre": 0.31, "top": -0.12, "left": 0.1}
    assert decisions.position("X", values, {"centre": "wins in 3"}, "TD(0)", 2, "") == (
        "X is to move: centre is best, +.31 for TD(0) (wins in 3)", "top worst, −.12",
    )  # fmt: skip
    assert decisions.position("X", dict.fromkeys("abc", 0.0), dict.fromkeys("abc", "draws"), "", 0, "") == (
        "X is to move: all 3 moves are worth 0 (draws)",
    )
    assert decisions.position("X", {"a": 1.0, "b": 1.0, "c": 0.0}, {}, "", 0, "")[0] == (
        "X is to move: 2 of 3 moves are best, +1"
    )
    assert decisions.position("O", {}, {}, "", 5, "X has won: the top row") == (
        "X has won: the top row",
        "after 5 moves",
    )
    assert decisions.position("X", {"a": np.nan}, {}, "", 0, "") == ()


METHODS = {"titles": ["gradient descent", "Newton for a root"], "rules": ["gradient", "newton-root"]}


def test_methods_are_said_from_the_lowest_on() -> None:
    tensors = {
        "0/path": np.array([[1.0, 2.0]]),
        "0/value": np.array(3.5),
        "1/path": np.array([[0.5, 0.25]]),
        "1/value": np.array(-0.5),
    }
    facts: dict[str, Any] = {**METHODS, "steps": [7, 8], "rests": ["", "arrived"]}
    assert functions.descent(Frame(8, tensors, facts=facts)) == (
        "Newton for a root has arrived at (.5, .25): |f| = .5", "after 8 steps", "gradient descent is at 3.5",
    )  # fmt: skip
    facts["rests"] = ["it diverges: f is not finite", functions.OFF]
    assert functions.descent(Frame(8, tensors, facts=facts)) == ("Gradient descent diverges",)
    assert functions.descent(Frame(8, {}, facts=facts | {"rests": ["", ""]})) == functions.descent(Frame(0)) == ()


def test_a_network_is_said_by_the_points_on_the_right_side() -> None:
    facts = {"classes": True, "measured": {"accuracy": 0.9, "val_accuracy": 0.85, "loss": 0.2}}
    frame = Frame(60, {"train": np.zeros((40, 3))}, facts=facts)
    assert functions.playground(frame) == (
        "After 60 steps 36 of 40 points are on the right side", "and .85 of the unseen ones",
    )  # fmt: skip
    regression = Frame(1, {}, facts={"measured": {"loss": 0.25, "val_loss": 0.5}})
    assert functions.playground(regression) == ("After 1 step the loss is 0.25", "on unseen points 0.50")
    assert (
        functions.playground(Frame(1, {}, facts={"measured": {"loss": np.nan}})) == functions.playground(Frame(1)) == ()
    )


def test_a_filter_is_said_by_its_answer_here_and_its_largest() -> None:
    answers = np.random.default_rng(2).normal(size=(2, 4, 6))
    frame = Frame(
        0, {"map/0": answers, "class/probability": np.array([0.2, 0.8])}, tokens={"class": ["square", "circle"]}
    )
    said = functions.convolution(frame, 1, 0, 3)
    row, column = np.argwhere(answers[1] == answers[1].max())[0]
    assert said[0].endswith(f"at row {row + 1}, column {column + 1}")
    assert numbers(said[0])[1:3] == pytest.approx([answers[1, 0, 3], answers[1].max()], rel=0.01)
    assert said[1] == "the network says circle, .80"
    assert "more than anywhere else" in functions.convolution(frame, 1, row, column)[0]
    assert functions.convolution(Frame(0), 0, 0, 0) == ()


def test_an_example_is_said_with_its_question_and_beside_its_misprint() -> None:
    assert functions.example("F1", "Newton's method", "where is it?", 2.0945514) == (
        "F1, Newton's method: where is it? 2.095",
    )
    wrong = functions.example("T1", "attention", "what is α?", 0.5, 0.25)
    assert wrong == ("T1 gives 0.5, the misprinted form 0.25", "what is α?")
    assert functions.example("F1", "Newton's method", "where is it?", np.inf) == ()


def test_goodharts_law_is_said_by_the_proxy_and_the_fall_of_gold() -> None:
    steps = np.arange(4)
    series = {
        "proxy": (steps, np.array([0.1, 1.0, 2.0, 2.5])),
        "gold": (steps, np.array([0.2, 0.9, 0.5, -0.1])),
        "kl": (steps, steps * 3.0),
    }
    assert feedback.stage("policy", series, "", 0) == (
        "The proxy rose to 2.50, gold fell from its best 0.90 to −0.10", "at a KL of 9.00 nats",
    )  # fmt: skip
    best = {"proxy/β=0.3": series["proxy"], "gold/β=0.3": (steps, np.array([0.1, 0.2, 0.3, 0.4]))}
    assert feedback.stage("policy", best, "/β=0.3", 0) == ("β = 0.3: the proxy rose to 2.50, gold is best now, 0.40",)
    ranked = {"val_accuracy": (steps, np.array([0.52, 0.7, 0.8, 0.84]))}
    assert feedback.stage("rankings", ranked, "", 40) == (
        "After 40 rankings the reward model agrees with .84 of the unseen answers", "at first with .52",
    )  # fmt: skip
    assert feedback.stage("demonstrations", {"loss": (steps, np.array([3.0, 2.0, 1.5, 1.0]))}, "", 0) == (
        "The model's loss fell from 3.00 to 1.00 nats",
    )
    for stage in ("policy", "rankings", "demonstrations"):
        assert feedback.stage(stage, {}, "", 3) == ()


def test_a_line_has_as_many_clauses_as_fit_and_controls_are_visible() -> None:
    said: Sentence = ("A first clause", "a second", "a third")
    assert clauses_that_fit(said, 80) == "A first clause, a second, a third"
    assert clauses_that_fit(said, 24) == "A first clause, a second"
    assert clauses_that_fit(said, 23) == "A first clause"
    assert clauses_that_fit(("A word\x1b[31m",), 80) == "A word␛[31m"
    assert clauses_that_fit((), 80) == ""


SHIPPED = {
    "descent": (functions.descent, []),
    "playground": (functions.playground, ["network.layers=[3]"]),
    "convolution": (
        lambda frame: functions.convolution(frame, 0, 1, 2),
        ["train.batch=8", "train.validation_batches=1"],
    ),
    "recurrent": (recurrent.gradients, ["data.length=20", "model.width=6", "train.batch=4"]),
}
"""screen → its caption of a frame, and what makes its scenarios small"""


def shipped_frames() -> list[tuple[str, str]]:
    of_units = ("recurrent-language-model", "recurrent-translation")  # their caption is of a unit
    kinds = ((entry.name, entry.scenario.kind) for entry in catalogue())
    return [
        (name, kind_named(kind).screen)
        for name, kind in kinds
        if kind_named(kind).screen in SHIPPED and kind not in of_units
    ]


@pytest.mark.parametrize(("name", "screen"), shipped_frames())
def test_the_frames_of_shipped_scenarios_have_a_sentence_that_fits(name: str, screen: str) -> None:
    caption, small = SHIPPED[screen]
    scenario = load_scenario(name, small).scenario
    kind = kind_named(scenario.kind)
    experiment = kind.build(kind.resolve(scenario))
    for _ in range(3):
        experiment.step()
    said = caption(experiment.frame())
    assert said
    assert width(said[0]) <= 74
    assert re.search(r"\d", said[0])
    if screen == "descent":
        frame = experiment.frame()
        rules, rests = frame.facts["rules"], map(str, frame.facts["rests"])
        values = [float(frame.tensors[f"{place}/value"]) for place in range(len(rules))]
        values = [abs(value) if rule == "newton-root" else value for value, rule in zip(values, rules, strict=True)]
        lowest = min(value for value, rest in zip(values, rests, strict=True) if not rest.startswith("it diverges"))
        assert said[0].endswith(f" = {compact(lowest)}")


def test_a_figure_says_what_is_kept_at_both_ends_and_where_a_curve_is_highest() -> None:
    few, many = np.array([[1.0, 0.0], [0.0, 1.0], [0.02, 0.0]]), np.array([[1.0, 0.0], [0.0, 1.0], [-0.6, 0.6]])
    assert figures.vectors({"0.99": many, "0": few}) == (
        "From S = 0 to S = 0.99 the features that are kept rise from 2 to 3",
    )
    assert figures.vectors({"0": few, "0.5": few}) == ("From S = 0 to S = 0.5 the network keeps 2 of 3 features",)
    assert figures.vectors({}) == ()
    facts = {"curve": {"x": "frequency", "y": "share of the energy", "from": 1}}
    wave = Frame(5, {"curve/energy": np.array([0.1, 0.2, 0.62, 0.08])}, facts=facts)
    assert figures.curves(wave) == ("The share of the energy is highest at frequency 3, 0.620",)
    assert figures.curves(Frame(5, {"curve/energy": np.array([0.1, np.nan])}, facts=facts)) == ()
    assert figures.curves(Frame(5, {"curve/energy": np.ones(3)}, facts=facts)) == ()
    assert figures.curves(Frame(5)) == ()


def test_machines_are_said_by_their_cards_or_their_cores_and_a_silent_one_by_name() -> None:
    def seen(name: str, cards: list[float], stale: bool = False, busy: float | None = 0.5) -> Any:
        reading = SimpleNamespace(
            cards=[SimpleNamespace(gpu_busy=share) for share in cards],
            processes=[SimpleNamespace(run="2026_a"), SimpleNamespace(run="")],
            busy=busy,
            cores=8,
        )
        return SimpleNamespace(name=name, reading=reading, stale=stale)

    assert machines.machines([seen("", [0.9, 0.0, 0.3])]) == ("2 of 3 cards compute", "1 run")
    assert machines.machines([seen("", [0.0])]) == ("The card is idle", "1 run")
    assert machines.machines([seen("", [])]) == ("No card here: 4.0 of 8 cores are busy", "1 run")
    assert machines.machines([seen("", []), seen("b", [0.9], stale=True)])[-1] == "b does not answer"
    assert machines.machines([seen("", [], busy=None)]) == ("1 run",)
    assert machines.machines([]) == ()
