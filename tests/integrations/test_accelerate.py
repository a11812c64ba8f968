"""accelerate, with the real package: its tracker is a run, and the user's own loop is steered and watched."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
accelerate = pytest.importorskip("accelerate")

from steered import Person, watched  # noqa: E402

from txlab.integrations.accelerate import TxlabTracker  # noqa: E402
from txlab.runs.directory import RunInfo  # noqa: E402
from txlab.runs.reader import RunReader  # noqa: E402


def test_a_loop_is_paused_changed_saved_and_stopped(tmp_path: Path) -> None:
    person = Person(tmp_path, lr=0.05)
    person.start()
    accelerator = accelerate.Accelerator(cpu=True, log_with=TxlabTracker("mine", root=tmp_path))
    accelerator.init_trackers("mine", config={"width": 8})
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    model, optimizer, scheduler = accelerator.prepare(model, optimizer, scheduler)
    run = accelerator.get_tracker("txlab").tracker
    run.learning_rate(optimizer, scheduler)
    run.saves(lambda step: accelerator.save_state(str(tmp_path / "state")))
    run.watch(model, torch.randn(1, 5, 8), every=2)
    step = 0
    while run.poll(step) and step < 100_000:
        step += 1
        optimizer.zero_grad()
        loss = model(torch.randn(2, 5, 8)).square().mean()
        accelerator.backward(loss)
        optimizer.step()
        scheduler.step()
        accelerator.log({"loss": loss.item(), "lr": scheduler.get_last_lr()[0], "text": "hello"}, step=step)
    accelerator.end_training()
    person.check()
    assert (tmp_path / "state").is_dir()
    frames, *shape = watched(person.path)
    assert frames >= 2
    assert shape == [2, 2, 5, 5]
    reader = RunReader(person.path)
    reader.poll()
    assert reader.scenario["config"] == {"width": 8}


def test_the_name_alone_is_enough_where_accelerate_knows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(accelerate.tracking, "register_tracker_class"):
        pytest.skip("since 1.14")
    monkeypatch.setenv("TXLAB_RUNS", str(tmp_path))
    accelerator = accelerate.Accelerator(cpu=True, log_with="txlab")
    accelerator.init_trackers("by-name")
    accelerator.log({"loss": 1.0, "parts": {"a": 2.0}}, step=1)
    accelerator.end_training()
    (path,) = tmp_path.iterdir()
    assert (RunInfo.load(path).scenario, RunInfo.load(path).status) == ("by-name", "done")
    reader = RunReader(path)
    reader.poll()
    assert reader.latest("parts/a") == 2.0


def test_what_is_logged_after_the_end_of_a_training_belongs_to_its_run(tmp_path: Path) -> None:
    tracker = TxlabTracker("mine", root=tmp_path)
    accelerator = accelerate.Accelerator(cpu=True, log_with=tracker)
    accelerator.init_trackers("mine")
    for step in (1, 2, 3):
        accelerator.log({"loss": 1 / step}, step=step)
    accelerator.end_training()
    (path,) = tmp_path.iterdir()
    assert RunInfo.load(path).status == "done"
    tracker.log({"test_loss": 0.5}, step=0)
    assert RunInfo.load(path).status == "running"
    tracker.finish()
    assert [path] == list(tmp_path.iterdir())
    reader = RunReader(path)
    reader.poll()
    assert (RunInfo.load(path).status, reader.series("test_loss").steps.tolist()) == ("done", [3])
