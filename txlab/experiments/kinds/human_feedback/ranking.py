"""Questions, rankings, and the reward model that learns from them as they arrive (MATH H2).

A step takes one more ranking: the simulated labeller's, or the next human one. The reward model first predicts it, so
every ranking serves as a test before it is learnt from (prequential evaluation, Dawid 1984) and no human ranking is
held out. Then it learns from rankings drawn from all so far, always including the newest. After the last one, some
further updates let it converge.

Human lines are taken in the order of their file, regardless of their time, so that a run can be repeated.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

import torch
from torch import Tensor

from txlab.engine.rlhf.preferences import Line, Question, Ranking, Skip, Undo, read_file, standing
from txlab.engine.rlhf.reward import Normaliser, RankingLoss, ScalarGPT, choice_loss, ranking_loss
from txlab.engine.rlhf.rollouts import Episodes
from txlab.engine.rlhf.tasks import SimulatedLabeller
from txlab.errors import LabError
from txlab.experiments.kinds.human_feedback.imitation import StageScenario
from txlab.experiments.kinds.human_feedback.materials import Handed, Texts
from txlab.experiments.kinds.human_feedback.schema import HumanFeedbackScenario
from txlab.experiments.learning.gradient import GradientExperiment, Measured
from txlab.experiments.learning.schema import factor
from txlab.experiments.protocol import State

BLOCK = 16  # questions per batch, so that the user never waits for the next one
OPEN = 8  # least number of open questions while the user ranks
RECENT = 20  # rankings of "accuracy_20"
NORMALISING = 256  # answers for normalising the scores


class RewardLearning(GradientExperiment[ScalarGPT]):
    """asked     the questions so far, in order
    rankings     those taken and not retracted, in order
    offered      human lines that no step has taken yet
    second       further rankings of a question: they count only once the first one is retracted
    taken        number of rankings taken, including those retracted later
    """

    def __init__(self, scenario: HumanFeedbackScenario, texts: Texts, handed: Handed) -> None:
        section = scenario.rankings
        start = handed.reward or handed.fine_tuned
        human = float(section.labeller == "human")
        super().__init__(
            StageScenario(seed=scenario.seed, train=section, compute=scenario.compute),
            lambda generator: ScalarGPT.begin_from(start, generator),
            {"human": (human, 1.0)},
        )
        self.checks_async = False
        self.model.set_dropout(0.0)
        self.model.requires_grad_(True)
        self.texts, self.handed, self.section, self.probe = texts, handed, section, scenario.probe
        self.labeller = SimulatedLabeller(section.noise, section.bias, section.tie)
        self.asked: list[Question] = []
        self.rankings = read_rankings(section.preferences)
        self.offered: deque[Line] = deque()
        self.second: list[Ranking] = []
        self.seen: set[str] = set()  # ids of lines taken
        self.answered: set[str] = set()  # questions that were ranked or skipped
        self.taken = 0
        self.right: deque[tuple[int, int]] = deque(maxlen=RECENT)
        self.last: dict[str, Any] = {}

    # Questions

    def ask(self) -> None:
        """Add questions as needed: enough for the remaining steps, and some open ones while the user ranks."""
        ahead = OPEN if self.adjusted["human"] else 1
        while len(self.asked) < len(self.answered) + ahead:
            first = len(self.asked)
            prompts = self.texts.prompts("question prompts", first, BLOCK)
            K = self.section.answers
            repeated = [prompt for prompt in prompts for _ in range(K)]
            episodes = self.texts.sample_answers(self.handed.fine_tuned, repeated, "question answers", first)
            answers = [self.texts.answer(episodes, row) for row in range(len(repeated))]
            self.asked += [
                Question(f"q{first + i + 1:04d}", prompt, tuple(answers[i * K : (i + 1) * K]))
                for i, prompt in enumerate(prompts)
            ]

    @property
    def waiting(self) -> str:
        """What the next step is waiting for; "" = nothing."""
        if not self.adjusted["human"] or self.taken >= self.section.steps or self._next_ranking() is not None:
            return ""
        return f"waiting for your rankings: {self.taken} of {self.section.steps}"

    def offer(self, lines: Sequence[Line]) -> None:
        """Lines of the preferences file, in order; those seen before are passed over."""
        self.offered.extend(line for line in lines if line.id not in self.seen)

    def _next_ranking(self) -> Ranking | None:
        """What `take` would find in the lines of people."""
        trial = copy(self)
        trial.offered, trial.second = deque(self.offered), list(self.second)
        trial.seen, trial.answered = set(self.seen), set(self.answered)
        return trial._take_line()

    def take(self) -> Ranking:
        """The next ranking, after the skips and retractions before it; the simulated labeller's if no human ranks."""
        if not self.adjusted["human"]:
            return self.simulate(next(each for each in self.asked if each.id not in self.answered))
        line = self._take_line()
        assert line is not None  # otherwise the run waits
        return line

    def _take_line(self) -> Ranking | None:
        while self.offered:
            line = self.offered.popleft()
            if line.id in self.seen:
                continue
            if isinstance(line, Ranking) and question_of(line) in map(question_of, self.human_rankings()):
                self.second.append(line)
                continue
            self.seen.add(line.id)
            if isinstance(line, Ranking):
                return line
            if isinstance(line, Skip):
                self.answered.add(line.question)
            elif isinstance(line, Undo):
                self.rankings = [each for each in self.rankings if (each.id, each.by) != (line.undo, line.by)]
                self.seen |= {each.id for each in self.second if (each.id, each.by) == (line.undo, line.by)}
                self.offered.extendleft(reversed(self.second))
                self.second = []
        return None

    def human_rankings(self) -> list[Ranking]:
        """The rankings in force, without those given by the scenario."""
        return [each for each in self.rankings if each.id in self.seen]

    def simulate(self, question: Question) -> Ranking:
        """The simulated labeller's answer to a question: a pure function of it."""
        gold = self.texts.task.gold
        assert gold is not None  # the schema refuses it
        scores = [gold(question.prompt, answer) for answer in question.answers]
        draws = self.texts.draws(f"labeller {question.id}", 0)
        ranks = self.labeller.rank(scores, question.answers, draws)
        return Ranking(f"sim-{question.id}", question.id, question.prompt, question.answers, tuple(ranks), "simulated")

    # Learning

    def step(self) -> Mapping[str, float | Tensor]:
        """Take in one more ranking, test the reward model on it, and learn; after the last one, only learn."""
        if self.taken >= self.section.steps:
            return {**self.update(self.gradients), "rankings": float(len(self.rankings))}
        self.ask()
        ranking = self.take()
        self.seen.add(ranking.id)
        self.answered.add(ranking.question)
        before, tested = self.test_ranking(ranking)
        self.rankings.append(ranking)
        self.taken += 1
        if tested.pairs[0]:
            self.right.append((int(tested.right[0]), int(tested.pairs[0])))
        metrics = dict(self.update(self.gradients))
        after, _ = self.test_ranking(ranking)
        self.last = {"ranking": ranking, "before": before, "after": after}
        metrics["rankings"] = float(len(self.rankings))
        if tested.pairs[0]:
            metrics["accuracy"] = float(tested.accuracy)
        if self.right:
            metrics["accuracy_20"] = sum(right for right, _ in self.right) / sum(pairs for _, pairs in self.right)
        return metrics

    def learning_rate(self, update: int) -> float:
        """It rises over the rankings and falls over the settling updates."""
        section = self.section
        share = factor(update, section.steps, section.steps + section.settling, section.final, section.decay)
        return self.adjusted["lr"] * share

    @torch.no_grad()
    def test_ranking(self, ranking: Ranking) -> tuple[Tensor, RankingLoss]:
        """The scores (K,) of a ranking's answers, and the loss of that ranking."""
        scores, ranks = self.score_rankings([ranking])
        return scores[0], ranking_loss(scores, ranks)

    @torch.no_grad()
    def score_open(self) -> tuple[list[str], Tensor]:
        """The first open questions, at most OPEN, and the scores (B, K) of their answers as the model is now."""
        questions = [each for each in self.asked if each.id not in self.answered][:OPEN]
        pairs = [(question.prompt, answer) for question in questions for answer in question.answers]
        if not pairs:
            return [], torch.empty(0, self.section.answers)
        scores = self.texts.pack_answers(pairs).scores(self.model)
        return [each.id for each in questions], scores.view(len(questions), -1)

    def score_rankings(self, rankings: Sequence[Ranking]) -> tuple[Tensor, Tensor]:
        """(scores, ranks), both (B, K); fewer answers than K are padded with rank 0."""
        pairs = [(ranking.prompt, answer) for ranking in rankings for answer in ranking.answers]
        flat = self.texts.pack_answers(pairs).scores(self.model)
        K = max(len(ranking.answers) for ranking in rankings)
        scores, ranks = (flat.new_zeros(len(rankings), K, dtype=dtype) for dtype in (flat.dtype, torch.long))
        start = 0
        for row, ranking in enumerate(rankings):
            count = len(ranking.answers)
            scores[row, :count] = flat[start : start + count]
            ranks[row, :count] = torch.tensor(ranking.ranks, device=ranks.device)
            start += count
        return scores, ranks

    def gradients(self, update: int) -> Measured:
        """A batch of prompts, with all pairs of each: the newest, and others drawn from all so far."""
        count = min(len(self.rankings), self.section.batch)
        if not count:  # everything was taken back
            nothing = sum(parameter.sum() for parameter in self.model.parameters()) * 0.0
            nothing.backward()  # type: ignore[union-attr, no-untyped-call]
            return {"loss": torch.zeros(())}
        draws = self.texts.draws("ranking batch", update)
        chosen = list(draws.permutation(len(self.rankings))[:count])
        if update <= self.section.steps and len(self.rankings) - 1 not in chosen:
            chosen[0] = len(self.rankings) - 1
        scored = self.score_rankings([self.rankings[i] for i in chosen])
        loss = ranking_loss(*scored).loss if self.section.loss == "pairs" else choice_loss(*scored)
        loss.backward()  # type: ignore[no-untyped-call]
        return {"loss": loss.detach()}

    @torch.no_grad()
    def evaluate(self) -> Mapping[str, float | Tensor]:
        """val_accuracy: of pairs of unseen answers whose gold scores differ, the share in the right order."""
        gold = self.texts.task.gold
        if gold is None:
            return {}
        prompts, golds, episodes = self._held_out
        scores = episodes.scores(self.model).view(len(prompts), -1)
        return {"val_accuracy": float(ranking_loss(scores, descending_ranks(golds)).accuracy)}

    @property
    def _held_out(self) -> tuple[list[str], Tensor, Episodes]:
        if not hasattr(self, "_kept"):
            prompts = self.texts.prompts("held-out prompts", 0, self.probe.held_out)
            repeated = [prompt for prompt in prompts for _ in range(self.section.answers)]
            episodes = self.texts.sample_answers(self.handed.fine_tuned, repeated, "held-out answers", 0)
            golds = torch.tensor(self.texts.gold(repeated, episodes), device=self.device).view(len(prompts), -1)
            self._kept = prompts, golds, episodes
        return self._kept

    def normaliser(self) -> Normaliser:
        """Fixed when the stage ends: the scores of samples have mean 0 and sd 1, or demonstrations average 0."""
        if self.section.normalise == "demonstrations":
            episodes = self.texts.pack_answers(self.texts.demonstrations("normalising", NORMALISING))
        else:
            prompts = self.texts.prompts("normalising", 0, NORMALISING)
            episodes = self.texts.sample_answers(self.handed.fine_tuned, prompts, "normalising", 0)
        with torch.no_grad():
            scores = episodes.scores(self.model)
        of = Normaliser.of_demonstrations if self.section.normalise == "demonstrations" else Normaliser.of_samples
        return of(scores)

    # Checkpoints

    def state_dict(self) -> State:
        return {
            **super().state_dict(),
            "taken": self.taken,
            "answered": sorted(self.answered),
            "seen": sorted(self.seen),
            "rankings": [ranking.as_row() for ranking in self.rankings],
            "asked": [question.as_row() for question in self.asked],
            "right": [list(pair) for pair in self.right],
        }

    def load_state_dict(self, state: State) -> None:
        super().load_state_dict(state)
        self.taken = int(state["taken"])
        self.answered, self.seen = set(state["answered"]), set(state["seen"])
        self.rankings = [Ranking.of_row(row) for row in state["rankings"]]
        self.asked = [Question.of_row(row) for row in state["asked"]]
        self.right = deque(((right, pairs) for right, pairs in state["right"]), maxlen=RECENT)


def question_of(ranking: Ranking) -> tuple[str, ...]:
    """The key of the question that a ranking answers. A file of another run may use the same names of questions, or
    none."""
    return (ranking.question or ranking.id, ranking.prompt, *ranking.answers)


def read_rankings(path: str) -> list[Ranking]:
    """The rankings in force in a file; none for "". LabError if it cannot be read, or has none."""
    rankings = standing(read_file(path)) if path else []
    if path and not rankings:
        raise LabError(f"rankings.preferences = {path!r} has no ranking in force")
    return rankings


def descending_ranks(gold: Tensor) -> Tensor:
    """Ranks (B, K) of scores (B, K): 1 + the number of greater ones, so equal scores are ties."""
    return 1 + (gold[:, None, :] > gold[:, :, None]).sum(-1)
