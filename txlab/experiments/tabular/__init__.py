"""What the tabular experiments share: worlds in scenarios, several learners in one world, frames."""
