"""Published numbers, and how ours are measured beside them: what `txlab verify` prints. A file each area."""
