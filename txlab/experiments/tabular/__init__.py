"""What the experiments with decisions have in common: worlds in scenarios, several learners in one world, frames."""
