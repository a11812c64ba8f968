"""Recurrent networks: cells, stacks of them in one direction or both, and models made of them (MATH R1–R4)."""
