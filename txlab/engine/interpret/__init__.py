"""What happens inside a transformer: observed, explained and intervened in (MATH T1–T10)."""
