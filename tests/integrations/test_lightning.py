"""Lightning, with the real package: a run in three lines, steered and watched while it trains."""

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
