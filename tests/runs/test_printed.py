"""What scripts of many frameworks print is read as it was meant, and nothing else is taken for a number of training."""

from __future__ import annotations

import json
import math
import re
import string
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import txlab
from txlab.runs.reader import RunReader
from txlab.runs.stdout_parser import ParsedLine, _forms, plain, read_line
from txlab.runs.stdout_steps import Placed, Steps
from txlab.runs.stdout_tables import Lines
from txlab.runs.watching import PlainLog, PrintedRun

# (line, counter and n or epoch or None, values that must be among those read)
LINES: list[tuple[str, Any, dict[str, float]]] = [
    ("step 10 loss 0.3", ("step", 10), {"loss": 0.3}),
    ("iter 100: loss 2.5123, time 35.10ms, mfu 12.3%", ("iter", 100), {"loss": 2.5123, "mfu": 12.3}),  # nanoGPT
    ("step 250: train loss 2.1000, val loss 2.3000", ("step", 250), {"train_loss": 2.1, "val_loss": 2.3}),
    (  # llm.c
        "step    1/18865 | loss 10.9 (+nanz)| norm 15.3 (+nanz)| lr 8.57e-07 | 3056.36 ms | 171000 tok/s",
        ("step", 1, 18865),
        {"loss": 10.9, "norm": 15.3, "lr": 8.57e-07},
    ),
    (  # nanochat
        "step 00010/21400 (0.05%) | loss: 9.7 | lrm: 1.00 | dt: 1030.1ms | tok/sec: 508,000 | mfu: 47.8",
        ("step", 10, 21400),
        {"loss": 9.7, "lrm": 1.0, "dt": 1030.1, "tok/sec": 508000.0, "mfu": 47.8},
    ),
    (  # fairseq
        (
            "2023-05-01 10:00:00 | INFO | train_inner | epoch 001:    100 / 1000 loss=9.5, ppl=724.0, wps=1.2k,"
            " num_updates=100, lr=0.0005"
        ),
        ("num_updates", 100),
        {"loss": 9.5, "ppl": 724.0, "wps": 1200.0, "lr": 0.0005},
    ),
    ("Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.300039", ("fraction", 640, 60000), {"Loss": 2.300039}),  # PyTorch, MNIST
    (
        "Test set: Average loss: 0.0513, Accuracy: 9830/10000 (98%)",
        None,
        {"Test_Average_loss": 0.0513, "Test_Accuracy": 0.983},
    ),
    (  # PyTorch, ImageNet
        "Epoch: [0][  10/5005]\tTime  0.5 ( 1.2)\tData 0.0 ( 0.3)\tLoss 6.9 (7.0)\tAcc@1 0.00 ( 0.10)",
        ("fraction", 10, 5005),
        {"Loss": 6.9, "Acc@1": 0.0},
    ),
    (  # PyTorch, word language model
        "| epoch   1 |   200/ 2983 batches | lr 20.00 | ms/batch 12.3 | loss  7.63 | ppl  2057.23",
        ("fraction", 200, 2983),
        {"lr": 20.0, "loss": 7.63, "ppl": 2057.23},
    ),
    (  # detectron2
        "[11/20 10:00:00 d2.utils.events]:  eta: 0:10:00  iter: 19  total_loss: 2.3  loss_cls: 1.0  max_mem: 3000M",
        ("iter", 19),
        {"total_loss": 2.3, "loss_cls": 1.0},
    ),
    (  # mmengine
        "11/20 10:00:00 - mmengine - INFO - Epoch(train)  [1][  50/3074]  lr: 1.0e-03  eta: 1:00:00  loss: 1.5",
        ("fraction", 50, 3074),
        {"lr": 0.001, "loss": 1.5},
    ),
    ("[10]\ttrain-rmse:0.5123\teval-rmse:0.6", ("line", 10), {"train-rmse": 0.5123, "eval-rmse": 0.6}),  # XGBoost
    ("[10]\tvalid_0's binary_logloss: 0.5", ("line", 10), {"valid_0_binary_logloss": 0.5}),  # LightGBM
    (
        "10:\tlearn: 0.5\ttest: 0.6\tbest: 0.5 (10)\tremaining: 10s",
        ("line", 10),
        {"learn": 0.5, "test": 0.6},
    ),  # CatBoost
    (  # torchtitan
        (
            "[titan] 2024-10-01 10:00:00,123 - root - INFO - step:  1  loss: 12.2541  grad_norm: 1.7817  memory: "
            " 3.73GiB(4.69%)  tps: 100  mfu: 10.5%"
        ),
        ("step", 1),
        {"loss": 12.2541, "grad_norm": 1.7817, "tps": 100.0, "mfu": 10.5},
    ),
    (  # Megatron
        (
            " iteration       10/  500 | consumed samples:          160 | learning rate: 1.000E-04 | lm loss: 9.5E+00"
            " | grad norm: 1.234"
        ),
        ("iteration", 10, 500),
        {"learning_rate": 1e-4, "lm_loss": 9.5, "grad_norm": 1.234},
    ),
    ("global_step=1234, episodic_return=20.0", ("global_step", 1234), {"episodic_return": 20.0}),  # CleanRL
    ("Episode 100\tAverage Score: 12.30", ("episode", 100), {"Average_Score": 12.3}),
    ("train epoch: 1, loss: 0.5, accuracy: 85.2", 1.0, {"loss": 0.5, "accuracy": 85.2}),  # Flax
    ("epoch 3, train loss 0.25, val acc 93.1%", 3.0, {"train_loss": 0.25, "val_acc": 93.1}),
    (
        "{'loss': 2.5, 'grad_norm': 1.25, 'learning_rate': 4e-05, 'epoch': 0.1}",
        0.1,
        {"loss": 2.5, "learning_rate": 4e-5},
    ),
    ("{'loss': '2.513', 'grad_norm': '1.25', 'epoch': '0.1'}", 0.1, {"loss": 2.513, "grad_norm": 1.25}),  # Trainer 5
    ("{'eval_loss': nan, 'eval_runtime': 1.5, 'epoch': 1.0}", 1.0, {"eval_loss": math.nan, "eval_runtime": 1.5}),
    ('{"step": 10, "train": {"loss": 0.3}, "lr": 1e-4, "msg": "x"}', ("step", 10), {"train.loss": 0.3, "lr": 1e-4}),
    (  # tqdm
        "Epoch 3/10: 45%|████▌     | 45/100 [00:10<00:12,  4.43it/s, loss=0.512, acc=0.9]",
        ("bar", 45, 100),
        {"loss": 0.512, "acc": 0.9},
    ),
    (  # Lightning's bar
        "Epoch 0:  50%|█████     | 32/64 [00:01<00:01, 20.5it/s, v_num=0, train_loss=0.5]",
        ("bar", 32, 64),
        {"train_loss": 0.5},
    ),
    ("  3%|▎         | 3/100 [00:00<00:12,  8.43it/s]", ("bar", 3, 100), {}),
    ("45it [00:10,  4.43it/s, loss=0.5]", ("bar", 45), {"loss": 0.5}),
    (  # Keras 3, Keras 2
        "1/5 ━━━━━━━━━━━━━━━━━━━━ 3s 2ms/step - accuracy: 0.89 - loss: 0.35",
        ("fraction", 1, 5),
        {"accuracy": 0.89, "loss": 0.35},
    ),
    (
        "1875/1875 [==============================] - 3s 2ms/step - loss: 0.2912 - val_loss: 0.14",
        ("fraction", 1875, 1875),
        {"loss": 0.2912, "val_loss": 0.14},
    ),
    ("Epoch 1/5", 1.0, {}),
    ("loss=nan", None, {"loss": math.nan}),
    ("loss: -inf", None, {"loss": -math.inf}),
    ("INFO:root:loss: 0.5", None, {"loss": 0.5}),
    ("alpha=1.0 beta=2.0", None, {"alpha": 1.0, "beta": 2.0}),
    ("Loss after epoch 3: 333.3", 3.0, {"Loss": 333.3}),  # gensim
    ("Epoch 3 finished with loss 0.4", 3.0, {"loss": 0.4}),
    ("Minibatch loss at step 100: 2.5", ("step", 100), {"Minibatch_loss": 2.5}),  # TensorFlow's tutorials
    ("Average loss at step  2000 :  5.3", ("step", 2000), {"Average_loss": 5.3}),
    ("Cost after iteration 100: 0.69", ("iteration", 100), {"Cost": 0.69}),
    ("Test accuracy after 10 epochs: 0.9", 10.0, {"Test_accuracy": 0.9}),
    ("Iteration 1, loss = 0.46", ("iteration", 1), {"loss": 0.46}),  # scikit-learn
    ("loss: tensor(0.3457, grad_fn=<NllLossBackward0>)", None, {"loss": 0.3457}),
    ("{'loss': np.float64(0.3), 'val': {'loss': nan}, 'epoch': 1}", 1.0, {"loss": 0.3, "val.loss": math.nan}),
    ("step 10: {'loss': 0.3}", ("step", 10), {"loss": 0.3}),
    ("train loss: 0.512: 45%|██| 45/100 [00:10<00:12,  4.43it/s]", ("bar", 45, 100), {"train_loss": 0.512}),
    ("Epoch[0] Batch [100]\tSpeed: 1000.0 samples/sec\taccuracy=0.5", ("batch", 100), {"accuracy": 0.5}),  # MXNet
    ("Learning iteration 3/1500", ("iteration", 3, 1500), {}),  # rsl_rl
    ("2024-11-20 10:00:00,123 - INFO - loss: 0.5", None, {"loss": 0.5}),
]

QUALIFIED: list[tuple[str, dict[str, float]]] = [  # all that a line says: nothing else may be called "loss"
    ("step 1 | aux loss: 0.010 | loss: 2.60", {"aux_loss": 0.01, "loss": 2.6}),
    ("cumulative loss: 2000", {"cumulative_loss": 2000.0}),
    ("reconstruction loss: 90.1, kld loss: 3.2", {"reconstruction_loss": 90.1, "kld_loss": 3.2}),
    ("loss scale: 131072.0", {"loss_scale": 131072.0}),
    ("Bias: 0.0, T: 5000, Avg. loss: 0.5", {"Bias": 0.0, "T": 5000.0, "Avg_loss": 0.5}),
    ("load balancing loss 0.01 ce loss 2.3", {"load_balancing_loss": 0.01, "ce_loss": 2.3}),
    ("loss (aux): 0.01, loss: 2", {"loss_aux": 0.01, "loss": 2.0}),
    ("loss[aux]: 0.01", {"loss_aux": 0.01}),
    ("aux:loss: 0.01", {"aux_loss": 0.01}),
    ("train: loss=0.3 acc=0.9 | val: loss=0.4", {"train_loss": 0.3, "train_acc": 0.9, "val_loss": 0.4}),
    ("[val] loss: 0.4", {"val_loss": 0.4}),
    ("val epoch: 1, loss: 0.6", {"val_loss": 0.6}),
    ("loss: 0.3 (val)", {"val_loss": 0.3}),
    ("INFO - main - loss: 0.5", {"main_loss": 0.5}),
    ("Loss: train=0.3, val=0.4", {"Loss_train": 0.3, "Loss_val": 0.4}),
    ("[10]\ttraining's l2: 0.4\tvalid_0's l2: 0.5", {"training_l2": 0.4, "valid_0_l2": 0.5}),
    ("top 5 accuracy: 0.9, fold 2 loss: 0.3", {"top_5_accuracy": 0.9, "fold_2_loss": 0.3}),
    ("Epoch 3 train loss 0.4 and val loss 0.5", {"train_loss": 0.4, "val_loss": 0.5}),
    ("Epoch 5, Step 30: aux 0.3 loss 0.4", {"loss": 0.4}),
    ("loss: 0.5, loss: 0.6, acc: 0.9", {"acc": 0.9}),  # which one?
    ("loss: 0.3 / 0.4, acc: 0.9", {"acc": 0.9}),
    ("aux + loss: 0.01, aux–loss: 0.2, acc: 0.9", {"acc": 0.9}),
    ("loss: 0,345 acc: 0,9", {"loss": 0.345, "acc": 0.9}),
    ("loss: 1.234,5 lr: 0,1", {"loss": 1234.5, "lr": 0.1}),
    ("loss: 1,234 | acc: 0,9", {"loss": 1.234, "acc": 0.9}),
    ("tokens: 1,234 | acc: 0.9", {"tokens": 1234.0, "acc": 0.9}),
    ("loss: 1,234 | acc: 9", {"acc": 9.0}),  # 1.234 or 1234?
    ("loss=2,5 lr=0.1", {"lr": 0.1}),
    ("step 12,5 loss 0.5", {"loss": 0.5}),
]

NOTHING = """
Loaded 50000 images from 3 folders at 10:31:02
Using seed: 42
Number of parameters: 124M
Note: 3 files were skipped
saved /data/run_3/loss=0.3/model-epoch=3-step=400.ckpt
torch 2.1.0 on port: 6006
TensorBoard 2.15.1 at http://localhost:6006/ (Press CTRL+C to quit)
  File "/home/ann/train.py", line 30, in <module>
Namespace(epochs=5, lr=0.1, width=128)
AdamW(lr=0.001, weight_decay=0.1)
We saw a loss of 0.3 in 12 of 30 cases
the accuracy was 0.9 and it took 3 minutes
2024-11-20 10:00:00,123 INFO started worker 3
192.168.0.1:8080 connected at 2024-11-20T10:00:00
GPU 0: NVIDIA H100 80GB, 700W
100 %
3.14159
Loaded checkpoint with loss 0.3
Saved best model with loss 0.4 at epoch 3
Average Precision (AP) @[ IoU=0.50 | area=all | maxDets=100 ] = 0.123
loss 3 times lower than before
$ pip install numpy==1.26.4
Copyright 2024
""".strip().splitlines()


@pytest.mark.parametrize(("line", "place", "values"), LINES, ids=[line[:40] for line, _, _ in LINES])
def test_lines_of_many_frameworks_are_read(line: str, place: Any, values: dict[str, float]) -> None:
    said = read_line(line)
    assert said is not None
    found = {name: value for name, value in said.values.items() if name in values}
    assert repr(found) == repr({name: values[name] for name in found})  # NaN is NaN
    assert found.keys() == values.keys()
    if isinstance(place, tuple):
        assert (said.counter, said.n, said.total)[: len(place)] == place
    else:
        assert (said.counter, said.epoch) == ("", place)


@pytest.mark.parametrize("line", NOTHING, ids=[line[:30] for line in NOTHING])
def test_numbers_in_sentences_times_paths_and_settings_are_nothing(line: str) -> None:
    assert read_line(line) is None


@pytest.mark.parametrize(("line", "values"), QUALIFIED, ids=[line[:40] for line, _ in QUALIFIED])
def test_the_words_before_a_name_belong_to_it_and_no_other_quantity_becomes_the_loss(
    line: str, values: dict[str, float]
) -> None:
    said = read_line(line)
    assert said is not None
    assert said.values == values


@given(
    st.lists(st.from_regex(r"[a-z]{3,9}", fullmatch=True), min_size=1, max_size=4), st.sampled_from([": ", "=", " = "])
)
def test_any_words_before_loss_are_part_of_its_name(words: list[str], sign: str) -> None:
    words = [f"x{word}" for word in words]  # no article, and no word that counts steps
    said = read_line(f"step 3 | {' '.join(words)} loss{sign}0.25 | loss{sign}2.5")
    assert said is not None
    assert said.values == {"_".join([*words, "loss"]): 0.25, "loss": 2.5}


TOP = [
    "top 5 accuracy: 0.9, fold 2 loss: 0.3",
    "top_5_loss: 1.0 | top 5 loss: 1.0 | Acc@5 0.75 | f1: 0.5",
    "step 3 | layer 1: loss 0.5 | layer 2: loss 0.4",
    "[val 1] loss: 0.5, mse (top 5): 0.25, loss: 1,234",
    "iter 12/30: loss 0,52 acc 0.9, fraction: 3/4",
]


@given(st.sampled_from([*(line for line, *_ in LINES + QUALIFIED), *NOTHING, *TOP]), st.randoms(use_true_random=False))
def test_a_line_is_read_by_its_own_digits_whatever_lines_of_its_form_came_before(line: str, random: Random) -> None:
    other = re.sub(r"[0-9]", lambda _: random.choice("0123456789"), line)
    _forms.clear()
    alone = read_line(other)
    _forms.clear()
    read_line(line)
    assert repr(read_line(other)) == repr(alone)  # NaN is NaN
    assert getattr(read_line(other), "unclear", None) == getattr(alone, "unclear", None)


def test_lines_that_differ_in_their_digits_only_share_their_form() -> None:
    _forms.clear()
    for n in range(1000, 2000):
        said = read_line(f"iter {n}: loss {n / 1000:.4f}, acc@5 {n % 100:02d}.5%, mfu 12.34%")
        assert said is not None
        assert said.values == {"loss": n / 1000, "acc@5": n % 100 + 0.5, "mfu": 12.34}
    assert len(_forms) == 1


BOXED = """
------------------------------------
| rollout/             |           |
|    ep_rew_mean       | 24.3      |
| time/                |           |
|    iterations        | 2         |
|    total_timesteps   | 4096      |
| train/               |           |
|    loss              | 5.28      |
------------------------------------
"""
SPINNING_UP = """
---------------------------------------
|             Epoch |               3 |
|      AverageEpRet |            22.8 |
---------------------------------------
"""
ULTRALYTICS = """
      Epoch    GPU_mem   box_loss   cls_loss  Instances       Size
      1/100      2.61G      1.153      1.398         81        640: 100%|████| 8/8 [00:01<00:00,  4.43it/s]
                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95): 100%|███| 4/4 [00:00<00:00]
                   all        128        929      0.669      0.662      0.694      0.526
                person         61        254      0.777      0.674      0.764      0.538
"""
SKORCH = """
  epoch    train_loss    valid_acc     dur
-------  ------------  -----------  ------
      1        0.6905       0.5475  0.0190
      2        0.5905       0.6475  0.0170
     12      3
"""
MARKDOWN = """
| epoch | train loss | val loss |
|-------|------------|----------|
| 1     | 0.5        | 0.6      |
| 2     | 0.4        |          |
"""
TABLES: list[tuple[str, list[tuple[tuple[str, int], dict[str, float]]]]] = [
    (BOXED, [(("total_timesteps", 4096), {"rollout/ep_rew_mean": 24.3, "train/loss": 5.28})]),
    (SPINNING_UP, [(("epoch", 3), {"AverageEpRet": 22.8})]),
    (ULTRALYTICS, [(("epoch", 1), {"box_loss": 1.153, "cls_loss": 1.398}), (("", 0), {"mAP50": 0.694, "R": 0.662})]),
    (SKORCH, [(("epoch", n), {"train_loss": loss}) for n, loss in ((1, 0.6905), (2, 0.5905))]),
    (MARKDOWN, [(("epoch", 1), {"train_loss": 0.5, "val_loss": 0.6}), (("epoch", 2), {"train_loss": 0.4})]),
    ("step,loss\n1,0.5\n2,0.25", [(("step", 1), {"loss": 0.5}), (("step", 2), {"loss": 0.25})]),
    ("step\tloss\n1\t0.5", [(("step", 1), {"loss": 0.5})]),
]


@pytest.mark.parametrize(("text", "rows"), TABLES)
def test_tables_are_read_with_the_step_in_them(text: str, rows: list[Any]) -> None:
    lines = Lines()
    said = [each for line in text.splitlines() for each in lines.read(line)] + lines.rest()
    said = [each for each in said if each.values]
    assert [(each.counter, each.n) for each in said] == [place for place, _ in rows]
    for each, (_, values) in zip(said, rows, strict=True):
        assert {name: each.values[name] for name in values} == values
        assert "loss" not in each.values or "loss" in values


@given(
    st.text(max_size=400)
    | st.text(alphabet=string.printable, max_size=400)
    | st.text(alphabet="0123456789/%|:=[] .,-ek\"'{}lost", max_size=200)
)
def test_any_text_is_read_without_an_error(line: str) -> None:
    said = read_line(plain(line))
    if said is not None:
        assert all(isinstance(value, float) and name for name, value in said.values.items())
        assert all(placed.step >= 0 for placed in Steps().place(said))


@given(st.integers(0, 10**9), st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["=", ": ", " "]))
def test_what_python_prints_of_a_loss_is_read_back(step: int, loss: float, sign: str) -> None:
    said = read_line(f"step {step} loss{sign}{loss}")
    assert said == ParsedLine({"loss": loss}, "step", step)
    assert read_line(json.dumps({"step": step, "loss": loss})) == said


def placed(*lines: str) -> list[tuple[int, dict[str, float]]]:
    steps, found = Steps(), []
    for line in lines:
        if (said := read_line(line)) is not None:
            found += [(at.step, at.values) for at in steps.place(said) if at.values]
    return found


def place(steps: Steps, line: str) -> Placed:
    said = read_line(line)
    assert said is not None
    (at,) = steps.place(said)
    return at


def bar(n: int, total: int, epoch: int = 0, rest: str = "") -> str:
    head = f"Epoch {epoch}/3: " if epoch else ""
    return f"{head}{100 * n // total}%|██| {n}/{total} [00:10<00:12,  4.43it/s{rest}]"


def test_the_lines_below_a_step_that_was_cut_have_none_until_the_next_is_printed() -> None:
    lines, steps = Lines(), Steps()
    known = [("step 1", False), ("  loss 3.0", False), ("step 2", False), ("  loss 2.5", False)]
    after = [("st", True), ("  loss 2.2", False), ("step 5", False), ("  loss 2.0", False)]
    rows = [
        (each.step, each.values)
        for text, is_cut in known + after
        for line in lines.read(text, is_cut)
        for each in steps.place(line)
        if each.values
    ]
    assert rows == [(1, {"loss": 3.0}), (2, {"loss": 2.5}), (5, {"loss": 2.0})]


def test_a_bar_that_restarts_in_each_epoch_continues_the_count() -> None:
    steps = Steps()
    found = []
    for epoch in (1, 2, 3):
        for n in (0, 50, 100):
            at = place(steps, bar(n, 100, epoch, f", loss={epoch}.5"))
            found.append(at.step)
            assert at.steps == 300
    assert found == [0, 50, 100, 100, 150, 200, 200, 250, 300]


def test_the_time_left_counts_the_epochs_to_come() -> None:
    steps = Steps()
    assert place(steps, bar(50, 100, 1)).left == pytest.approx(12 + 2 * 24)


def test_a_line_without_a_step_gets_the_step_of_the_bar() -> None:
    assert placed(bar(7, 100), "{'loss': 0.5, 'epoch': 0.1}", bar(20, 100), "eval_loss: 0.4") == [
        (7, {"loss": 0.5}),
        (20, {"eval_loss": 0.4}),
    ]


def test_a_bar_that_prepares_the_data_does_not_count_and_one_that_evaluates_does_not_lead() -> None:
    lines = [
        "Map: " + bar(5000, 5000),
        bar(1, 300),
        "loss: 0.5",
        bar(20, 300),
        bar(3, 20),
        "loss: 0.4",
        bar(21, 300),
        "loss=1",
    ]
    assert placed(*lines) == [(1, {"loss": 0.5}), (20, {"loss": 0.4}), (21, {"loss": 1.0})]


def test_lines_with_an_epoch_only_count_epochs_and_lines_with_nothing_count_themselves() -> None:
    assert placed("Epoch 1/5", "epoch 1 loss: 3", "epoch 2 loss: 2") == [(1, {"loss": 3.0}), (2, {"loss": 2.0})]
    assert placed("loss 3", "acc: 0.5", "loss 2", "loss 1", "acc: 0.6") == [
        *[(0, {"loss": 3.0}), (0, {"acc": 0.5}), (1, {"loss": 2.0}), (2, {"loss": 1.0}), (1, {"acc": 0.6})]
    ]


def test_a_printed_step_that_restarts_continues_the_count() -> None:
    assert [step for step, _ in placed(*(f"step {n} loss 1" for n in (0, 5, 9, 0, 5)))] == [0, 5, 9, 10, 15]


# Bytes → run


@pytest.fixture
def printed(tmp_path: Path) -> PrintedRun:
    return PrintedRun(txlab.record("it", root=tmp_path))


def series(run: PrintedRun, name: str) -> list[tuple[int, float]]:
    reader = RunReader(run.run.path)
    reader.poll()
    found = reader.series(name)
    return list(zip(found.steps.tolist(), found.values.tolist(), strict=True))


def test_pieces_of_any_size_give_the_same_run(printed: PrintedRun, tmp_path: Path) -> None:
    text = "".join(f"\r{bar(n, 9, rest=f', loss={n}.5')}" for n in range(10)) + "\r\ndone\r\nval_loss: 0.25 é\n"
    for piece in [bytes([byte]) for byte in text.encode()]:
        printed.feed(piece)
    printed.close("done")
    other = PrintedRun(txlab.record("it", root=tmp_path))
    other.feed(text.encode())
    other.close("done")
    assert series(printed, "loss") == series(other, "loss") == [(n, n + 0.5) for n in range(10)]
    assert series(printed, "val_loss") == [(9, 0.25)]
    logs = [(run.run.path / "log.txt").read_text() for run in (printed, other)]
    assert logs[0] == logs[1] == f"{bar(9, 9, rest=', loss=9.5')}\ndone\nval_loss: 0.25 é\n"


def test_a_bar_that_nothing_follows_is_read_when_the_output_pauses(printed: PrintedRun) -> None:
    printed.feed(("\r" + bar(4, 9, rest=", loss=0.5")).encode())
    assert printed.numbers == 0
    printed.idle()
    assert printed.numbers == 1
    printed.feed(("\r" + bar(5, 9, rest=", loss=0.4")).encode())
    printed.close("done")
    assert series(printed, "loss") == [(4, 0.5), (5, 0.4)]


def test_a_dictionary_that_tqdm_writes_gets_the_step_of_the_next_bar(printed: PrintedRun) -> None:
    printed.feed(("\r" + bar(3, 40) + "\r" + " " * 40 + "\r{'loss': '0.5', 'epoch': '0.1'}\n\r" + bar(4, 40)).encode())
    printed.idle()
    printed.close("done")
    assert series(printed, "loss") == [(4, 0.5)]


def test_colours_and_titles_are_not_part_of_a_line(printed: PrintedRun) -> None:
    printed.feed(b"\x1b]0;a title 3\x07\x1b[1;32mstep 3\x1b[0m loss \x1b[31m0.5\x1b[0m\r\n")
    printed.close("done")
    assert series(printed, "loss") == [(3, 0.5)]
    assert (printed.run.path / "log.txt").read_text() == "step 3 loss 0.5\n"


def test_the_log_is_bounded_and_keeps_its_beginning_and_its_end(
    printed: PrintedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, size in (("LARGEST_LOG", 4000), ("KEPT_FIRST", 500), ("KEPT_LAST", 1000)):
        monkeypatch.setattr(f"txlab.runs.watching.{name}", size)
    log = PlainLog(printed.run)
    for number in range(1000):
        log.add(f"line {number}")
        log.flush()
    text = (printed.run.path / "log.txt").read_text()
    assert len(text) < 4100
    assert text.startswith("line 0\n")
    assert text.endswith("line 999\n")
    assert "bytes left out" in text
    printed.close("done")


def test_names_without_end_are_bounded(printed: PrintedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("txlab.runs.watching.MOST_NAMES", 5)
    printed.feed("".join(f"step {n} loss_{n}=1\n" for n in range(50)).encode())
    printed.close("done")
    assert printed.numbers == 5


def test_a_printed_step_leads_and_no_line_goes_back() -> None:
    assert [step for step, _ in placed(bar(30, 100, 0, ", loss=0.5"), "step 20 loss 0.4", bar(31, 100))][:2] == [30, 30]
    found = placed(bar(30, 100, 0, ", loss=0.5"), "step 1000 loss 0.4", bar(31, 100, 0, ", loss=0.3"))
    assert [step for step, _ in found] == [30, 1000, 1000]


def test_a_bar_that_validates_after_a_whole_epoch_does_not_lead() -> None:
    found = placed(bar(100, 100, 0, ", loss=0.5"), bar(1, 10, 0, ", val_loss=0.6"), bar(10, 10, 0, ", val_loss=0.6"))
    assert [step for step, _ in found] == [100, 100, 100]


def test_what_a_bar_says_is_left_is_read_as_a_clock() -> None:
    said = read_line("45%|####      | 45/100 [01:02<1:02:03, 1.20it/s, loss=0.5]")
    assert said is not None
    assert said.left == 3723


def test_what_is_left_out_is_noted_once(printed: PrintedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("txlab.runs.watching.MOST_NAMES", 1)
    printed.feed(b"step 1 loss: 1,234 acc: 3\nstep 2 loss: 1,235 acc: 4\nstep 3 wer: 1\n")
    printed.close("done")
    reader = RunReader(printed.run.path)
    reader.poll()
    notes = [row["text"] for row in reader.rows("note")]
    assert [note.partition(" is left out: ")[0] for note in notes] == ["loss", "wer"]
    assert series(printed, "acc") == [(1, 3.0), (2, 4.0)]


def test_a_box_that_the_end_of_the_output_closes_is_read(printed: PrintedRun) -> None:
    printed.feed("".join(f"| loss | {n}.5 |\n| step | {n} |\n" for n in range(3)).encode())
    printed.idle()
    printed.close("done")
    assert series(printed, "loss") == [(0, 0.5), (1, 1.5), (2, 2.5)]
