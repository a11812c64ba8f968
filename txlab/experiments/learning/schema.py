"""What the table [train] says in every kind of experiment that learns by gradients (MATH F3).

Notable: a kind extends `Train` with defaults and fields of its own. No torch at import time.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from txlab.experiments.schema import NonNegativeInt, PositiveInt, Section

Fraction = Annotated[float, Field(ge=0, le=1)]


class Train(Section):
    """AdamW with linear warm-up, cosine decay and clipping by the global norm."""

    steps: PositiveInt = 1000
    batch: PositiveInt = Field(12, description="B, examples a step")
    accumulate: PositiveInt = Field(1, description="micro-batches a step; batch must be a multiple of it")
    learning_rate: Annotated[float, Field(gt=0, le=10)] = 1e-3
    warmup: NonNegativeInt = Field(100, description="steps of linear warm-up")
    decay: Literal["cosine", "constant"] = "cosine"
    final: Fraction = Field(0.1, description="learning rate at the last step, as a share of the peak")
    beta1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    beta2: Annotated[float, Field(ge=0, lt=1)] = 0.99
    epsilon: Annotated[float, Field(gt=0)] = 1e-8
    weight_decay: Annotated[float, Field(ge=0)] = 0.1
    clip: Annotated[float, Field(ge=0)] = Field(1.0, description="largest gradient norm; 0 = no clipping")
    validation_batches: PositiveInt = Field(20, description="batches of each evaluation, always the same ones")

    @model_validator(mode="after")
    def micro_batches_are_whole(self) -> Self:
        if self.batch % self.accumulate:
            raise ValueError(f"batch must be a multiple of accumulate; {self.batch} is not one of {self.accumulate}")
        return self
