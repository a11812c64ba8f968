"""Programs that nobody here wrote, run beside txlab with their own packages: lines changed, rows expected and found.

python benchmarks/foreign_loops.py FOLDER [--checkouts CHECKOUTS] [NAME…]

FOLDER/environment gets Lightning, transformers, TRL, Keras and Stable-Baselines3 from PyPI, beside this Python's torch.
CHECKOUTS has clones of programs that are on GitHub only: `git clone` of karpathy/nanoGPT, karpathy/minGPT,
pytorch/examples, vwxyzjn/cleanrl; those that are missing are skipped, and nothing is written into them.

Each program is run unchanged by `txlab watch`, or with the lines that the manual names. What is expected is taken from
the program itself: the values that it prints, found by a pattern written for it alone, or the number of its logs.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from txlab.runs.events import live_branch, read_rows
from txlab.runs.finding import find_run

PACKAGES = {
    "lightning": "lightning",
    "transformers": "transformers accelerate",
    "trl": "trl datasets",
    "keras": "keras",
    "stable_baselines3": "stable-baselines3 gymnasium pandas",
    "tyro": "tyro gymnasium tensorboard",
}
NUMBER = r"([-+]?[\d.]+(?:e[-+]?\d+)?)"
ENGLISH = "the quick brown fox jumps over the lazy dog and runs away from the cat. " * 400


@dataclass(frozen=True)
class Program:
    """
    needs      modules, or a folder of CHECKOUTS
    code       a program in the form of the package's own examples; lines with "txlab" count as changed
    command    of a checkout, after `python`
    expected   {metric: the number of its rows, or a pattern with its value in what the program prints}
    own        packages in the versions that the program asks for, installed for it alone
    """

    name: str
    needs: str
    expected: dict[str, int | str]
    code: str = ""
    command: Sequence[str] = ()
    prepare: dict[str, str] = field(default_factory=dict)  # files that the program reads, and what they contain
    around: dict[str, str] = field(default_factory=dict)  # variables of the environment
    own: str = ""

    @property
    def changed(self) -> int:
        return sum("txlab" in line.lower() for line in self.code.splitlines())


TRAINER = """
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
{imports}
torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=2, n_embd=16, vocab_size=50, n_positions=16))
data = [{{"input_ids": row, "labels": row}} for row in torch.randint(0, 50, (64, 16))]
arguments = TrainingArguments(
    "out", max_steps=24, logging_steps=4, eval_strategy="steps", eval_steps=8, per_device_train_batch_size=4,
    report_to="none", use_cpu=True, save_strategy="no",
)
Trainer(
    model, arguments, train_dataset=data, eval_dataset=data[:8],
    {callbacks}
).train()
"""
LIGHTNING = """
import lightning, torch
{imports}
class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 2)
    def step(self, batch):
        return torch.nn.functional.cross_entropy(self.layer(batch[0]), batch[1])
    def training_step(self, batch, _):
        loss = self.step(batch)
        self.log("train_loss", loss)
        return loss
    def validation_step(self, batch, _):
        self.log("val_loss", self.step(batch))
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)
torch.manual_seed(0)
data = torch.utils.data.TensorDataset(torch.randn(80, 8), torch.randint(0, 2, (80,)))
loader = torch.utils.data.DataLoader(data, 8)
lightning.Trainer(
    max_epochs=4, log_every_n_steps=5, accelerator="cpu", enable_checkpointing=False,
    {logger}
).fit(Model(), loader, loader)
"""
KERAS = """
import keras, numpy
rng = numpy.random.default_rng(0)
x, y = rng.normal(size=(128, 8)), rng.integers(0, 2, 128)
model = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1, activation="sigmoid")])
model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
model.fit(x, y, epochs=5, batch_size=16, validation_split=0.25, verbose={verbose})
"""
STABLE = """
from stable_baselines3 import {algorithm}
model = {algorithm}("MlpPolicy", "CartPole-v1", verbose=1, device="cpu", seed=0{more})
model.learn({steps}, log_interval={every})
"""
TRL = """
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer
from txlab.integrations.transformers import TxlabCallback
words = "the quick brown fox jumps over lazy dog".split() + ["[PAD]", "[EOS]", "[UNK]"]
inner = Tokenizer(models.WordLevel({{word: at for at, word in enumerate(words)}}, unk_token="[UNK]"))
inner.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="[PAD]", eos_token="[EOS]", unk_token="[UNK]")
model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=2, n_embd=16, vocab_size=len(words), n_positions=32))
data = Dataset.from_dict({{"text": ["the quick brown fox jumps over the lazy dog"] * 40}})
arguments = SFTConfig(
    "out", max_steps=12, logging_steps=3, per_device_train_batch_size=2, report_to="none", use_cpu=True, bf16=False,
    save_strategy="no", max_length=16,
)
SFTTrainer(
    model, args=arguments, train_dataset=data, processing_class=tokenizer,
    callbacks=[TxlabCallback("mine")],
).train()
""".replace("{{", "{").replace("}}", "}")

PROGRAMS = (
    Program(
        "Lightning, its logger",
        "lightning",
        {"train_loss": 8, "val_loss": 4},
        LIGHTNING.format(
            imports="from txlab.integrations.lightning import TxlabLogger", logger='logger=TxlabLogger("mine"),'
        ),
    ),
    Program(
        "Trainer, a callback",
        "transformers",
        {"loss": 6, "eval_loss": 3},
        TRAINER.format(
            imports="from txlab.integrations.transformers import TxlabCallback",
            callbacks='callbacks=[TxlabCallback("mine")],',
        ),
    ),
    Program(
        "Trainer, watched",
        "transformers",
        {"loss": rf"'loss': '?{NUMBER}", "eval_loss": rf"'eval_loss': '?{NUMBER}"},
        TRAINER.format(imports="", callbacks=""),
    ),
    Program("TRL's SFTTrainer, a callback", "trl", {"loss": 4}, TRL),
    Program(
        "Keras, watched",
        "keras",
        {"loss": rf"s/step - .*?\bloss: {NUMBER} - val_a", "val_loss": rf"val_loss: {NUMBER}"},
        KERAS.format(verbose=2),
        around={"KERAS_BACKEND": "torch"},
    ),
    Program(
        "Keras with its bar, watched",
        "keras",
        {"val_loss": rf"val_loss: {NUMBER}", "val_accuracy": rf"val_accuracy: {NUMBER}"},
        KERAS.format(verbose=1),
        around={"KERAS_BACKEND": "torch"},
    ),
    Program(
        "Stable-Baselines3 A2C, watched",
        "stable_baselines3",
        {"rollout/ep_rew_mean": rf"ep_rew_mean +\| {NUMBER}", "train/value_loss": rf"value_loss +\| {NUMBER}"},
        STABLE.format(algorithm="A2C", more="", steps=2000, every=50),
    ),
    Program(
        "Stable-Baselines3 PPO, watched",
        "stable_baselines3",
        {"rollout/ep_rew_mean": rf"ep_rew_mean +\| {NUMBER}", "train/loss": rf"\|    loss +\| {NUMBER}"},
        STABLE.format(algorithm="PPO", more=", n_steps=256", steps=2048, every=1),
    ),
    Program(
        "nanoGPT, watched",
        "nanoGPT",
        {"loss": rf"iter \d+: loss {NUMBER}", "val_loss": rf"val loss {NUMBER}"},
        command=(
            *("train.py", "config/train_shakespeare_char.py", "--device=cpu", "--compile=False", "--eval_iters=2"),
            *("--log_interval=1", "--block_size=32", "--batch_size=4", "--n_layer=2", "--n_head=2", "--n_embd=32"),
            *("--max_iters=40", "--eval_interval=20", "--dropout=0.0"),
        ),
        prepare={"data/shakespeare_char/input.txt": ENGLISH},
    ),
    Program(
        "minGPT's adder, watched",
        "minGPT",
        {"train_loss": rf"train loss {NUMBER}"},
        command=("projects/adder/adder.py", "--trainer.max_iters=120", "--model.model_type=gpt-nano"),
        around={"PYTHONPATH": "."},
    ),
    Program(
        "word_language_model, watched",
        "examples",
        {"loss": rf"\| +loss +{NUMBER} \| ppl", "valid_loss": rf"valid loss +{NUMBER}"},
        command=(
            *("word_language_model/main.py", "--data", "corpus", "--emsize", "16", "--nhid", "16", "--epochs", "2"),
            *("--log-interval", "3"),
        ),
        prepare={f"corpus/{part}.txt": ENGLISH for part in ("train", "valid", "test")},
    ),
    Program(
        "pytorch/examples reinforce, watched",
        "examples",
        {"Average_reward": rf"Average reward: {NUMBER}", "Last_reward": rf"Last reward: {NUMBER}"},
        command=("reinforcement_learning/reinforce.py",),
    ),
    Program(
        "CleanRL's ppo.py, watched",
        "cleanrl",
        {"episodic_return": rf"episodic_return=\[?{NUMBER}"},
        command=("cleanrl/ppo.py", "--total-timesteps", "4096", "--no-cuda"),
        own="gymnasium==0.29.1",
    ),
)


def make_environment(folder: Path) -> Path:
    """A virtual environment beside this Python's packages, with what is missing; returns its Python."""
    python = folder / "environment" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-P", "-m", "venv", folder / "environment"], check=True)
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        places = [path for path in sys.path if path.endswith("site-packages")] or [sysconfig.get_path("purelib")]
        here = [*places, str(Path(__file__).resolve().parent.parent)]
        (folder / "environment" / "lib" / version / "site-packages" / "beside.pth").write_text("\n".join(here) + "\n")
    for module, packages in PACKAGES.items():
        if not imports(python, module):
            subprocess.run([python, "-P", "-m", "pip", "install", "-q", *packages.split(), "torch<2.14"], check=False)
    return python


def imports(python: Path, module: str) -> bool:
    environment = {**os.environ, "KERAS_BACKEND": "torch"}
    command = [str(python), "-c", f"import {module}"]
    return subprocess.run(command, env=environment, capture_output=True, check=False).returncode == 0


def run(program: Program, python: Path, folder: Path, checkouts: Path | None) -> str:
    """Run a program beside txlab; returns the rest of its line in the table."""
    if program.command:
        if checkouts is None or not (checkouts / program.needs).is_dir():
            return "skipped: no checkout"
        shutil.copytree(checkouts / program.needs, folder, ignore=shutil.ignore_patterns(".git"))
    elif not imports(python, program.needs):
        return "skipped: its package cannot be installed"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in program.prepare.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    environment = {**os.environ, **program.around, "TXLAB_RUNS": str(folder / "txlab-runs")}
    if program.own:
        install = [python, "-P", "-m", "pip", "install", "-q", "--no-deps", "--target", folder / "own"]
        subprocess.run([*install, *program.own.split()], check=True)
        environment["PYTHONPATH"] = str(folder / "own")
    if (prepare := folder / "data" / "shakespeare_char" / "prepare.py").exists():
        subprocess.run([python, prepare], env=environment, cwd=folder, check=True, capture_output=True)
    if program.code:
        (folder / "program.py").write_text(program.code)
    command = [str(python), *(program.command or ["program.py"])]
    watched = [] if program.changed else [str(python), "-P", "-m", "txlab", "watch", "--"]
    began = time.monotonic()
    done = subprocess.run(
        [*watched, *command], env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    (folder / "output.txt").write_text(done.stdout + done.stderr)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["?"])[-1]
        return f"failed with status {done.returncode}: {last[:120]}"
    rows = live_branch(read_rows(find_run("latest", folder / "txlab-runs") / "events.jsonl")[0])
    cells = []
    for metric, expected in program.expected.items():
        values = [row["values"][metric] for row in rows if row["event"] == "metrics" and metric in row["values"]]
        if isinstance(expected, int):
            right, count = min(len(values), expected), expected
        else:
            printed = [float(value) for value in re.findall(expected, done.stdout + done.stderr)]
            right, count = sum(one == other for one, other in zip(printed, values, strict=False)), len(printed)
        more = f" (+{len(values) - count})" if len(values) > count else ""
        cells.append(f"{metric} {right} of {count}{more}")
    return f"{program.changed} lines, {'; '.join(cells)}, {time.monotonic() - began:.0f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="only programs whose names have one of these words")
    parser.add_argument("--checkouts", type=Path)
    arguments = parser.parse_intermixed_args()
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    python = make_environment(folder)
    for number, program in enumerate(PROGRAMS):
        if not arguments.names or any(name.lower() in program.name.lower() for name in arguments.names):
            place = folder / f"{number:02d}"
            shutil.rmtree(place, ignore_errors=True)
            print(f"{program.name:38}  {run(program, python, place, arguments.checkouts)}", flush=True)


if __name__ == "__main__":
    main()
