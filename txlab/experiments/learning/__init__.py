"""What every experiment that learns by gradients has in common: optimizer, schedule, threads, and deciding "auto"."""
