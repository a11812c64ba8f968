"""Connect Four, and AlphaZero: a policy-value network and tree search that learn by playing each other (MATH G3)."""
