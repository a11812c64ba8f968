"""Lightning, with the real package: a run in three lines, steered and watched while it trains."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from steered import Person, watched
from warm_python import WarmPython

from txlab.errors import LabError
from txlab.runs.directory import RunInfo
from txlab.runs.reader import RunReader

pytestmark = pytest.mark.skipif(find_spec("lightning") is None, reason="lightning")
torch: Any
lightning: Any
Module: Any
Tested: Any
TxlabCallback: Any
TxlabLogger: Any


@pytest.fixture(scope="module", autouse=True)
def packages() -> None:
    """What takes seconds to import, here and not above: every worker of the suite reads this file."""
    global torch, lightning, Module, Tested, TxlabCallback, TxlabLogger
    import lightning
    import torch
    from lightning_modules import Module, Tested

    from txlab.integrations.lightning import TxlabCallback, TxlabLogger


def fit(folder: Path, logger: Any, callback: Any, **named: Any) -> Any:
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    trainer = lightning.Trainer(
        logger=logger,
        callbacks=[callback],
        default_root_dir=folder,
        accelerator="cpu",
        log_every_n_steps=1,
        **quiet,
        **named,
    )
    batches = torch.utils.data.DataLoader(torch.randn(40, 5, 8), batch_size=2)
    trainer.fit(Module(), batches, batches)
    return trainer


def test_a_trainer_is_paused_changed_saved_and_stopped(tmp_path: Path) -> None:
    person = Person(tmp_path / "runs", lr=0.05)
    person.start()
    callback = TxlabCallback(watch=torch.randn(1, 5, 8), every=2)
    trainer = fit(
        tmp_path, TxlabLogger("mine", root=tmp_path / "runs"), callback, max_epochs=100, min_epochs=90,
        limit_val_batches=0,
    )  # fmt: skip
    person.check()
    assert trainer.current_epoch < 90
    assert trainer.optimizers[0].param_groups[0]["lr"] == 0.05
    saved = person.answers["checkpoint"]["step"]
    assert (tmp_path / "checkpoints" / f"step={saved}.ckpt").is_file()
    frames, *shape = watched(person.path)
    assert frames >= 2
    assert shape == [2, 2, 5, 5]


def test_a_short_training_is_a_run_that_is_done_with_its_configuration(tmp_path: Path) -> None:
    logger = TxlabLogger("mine", root=tmp_path / "runs")
    fit(tmp_path, logger, TxlabCallback(), max_epochs=2, limit_train_batches=3, limit_val_batches=1)
    (path,) = (tmp_path / "runs").iterdir()
    info = RunInfo.load(path)
    assert (info.status, info.steps) == ("done", 6)
    reader = RunReader(path)
    reader.poll()
    assert len(reader.series("train_loss")) == 6
    assert len(reader.series("val_loss")) == 2
    assert reader.scenario["config"] == {"width": 8}


def test_a_module_that_fails_is_a_run_that_failed(tmp_path: Path) -> None:
    class Broken(Module):
        def training_step(self, batch: Any, index: int) -> Any:
            raise ValueError("no batch")

    trainer = lightning.Trainer(
        logger=TxlabLogger("mine", root=tmp_path), callbacks=[TxlabCallback()], max_epochs=1, accelerator="cpu",
        enable_progress_bar=False, enable_checkpointing=False, enable_model_summary=False,
    )  # fmt: skip
    with pytest.raises(ValueError, match="no batch"):
        trainer.fit(Broken(), torch.utils.data.DataLoader(torch.randn(4, 5, 8)))
    (path,) = tmp_path.iterdir()
    assert (RunInfo.load(path).status, RunInfo.load(path).reason) == ("failed", "ValueError: no batch")


def test_a_callback_without_the_logger_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="needs a TxlabLogger"):
        fit(tmp_path, False, TxlabCallback(), max_epochs=1)


def rows(folder: Path) -> tuple[RunInfo, RunReader]:
    (path,) = folder.iterdir()
    reader = RunReader(path)
    reader.poll()
    return RunInfo.load(path), reader


@pytest.mark.parametrize("with_callback", [True, False])
def test_fit_validate_test_and_a_second_fit_of_one_logger_are_one_run(tmp_path: Path, with_callback: bool) -> None:
    logger, module = TxlabLogger("mine", root=tmp_path / "runs"), Tested()
    batches = torch.utils.data.DataLoader(torch.randn(6, 5, 8), batch_size=2)

    def trainer() -> Any:
        return lightning.Trainer(
            logger=logger, callbacks=[TxlabCallback()] if with_callback else [], max_epochs=2, accelerator="cpu",
            log_every_n_steps=1, enable_progress_bar=False, enable_checkpointing=False, enable_model_summary=False,
            default_root_dir=tmp_path, num_sanity_val_steps=0,
        )  # fmt: skip

    first = trainer()
    first.fit(module, batches, batches)
    info, _ = rows(tmp_path / "runs")
    assert info.status == "done"
    first.validate(module, batches, verbose=False)
    trainer().test(module, batches, verbose=False)
    info, reader = rows(tmp_path / "runs")
    assert info.status == "done"
    losses = reader.series("train_loss").steps.tolist()
    assert len(losses) == 6
    (tested,) = reader.series("test_loss").steps.tolist()
    assert tested >= max(losses)
    trainer().fit(module, batches, batches)
    info, reader = rows(tmp_path / "runs")
    assert info.status == "done"
    again = reader.series("train_loss").steps.tolist()
    assert again[:6] == losses
    assert len(again) == 12
    assert again == sorted(set(again))


IMPORTS = "import torch, lightning; from txlab.integrations.lightning import TxlabLogger"
SCRIPT = """
class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def training_step(self, batch, index):
        loss = self.layer(batch).square().mean()
        self.log("train_loss", loss)
        return loss
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)
trainer = lightning.Trainer(logger=TxlabLogger("mine", root=ROOT), max_epochs=1, accelerator="cpu",
    log_every_n_steps=1, enable_progress_bar=False, enable_checkpointing=False, enable_model_summary=False)
trainer.fit(Module(), torch.utils.data.DataLoader(torch.randn(4, 4)))
END
"""


@pytest.fixture(scope="module")
def warm() -> Iterator[WarmPython]:
    """Lightning is imported once for all programs."""
    python = WarmPython(IMPORTS)
    yield python
    python.close()


@pytest.mark.parametrize(
    ("end", "status", "reason"),
    [("", "done", ""), ("raise ValueError('between')", "failed", "ValueError: between"), ("exit(0)", "done", "")],
)
def test_an_exception_after_a_training_is_the_end_of_its_run(
    warm: WarmPython, tmp_path: Path, end: str, status: str, reason: str
) -> None:
    warm.run(SCRIPT.replace("END", end).replace("ROOT", repr(str(tmp_path / "runs"))))
    info, reader = rows(tmp_path / "runs")
    assert (info.status, info.reason) == (status, reason)
    assert len(reader.series("train_loss")) == 4
