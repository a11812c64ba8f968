"""The mathematics, on tensors. Independent of terminal and run directories; only weights and tokenizers are read."""
