"""The primary metric has its own name and no invented unit, and training is shown next to validation."""

from pathlib import Path

import pytest

import txlab
from txlab.cli.curves import curves, foremost
from txlab.drawing.picture import strokes_of
from txlab.experiments.metric import primary_metrics, validation_of
from txlab.runs.directory import RunDirectory, RunInfo
from txlab.runs.reader import RunReader
from txlab.runs.summary import summary_of
from txlab.tui.screens.lab.describe import describe_run
from txlab.tui.screens.lab.runs import second_line
from txlab.tui.screens.lab.why import last_values
from txlab.tui.train_snapshot import Look, snapshot


def recorded(root: Path, *names: str, kind: str = "recorded") -> RunReader:
    with txlab.record("mine", root=root) as run:
        for step in range(1, 11):
            run.log(step, {name: 1 / step + place for place, name in enumerate(names)})
    info = RunInfo.load(run.path)
    info.kind = kind
    info.save(RunDirectory(run.path))
    reader = RunReader(run.path)
    reader.poll()
    return reader


@pytest.mark.parametrize("names", [("loss", "val_loss"), ("val_loss/a", "val_loss/b"), ("return/a", "return/b")])
def test_an_unknown_loss_is_not_in_nats_nor_a_return_that_of_an_episode(tmp_path: Path, names: tuple[str, ...]) -> None:
    reader = recorded(tmp_path, *names, "memory_mb")
    snap = snapshot(reader, Look(), RunReader)
    told = [snap.unit, *(fact.note for fact in snap.facts), str(describe_run(summary_of(reader), 80, 9))]
    assert not [text for text in told if "nats" in text or "episode" in text]
    assert snapshot(reader, Look("memory_mb"), RunReader).unit == "MB"


def test_a_loss_of_ours_is_in_nats(tmp_path: Path) -> None:
    snap = snapshot(recorded(tmp_path, "loss", "val_loss", kind="language-model"), Look(), RunReader)
    assert snap.unit == "nats"
    assert [fact.note for fact in snap.facts[:2]] == ["nats", "nats, best so far"]


def test_metrics_of_others_are_not_taken_for_ours(tmp_path: Path) -> None:
    facts = snapshot(recorded(tmp_path, "copy_accuracy", "exact_match"), Look(), RunReader).facts
    assert {fact.name: fact.note for fact in facts} == {"copy accuracy": "", "exact match": ""}


@pytest.mark.parametrize("unseen", ["eval", "val", "valid", "validation"])
@pytest.mark.parametrize("sign", "/_")
def test_training_and_validation_are_curves_of_one_chart(tmp_path: Path, unseen: str, sign: str) -> None:
    reader = recorded(
        tmp_path, "epoch", f"train{sign}loss", f"train{sign}lr", f"{unseen}{sign}loss", f"{unseen}{sign}f1"
    )
    snap = snapshot(reader, Look(), RunReader)
    assert snap.metric == f"train{sign}loss"
    assert [(line.label, line.role, line.values[0]) for line in snap.lines] == [
        ("train", "train", 2.0),
        (unseen, "val", 4.0),
    ]
    assert snap.metrics == (f"train{sign}loss", "epoch", f"train{sign}lr", f"{unseen}{sign}f1")
    assert foremost(reader) == [f"train{sign}loss", f"{unseen}{sign}loss"]
    assert [curve.style for curve in curves([reader], foremost(reader))] == ["line", "points"]
    assert [stroke.role for stroke in strokes_of(reader, foremost(reader))] == ["train", "validation"]


def test_what_has_no_partner_has_none() -> None:
    names = ["loss", "eval_loss", "eval/loss", "value/loss", "train/x", "val_x", "val/loss"]
    assert {name: validation_of(name, names) for name in names} == {
        name: "eval_loss" if name == "loss" else "" for name in names
    }


def test_a_metric_called_value_is_not_a_validation_metric(tmp_path: Path) -> None:
    reader = recorded(tmp_path, "value", "val/x", "evaluations")
    assert [stroke.role for stroke in strokes_of(reader, ["value", "val/x", "evaluations"])] == [
        "train",
        "validation",
        "train",
    ]
    assert "value" in last_values(reader)[0]


def test_lists_of_runs_call_a_number_by_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from txlab.cli.runs import runs

    monkeypatch.setenv("TXLAB_RUNS", str(tmp_path))
    reader = recorded(tmp_path, "return/sarsa")
    runs()
    head, line = capsys.readouterr().out.splitlines()
    assert head.split() == ["name", "status", "step", "metric", "value", "curve"]
    assert "return/sarsa  0.100" in line
    assert "".join(text for text, _ in second_line(summary_of(reader), 40, True)).startswith("return 0.100")
    reader = recorded(tmp_path, "train/loss_of_the_policy")
    assert "".join(text for text, _ in second_line(summary_of(reader), 40, True)).startswith("loss of ")


@pytest.mark.parametrize(
    ("names", "first"),
    [
        (["rollout/ep_len_mean", "time/fps", "train/entropy_loss", "train/loss", "rollout/ep_rew_mean"], -1),
        (["charts/learning_rate", "losses/policy_loss", "losses/entropy", "charts/SPS", "charts/episodic_return"], -1),
        (["EpLen", "LossPi", "StdEpRet", "Entropy", "AverageEpRet"], -1),
        (["Mean_value_function_loss", "Mean_action_noise_std", "Mean_reward"], -1),
        (["policy/entropy", "lr", "eval_accuracy"], -1),
        (["epoch", "learning_rate", "grad_norm", "val_loss"], -1),
        (["train/box_loss", "train/cls_loss", "val/box_loss", "metrics/mAP50(B)"], -1),
        (["lr", "tokens", "step_time", "objective"], -1),
        (["rewards/chosen", "grad_norm", "loss"], -1),
        (["train/entropy_loss", "train/value_loss", "train/loss"], -1),
        (["eval/loss", "train/loss"], -1),
        (["kl", "entropy"], 0),
    ],
)
def test_the_main_metric_of_an_unknown_program_is_the_one_that_means_most(names: list[str], first: int) -> None:
    assert primary_metrics(names)[0] == names[first]
    assert primary_metrics(names[::-1])[0] == names[first] or first == 0
