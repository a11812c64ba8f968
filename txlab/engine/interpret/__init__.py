"""What goes on inside a transformer: seen, explained, intervened in (MATH T1–T10)."""
