"""The mathematics on tensors. Knows no terminal, no run directory; reads no files but weights and tokenizers."""
