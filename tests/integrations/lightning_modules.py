"""Modules of Lightning to be trained in tests. Imported when a test runs: Lightning takes seconds to import."""

from typing import Any

import lightning
import torch


class Module(lightning.LightningModule):  # type: ignore[misc]
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


class Tested(Module):
    def test_step(self, batch: Any, index: int) -> None:
        self.log("test_loss", self(batch).square().mean())
