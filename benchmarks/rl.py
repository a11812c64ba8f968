"""Reinforcement learning: target and measured speeds: python benchmarks/rl.py

    the glass box (a learner inspected as in the arena) / a plain Gymnasium and NumPy loop, cliff   20 ×
    many agents in parallel, a table each, on the cliff                              5 M steps per CPU second
    tic-tac-toe by self-play / an object-per-move loop that learns the same          3 ×; a batch of seeds 10 ×
    the figure of the 19-state walk, λ × α × 300 runs of four methods                under two minutes on two cores

Each part is also a separate program (rl_glass, rl_sweeps, rl_games, rl_prediction), with more detail.
"""

from __future__ import annotations

import rl_games
import rl_glass
import rl_prediction
import rl_sweeps


def main() -> None:
    glass = rl_glass.measure()
    print("glass box on the cliff, Q-learning")
    print(f"  plain Gymnasium loop    {glass['plain'] / 1e3:8.0f} k updates a CPU-second")
    print(f"  glass box               {glass['glass'] / 1e3:8.0f} k    {glass['ratio']:.1f} ×  (wanted 20)")
    sweeps = rl_sweeps.measure()
    print("agents in parallel on the cliff, 1024 of them")
    for rule in ("q-learning", "sarsa", "expected-sarsa"):
        print(f"  {rule:<24}{sweeps['rules'][rule] / 1e6:8.2f} M steps a CPU-second  (wanted 5)")
    games = rl_games.measure()
    print("tic-tac-toe, TD(0) by self-play")
    print(f"  an object a move        {games['rates']['object'] / 1e3:8.1f} k games a CPU-second")
    print(f"  glass box               {games['ratios']['glass/td']:8.1f} ×  (wanted 3)")
    for seeds in rl_games.SEEDS:
        print(f"  {seeds:>4} seeds in a batch   {games['ratios'][f'batch/td/{seeds}']:8.1f} ×  (wanted 10)")
    walk = rl_prediction.measure()
    print("figure of the 19-state walk, 300 runs")
    print(f"  in all                  {walk['whole']:8.1f} CPU-seconds  (wanted: 240)")


if __name__ == "__main__":
    main()
