"""Logs of other programs (TensorBoard, W&B, trackio, Lightning), read only and shown as runs; one format a file."""
