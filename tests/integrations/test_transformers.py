"""Hugging Face's Trainer, with the real package: a run in three lines, steered and watched while it trains."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from steered import Person, watched  # noqa: E402

from txlab.integrations.transformers import TxlabCallback  # noqa: E402
from txlab.runs.directory import RunInfo  # noqa: E402
from txlab.runs.reader import RunReader  # noqa: E402


def trainer(folder: Path, callback: TxlabCallback, **named: Any) -> Any:
    config = transformers.GPT2Config(
        vocab_size=20, n_embd=8, n_layer=2, n_head=2, n_positions=16, bos_token_id=0, eos_token_id=0
    )
    ids = torch.arange(8) % 20
    said: dict[str, Any] = {"max_steps": 2000, "learning_rate": 0.1, "lr_scheduler_type": "constant"} | named
    arguments = transformers.TrainingArguments(
        str(folder / "out"),
        per_device_train_batch_size=1,
        report_to="none",
        disable_tqdm=True,
        logging_steps=1,
        save_strategy="no",
        use_cpu=True,
        **said,
    )
    rows = [{"input_ids": ids, "labels": ids}] * 50
    model = transformers.GPT2LMHeadModel(config)
    return transformers.Trainer(model=model, args=arguments, train_dataset=rows, callbacks=[callback])


def test_a_trainer_is_paused_changed_saved_and_stopped(tmp_path: Path) -> None:
    callback = TxlabCallback("mine", watch={"input_ids": torch.arange(8)[None]}, every=2, root=tmp_path)
    person = Person(tmp_path, lr=0.05)
    person.start()
    trained = trainer(tmp_path, callback, lr_scheduler_type="constant")
    trained.train()
    person.check()
    assert trained.state.global_step < 2000
    assert trained.lr_scheduler.base_lrs == [0.05, 0.05]
    saved = person.answers["checkpoint"]["step"]
    assert (tmp_path / "out" / f"checkpoint-{saved}").is_dir()
    rows = [row for row in person.rows() if row["event"] == "checkpoint"]
    assert rows[0]["path"].endswith(f"out/checkpoint-{saved}")
    frames, *shape = watched(person.path)
    assert frames >= 2
    assert shape == [2, 2, 8, 8]


def test_a_short_training_is_a_run_that_is_done_with_its_configuration(tmp_path: Path) -> None:
    trainer(tmp_path, TxlabCallback("mine", root=tmp_path, tags=["a"]), max_steps=3, lr_scheduler_type="linear").train()
    (path,) = [path for path in tmp_path.iterdir() if path.name.endswith("_mine")]
    info = RunInfo.load(path)
    assert (info.status, info.step, info.steps, info.tags) == ("done", 3, 3, ["a"])
    reader = RunReader(path)
    reader.poll()
    assert reader.series("loss").steps.tolist() == [1, 2, 3]
    assert reader.series("lr").values[0] == pytest.approx(0.1)
    assert reader.scenario["config"]["learning_rate"] == 0.1
    assert reader.scenario["config"]["model"]["n_layer"] == 2


def test_a_second_training_and_an_evaluation_belong_to_the_same_run(tmp_path: Path) -> None:
    trained = trainer(tmp_path, TxlabCallback("mine", root=tmp_path), max_steps=3)
    trained.train()
    trained.evaluate(trained.train_dataset[:2])
    trained.train()
    (path,) = [path for path in tmp_path.iterdir() if path.name.endswith("_mine")]
    info = RunInfo.load(path)
    reader = RunReader(path)
    reader.poll()
    assert (info.status, info.steps) == ("done", 7)
    assert reader.series("loss").steps.tolist() == [1, 2, 3, 5, 6, 7]
    assert reader.series("eval_loss").steps.tolist() == [3]
