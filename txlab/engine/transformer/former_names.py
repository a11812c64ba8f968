"""Current names of parameters in checkpoints saved before a renaming."""

# Old part of a name → current part.
FORMER_NAMES = {
    "norm_attention": "attention_norm",
    "norm_cross": "cross_norm",
    "norm_feed_forward": "feed_forward_norm",
    "norm_embedding": "embedding_norm",
    "norm_transform": "transform_norm",
    "last_norm": "final_norm",
    "qkv": "qkv_proj",
    "out": "out_proj",
    "rise": "up_proj",
    "gate": "gate_proj",
    "fall": "down_proj",
}


def current_name(parameter: str) -> str:
    """Return the current name of a parameter, whatever it was called when it was saved.

    >>> current_name("blocks.0.feed_forward.rise.weight"), current_name("blocks.0.attention.out_proj.bias")
    ('blocks.0.feed_forward.up_proj.weight', 'blocks.0.attention.out_proj.bias')
    """
    return ".".join(FORMER_NAMES.get(part, part) for part in parameter.split("."))
