"""The experiment "self-play": a table that learns a game by playing both sides of it (MATH G1).

Notable: NumPy alone, so nothing here or below imports torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from txlab.experiments.kind import Kind
from txlab.experiments.kinds.self_play.schema import SelfPlayScenario
from txlab.experiments.tabular.compute import on_the_cpu

if TYPE_CHECKING:
    from txlab.engine.explain import Explanation
    from txlab.engine.games.players import MaskPlayer
    from txlab.experiments.kinds.self_play.experiment import SelfPlay
    from txlab.experiments.protocol import Frame


def player_of(kept: Frame | Mapping[str, Any]) -> MaskPlayer:
    """Who plays greedily by the table of a recorded frame, or of a checkpoint's state. LabError where there is none."""
    from txlab.experiments.kinds.self_play.experiment import recorded_player

    return recorded_player(kept)


class SelfPlayKind(Kind):
    name = "self-play"
    title = "Self-play of a board game"
    schema = SelfPlayScenario
    units = {
        f"{how}_{seat}": "share of games"
        for how in ("won", "drawn", "lost", "lost_to_perfect")
        for seat in ("first", "second")
    }

    def resolve(self, scenario: SelfPlayScenario, say: Callable[[str], None] = lambda text: None) -> SelfPlayScenario:
        """The same scenario with [compute] as it is for NumPy. LabError for another device than the CPU."""
        return scenario.model_copy(update={"compute": on_the_cpu(scenario.compute, "self-play")})

    def build(self, scenario: SelfPlayScenario) -> SelfPlay:
        """The experiment before its first game."""
        from txlab.experiments.kinds.self_play.experiment import SelfPlay

        return SelfPlay(self.resolve(scenario))

    def explain_metric(
        self, scenario: SelfPlayScenario, name: str, step: int, values: Mapping[str, float], facts: Mapping[str, Any]
    ) -> Explanation | None:
        """Why a metric is what it is: what it is a sum of, beside perfect play; None where there is no more to say."""
        from txlab.experiments.kinds.self_play.measures import explain_metric as explain

        return explain(scenario, name, step, values)

    def explain_frame(self, frame: Frame, tensor: str, index: Sequence[int]) -> Explanation:
        """Why a move in a frame has the value it has. LabError for what has none."""
        from txlab.experiments.kinds.self_play.frame_why import explain_move

        return explain_move(frame, tensor, index)


KIND = SelfPlayKind()
resolve = KIND.resolve
build = KIND.build
