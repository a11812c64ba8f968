"""What all experiments that learn by gradient descent share: optimizer, schedule, threads, and deciding "auto"."""
