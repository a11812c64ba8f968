"""MATH T: attention, positions, blocks, the models built from them, generation, and hooks to look inside."""
