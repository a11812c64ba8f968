"""MATH T: attention, positions, blocks, the decoder-only model, its generation, and what can be seen inside it."""
