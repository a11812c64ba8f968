"""The sections that every scenario has. Each kind adds its own sections in its schema.

Unknown keys are refused (`extra="forbid"`), so a typing mistake never becomes a silently ignored setting. Defaults are
declared here and nowhere else. torch is not imported.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

Chapter = Literal["F", "K", "R", "T", "M", "G", "H"]

CHAPTERS: dict[str, str] = {
    "F": "Descent and functions",
    "K": "Tokens and embeddings",
    "R": "Recurrent networks",
    "T": "Transformers",
    "M": "Decisions",
    "G": "Games",
    "H": "Human feedback",
}

CATALOGUE_ORDER = "TKRHFMG"
"""The chapters as catalogues list them: language models first."""

PositiveInt = Annotated[int, Field(ge=1)]
NonNegativeInt = Annotated[int, Field(ge=0)]


class Section(BaseModel):
    """A table of a scenario file."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    @field_validator("*")
    @classmethod
    def has_64_bits(cls, value: Any) -> Any:
        """Limit whole numbers to TOML's range: numbers computed from them (parameters, FLOPs) end up as floats."""
        if isinstance(value, int) and value.bit_length() > 63:
            raise ValueError(f"a number of {value.bit_length()} bits is not allowed; allowed: at most 63 bits")
        return value


class About(Section):
    """The catalogue's description of a scenario."""

    title: str = Field("", max_length=120, description="one line: what happens")
    chapter: Chapter = Field("T", description="chapter of the formulas: F, K, R, T, M, G or H")
    shows: str = Field("", description="a paragraph: what this scenario shows")
    expect: str = Field("", description="what you will see, with numbers")
    formulas: list[str] = Field(default_factory=list, description="the formulas that run, in Unicode")
    math: list[str] = Field(default_factory=list, description="numbers of formulas, e.g. T9 (txlab formulas T9)")
    source: str = Field("", description="lecture text and paper")
    minutes: float = Field(0.0, ge=0, description="about how long it takes on two CPU cores; 0 = unknown")
    device: Literal["any", "gpu"] = Field("any", description="gpu: far too slow without one")


class Record(Section):
    """How much of the run is kept, and how often. Every cadence is in steps; 0 turns it off."""

    metrics_every: PositiveInt = 1
    evaluate_every: NonNegativeInt = 100
    sample_every: NonNegativeInt = 200
    frame_every: NonNegativeInt = 25  # a frame takes about a seventh of a small model's step
    frames_mb: float = Field(64.0, gt=0, le=100_000, description="disk budget of frames/; older ones are thinned")
    checkpoint_every: NonNegativeInt = 100
    checkpoints_kept: PositiveInt = Field(3, description="the newest ones kept, with the best by validation")
    checkpoints_mb: float = Field(
        256.0, ge=0, le=1e6, description="disk budget in which older ones stay too, evenly spaced, to go back to"
    )


class Compute(Section):
    """Where and how it is computed. `auto` is decided by a short probe, and the decision is written into the run."""

    device: str = Field(
        "auto", pattern=r"^(auto|cpu|cuda(:\d+)?|mps)$", description="auto, cpu, cuda, cuda:1 (any number) or mps"
    )
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    attention: Literal["auto", "sdpa", "matmul"] = "auto"
    threads: NonNegativeInt = Field(0, description="0 = decided by the probe")
    thread_mode: Literal["auto", "operations", "batch"] = Field(
        "auto", description="how threads divide the work: each operation, or the sequences of a batch (on a CPU)"
    )
    compile: bool | Literal["auto"] = "auto"
    cuda_graphs: bool | Literal["auto"] = Field(
        "auto", description="whole training steps as CUDA graphs: for small models, which are bound by launches"
    )
    processes: PositiveInt = Field(1, description="that compute the run together, each a part of every batch")
    parallel: Literal["ddp", "fsdp"] = Field(
        "ddp", description="what each of several processes holds: the whole model, or a part of each parameter"
    )
    timeout: float = Field(
        600.0, ge=1, le=1e6, description="seconds after which a process that does not finish a step ends the run"
    )


class Start(Section):
    """Weights to begin with instead of random ones (MATH T12); of a kind whose schema has this table.

    They are copied into the run when it is prepared, and their origin is recorded here.
    """

    run: str = Field(
        "", description="a scenario (its newest run), a run, or a folder of weights; empty = random weights"
    )
    step: NonNegativeInt = Field(0, description="that of a checkpoint; 0 = the newest")
    weights: bool = Field(True, description="false = shape and tokenizer alone: from scratch, to compare with")
    fingerprint: str = Field("", description="names the weights; filled in when the run is prepared")


class Scenario(Section):
    """What all scenarios have in common; `kind` names the experiment."""

    kind: str
    seed: int = Field(1, ge=0, lt=2**63)
    about: About = Field(default_factory=About)
    record: Record = Field(default_factory=Record)
    compute: Compute = Field(default_factory=Compute)

    def length(self) -> int:
        """The number of steps, as far as the scenario says; 0 = unknown before it runs."""
        return int(getattr(getattr(self, "train", None), "steps", 0))

    def outline(self) -> list[tuple[str, str]]:
        """Model, data and training, for the catalogue: (name, one line) each."""
        return []


def group_digits(number: int) -> str:
    """A whole number with its thousands separated by spaces.

    >>> group_digits(20000)
    '20 000'
    """
    return f"{number:,}".replace(",", " ")


def several(number: int, thing: str) -> str:
    """
    >>> several(1, "head"), several(1500, "step")
    ('1 head', '1 500 steps')
    """
    return f"{group_digits(number)} {thing}{'' if number == 1 else 's'}"


def describe_tokens(tokenizer: str, vocabulary: int) -> str:
    """How a text is tokenized, as the catalogue words it."""
    return f"{group_digits(vocabulary)} tokens of byte pair encoding" if tokenizer == "bpe" else tokenizer
