"""Shared by the tabular experiments: worlds in scenarios, several learners in one world, frames."""
