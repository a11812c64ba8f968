"""Small models of every kind with weights large enough that a mistake shows, in float64."""

from __future__ import annotations

import torch

from txlab.engine.interpret.sites import Model, Text
from txlab.engine.transformer.bert import Bert, BertShape
from txlab.engine.transformer.encoder_decoder import EncoderDecoder, EncoderDecoderShape
from txlab.engine.transformer.gpt import GPT, GPTShape

TEXT = Text((3, 1, 4, 1, 5, 9, 2, 6, 1, 4))
PAIR = Text((3, 1, 4, 1, 5, 9, 2), (0, 7, 1, 8, 2))
MODELS = [
    "gpt",
    "rotary",
    "parallel",
    "post",
    "parallel-post",
    "attention",
    "attention-post",
    "llama",
    "bert",
    "translator",
    "pre-translator",
]


def model_named(name: str, deviation: float = 0.3) -> Model:
    model: Model
    if name == "bert":
        model = Bert(BertShape(2, 2, 8, 12, 11))
    elif name.endswith("translator"):
        norm = "pre" if name.startswith("pre") else "post"
        model = EncoderDecoder(EncoderDecoderShape(2, 3, 2, 8, 11, 11, 12, norm=norm))
    elif name == "llama":
        some = ("qkv", "out", "feed_forward")
        model = GPT(
            GPTShape(2, 2, 8, 12, 11, 10, "rotary", bias=some, normalisation="rms", gated=True, kv_heads=1, head_dim=6)
        )
    else:
        model = GPT(
            GPTShape(
                layers=2,
                heads=2,
                width=8,
                context=12,
                vocabulary=11,
                positions="rotary" if name == "rotary" else "learned",
                block=next((order for order in ("parallel", "attention") if order in name), "sequential"),
                norm="post" if "post" in name else "pre",
            )
        )
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, deviation, generator=generator)
    return model.double()


def text_for(model: Model) -> Text:
    return PAIR if isinstance(model, EncoderDecoder) else TEXT
