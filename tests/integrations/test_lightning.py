"""Lightning, with the real package: a run in three lines, steered and watched while it trains."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
lightning = pytest.importorskip("lightning")

from steered import Person, watched  # noqa: E402

from txlab.errors import LabError  # noqa: E402
from txlab.integrations.lightning import TxlabCallback, TxlabLogger  # noqa: E402
from txlab.runs.directory import RunInfo  # noqa: E402
from txlab.runs.reader import RunReader  # noqa: E402


class Module(lightning.LightningModule):  # type: ignore[misc, name-defined]
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.save_hyperparameters()
        layer = torch.nn.TransformerEncoderLayer(width, 2, 16, batch_first=True)
        self.encoder = torch.nn.TransformerEncoder(layer, 2)

    def forward(self, x: Any) -> Any:
        return self.encoder(x)

    def training_step(self, batch: Any, index: int) -> Any:
        loss = self(batch).square().mean()
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch: Any, index: int) -> None:
        self.log("val_loss", self(batch).square().mean())

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        return [optimizer], [{"scheduler": torch.optim.lr_scheduler.ConstantLR(optimizer, 1.0), "interval": "step"}]


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


class Tested(Module):
    def test_step(self, batch: Any, index: int) -> None:
        self.log("test_loss", self(batch).square().mean())


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


SCRIPT = """
import torch, lightning
from txlab.integrations.lightning import TxlabLogger
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
trainer = lightning.Trainer(logger=TxlabLogger("mine", root="runs"), max_epochs=1, accelerator="cpu",
    log_every_n_steps=1, enable_progress_bar=False, enable_checkpointing=False, enable_model_summary=False)
trainer.fit(Module(), torch.utils.data.DataLoader(torch.randn(4, 4)))
END
"""


@pytest.mark.parametrize(
    ("end", "status", "reason"),
    [("", "done", ""), ("raise ValueError('between')", "failed", "ValueError: between"), ("exit(0)", "done", "")],
)
def test_an_exception_after_a_training_is_the_end_of_its_run(
    tmp_path: Path, end: str, status: str, reason: str
) -> None:
    subprocess.run([sys.executable, "-c", SCRIPT.replace("END", end)], cwd=tmp_path, capture_output=True)
    info, reader = rows(tmp_path / "runs")
    assert (info.status, info.reason) == (status, reason)
    assert len(reader.series("train_loss")) == 4
