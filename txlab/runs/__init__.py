"""Scenario → process → run directory → frames. A viewer and a computation share only the run directory."""
