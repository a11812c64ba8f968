"""Scenario → process → run directory → frames. The run directory is all that a viewer and a computation share."""
