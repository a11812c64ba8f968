"""Screen 7, Feedback: people rank answers, a reward model learns from them, and a policy follows it."""
