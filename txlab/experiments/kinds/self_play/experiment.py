"""Self-play as an Experiment: a step is a block of games, and what has been learnt is judged exactly (MATH G1).

Notable: an evaluation plays no game. The chances of the greedy player against a random and a perfect one follow from
the table and the graph of the game (engine/games/perfect_play.py), so its curves have no noise but that of learning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from txlab.engine.games.game import Position
from txlab.engine.games.graph import GameGraph, compiled
from txlab.engine.games.learner import OF_POSITIONS, SelfPlaySettings
from txlab.engine.games.perfect_play import both_seats
from txlab.engine.games.players import MaskPlayer, perfect_player, random_player, table_player
from txlab.engine.games.population import Population, first_table
from txlab.errors import LabError, nearest
from txlab.experiments.kinds.self_play.live import GAMES
from txlab.experiments.kinds.self_play.schema import SelfPlayScenario
from txlab.experiments.protocol import Adjustable, Frame, Sample, State
from txlab.experiments.schema import grouped

SEATS = ("first", "second")


class SelfPlay:
    """See protocol.Experiment; in `scenario` nothing is "auto"."""

    def __init__(self, scenario: SelfPlayScenario) -> None:
        self.scenario = scenario
        self.game = GAMES[scenario.game.name]
        self.graph = compiled(self.game)
        learn = scenario.learn
        seeds = [(scenario.seed + k) % 2**63 for k in range(learn.seeds)]
        self.population = Population(self.graph, learn.settings(), seeds)
        self.random, self.perfect = random_player(self.game).policy(), perfect_player(self.game).policy()
        self.step_count = 0

    @property
    def steps(self) -> int:
        return self.scenario.length()

    # Learning

    def step(self) -> Mapping[str, float]:
        """A block of games against itself.

        epsilon                             ε of the last of them
        self_won, self_drawn, self_lost     shares of these games, the first player's view
        """
        learn, population = self.scenario.learn, self.population
        before = population.results
        population.run(min(learn.games_per_step, learn.games - population.games))
        self.step_count += 1
        drawn, won, lost = ((population.results - before) / (population.results - before).sum()).tolist()
        epsilon = population.settings.epsilon_of(population.games - 1)
        return {"epsilon": epsilon, "self_won": won, "self_drawn": drawn, "self_lost": lost}

    def verify(self) -> None:
        return

    # Looking

    def evaluate(self) -> Mapping[str, float]:
        """What the greedy player of the table would do, exactly; of several learners the mean.

        won_first, drawn_first, lost_first, won_second, …   against a player that moves at random
        lost_to_perfect_first, lost_to_perfect_second       against the perfect one (who never loses: the rest is drawn)
        unbeaten                                            share of the learners that cannot lose from either seat
        won_first_low, won_first_high, …                    of several: one standard error of the mean to either side
        """
        found: dict[str, list[float]] = {}
        unbeaten = []
        for row in range(self.population.size):
            policy = self.player(row).policy()
            for seat, chances in zip(SEATS, both_seats(self.graph, policy, self.random), strict=True):
                for name, value in asdict(chances).items():
                    found.setdefault(f"{name}_{seat}", []).append(value)
            against = both_seats(self.graph, policy, self.perfect)
            for seat, chances in zip(SEATS, against, strict=True):
                found.setdefault(f"lost_to_perfect_{seat}", []).append(chances.lost)
            unbeaten.append(float(all(chances.lost == 0 for chances in against)))
        values = {name: float(np.mean(each)) for name, each in found.items()}
        values["unbeaten"] = float(np.mean(unbeaten))
        if self.population.size > 1:
            for name in ("won_first", "won_second"):
                error = float(np.std(found[name], ddof=1)) / self.population.size**0.5
                values[f"{name}_low"], values[f"{name}_high"] = values[name] - error, values[name] + error
        return values

    def player(self, row: int = 0) -> MaskPlayer:
        """The greedy player of one table as it is now."""
        return named_player(self.graph, self.population.settings, self.population.values(row), self.population.games)

    def frame(self) -> Frame:
        """The table of the first learner, and what it sees in some positions.

        values     (cells) float64: V of every position, or Q of every move, of the graph; the first player's view
        openings   (moves) float32: what it sees of each first move            tokens "openings": what they are called
        shown      (positions, moves) float32, NaN where no move: what it sees there, the view of who is to move; tokens
        """
        population, settings = self.population, self.population.settings
        player = self.player()
        shown = [self.game.read(text) for text in self.scenario.look.positions]
        return Frame(
            self.step_count,
            {
                "values": population.values(),
                "openings": self.seen(player, self.game.start()),
                "shown": np.array([self.seen(player, each) for each in shown]).reshape(-1, len(self.game.MOVES)),
            },
            tokens={"openings": self.game.MOVES, "shown": tuple(self.game.text(each) for each in shown)},
            facts={
                "game": self.game.NAME,
                "settings": asdict(settings),
                "title": settings.title,
                "of": "positions" if settings.rule in OF_POSITIONS else "moves",
                "games": population.games,
                "learners": population.size,
            },
        )

    def seen(self, player: MaskPlayer, position: Position) -> np.ndarray:
        """(moves) float32: the values of the moves there, NaN where there is none."""
        found = np.full(len(self.game.MOVES), np.nan, dtype=np.float32)
        for move, value in player.values(position).items():
            found[move] = value
        return found

    def samples(self) -> Sequence[Sample]:
        return ()

    def facts(self) -> Mapping[str, Any]:
        learn = self.scenario.learn
        return {
            "parameters": len(self.population.values()),
            "unit": "games",
            "units_per_step": learn.games_per_step * learn.seeds,
            "game": self.game.TITLE,
            "positions": self.graph.size,
            "headline": ["won_first", "won_second", "lost_to_perfect_first", "lost_to_perfect_second"],
            "compute": {"device": "cpu", "dtype": "float64"},
        }

    # What a person may change

    def adjustable(self) -> Mapping[str, Adjustable]:
        settings = self.population.settings
        names = ["alpha", "epsilon", *(["lam"] if settings.rule == "td-lambda" else [])]
        return {name: Adjustable(name, getattr(settings, name), 0.0, 1.0) for name in names}

    def adjust(self, name: str, value: float) -> None:
        known = self.adjustable()
        if name not in known:
            raise LabError(f"{name!r} cannot be changed{nearest(name, known)}; allowed: {', '.join(known)}")
        self.population.set(**{name: value})

    # Being put back

    def state_dict(self) -> State:
        return {
            "step": self.step_count,
            "game": self.game.NAME,
            "settings": asdict(self.population.settings),
            "games": self.population.games,
            "population": self.population.state(),
        }

    def load_state_dict(self, state: State) -> None:
        settings = settings_of(state)
        mine = self.population.settings
        if (state["game"], settings.rule) != (self.game.NAME, mine.rule):
            raise LabError(
                f"the checkpoint is of {settings.rule} at {state['game']}, not of {mine.rule} at {self.game.NAME}"
            )
        numbers = {key: value for key, value in asdict(settings).items() if key not in ("rule", "initial")}
        self.population.load(state["population"])
        self.population.set(**numbers)
        self.step_count = int(state["step"])


def settings_of(kept: Mapping[str, Any]) -> SelfPlaySettings:
    """What a frame's facts, or a state, say of the learner."""
    return SelfPlaySettings(**kept["settings"])


def named_player(graph: GameGraph, settings: SelfPlaySettings, table: np.ndarray, games: int) -> MaskPlayer:
    return table_player(graph, table, f"{settings.title}, {grouped(games)} games")


def recorded_player(kept: Frame | Mapping[str, Any]) -> MaskPlayer:
    """Who plays by a frame, or by a state. LabError where what is kept has no table of a game that is known here."""
    told = kept.facts if isinstance(kept, Frame) else kept
    if "settings" not in told or told.get("game") not in GAMES:
        raise LabError(f"this is no record of self-play at a game that is known here: {', '.join(GAMES)}")
    graph, settings = compiled(GAMES[str(told["game"])]), settings_of(told)
    if isinstance(kept, Frame):
        if "values" not in kept.tensors:
            raise LabError("this frame was recorded without its table of values, so nobody can play by it")
        table = np.asarray(kept.tensors["values"], dtype=np.float64)
    else:
        table = first_table(graph, settings, kept["population"])
    cells = graph.size if settings.rule in OF_POSITIONS else len(graph.move)
    if table.shape != (cells,):
        raise LabError(f"a table of {settings.rule} at {told['game']} has {cells} values; this one has {table.size}")
    return named_player(graph, settings, table, int(told["games"]))
