"""The stages of human feedback: what must hold of their rollouts, losses and numbers (MATH H1–H5)."""

from __future__ import annotations

import re
from math import isfinite, log
from typing import Any

import numpy as np
import pytest
import torch
from calculator import miscalculated

from txlab.engine.explain import IN_FACT
from txlab.engine.rlhf.kl import AdaptiveKL
from txlab.engine.rlhf.preferences import Question, Ranking, Undo
from txlab.engine.rlhf.reward import ScalarGPT, ranking_loss
from txlab.engine.rlhf.rollouts import Episodes, sample
from txlab.engine.rlhf.tasks import TASKS, SimulatedLabeller, task_named
from txlab.engine.rlhf.tasks.reviews import gold
from txlab.engine.transformer.gpt import GPT
from txlab.errors import LabError
from txlab.experiments.kinds.human_feedback import KIND
from txlab.experiments.kinds.human_feedback.experiment import HumanFeedback
from txlab.experiments.kinds.human_feedback.explanations import stage_at
from txlab.experiments.kinds.human_feedback.imitation import answer_loss
from txlab.experiments.kinds.human_feedback.policy import PolicyLearning
from txlab.experiments.kinds.human_feedback.schema import HumanFeedbackScenario

SMALL: dict[str, Any] = {
    "kind": "human-feedback",
    "seed": 5,
    "task": {"tokens": 12},
    "model": {"layers": 2, "heads": 2, "width": 32, "context": 40},
    "pretraining": {"steps": 2, "batch": 4},
    "demonstrations": {"steps": 2, "batch": 4, "count": 20},
    "rankings": {"steps": 3, "settling": 2, "answers": 4, "batch": 3},
    "policy": {"steps": 2, "batch": 8, "minibatches": 2},
    "probe": {"prompts": 2, "episodes": 3, "held_out": 4},
    "compute": {"device": "cpu", "threads": 1},
}


def made(**changes: Any) -> HumanFeedback:
    tables = {name: {**SMALL.get(name, {}), **change} for name, change in changes.items()}
    return KIND.build(HumanFeedbackScenario.model_validate(SMALL | tables))  # type: ignore[return-value]


def at_policy(**changes: Any) -> tuple[HumanFeedback, PolicyLearning]:
    """A run whose policy has not learnt yet."""
    experiment = made(**changes)
    while experiment.plan[experiment.number][0] != "policy":
        experiment.step()
        experiment.go_on()
    stage = experiment.stage
    assert isinstance(stage, PolicyLearning)
    return experiment, stage


def models() -> tuple[GPT, ScalarGPT]:
    shape = HumanFeedbackScenario.model_validate(SMALL).model.shape(50)
    generator = torch.Generator().manual_seed(1)
    gpt = GPT(shape, generator).eval()
    return gpt, ScalarGPT.begin_from(gpt, generator).eval()


PROMPTS, ANSWERS = [[3, 4, 5], [6, 7], [8, 9, 10, 11, 12]], [[20, 21, 2], [22, 23, 24, 25, 2], [26]]


@pytest.mark.parametrize(
    "policy",
    [
        {"betas": [0.1, 0.0]}, {"method": "rloo"}, {"method": "grpo", "pretraining_mix": 2.0},
        {"method": "dpo", "batch": 4, "minibatches": 1},
        {"method": "best-of-n", "steps": 3, "batch": 4, "minibatches": 1}, {"pretraining_mix": 1.0, "kl_target": 2.0},
    ],
)  # fmt: skip
def test_every_metric_of_every_stage_and_method_is_explained(policy: dict[str, Any]) -> None:
    experiment = made(policy=policy, rankings={"loss": "choice" if "betas" in policy else "pairs"})
    scenario, facts = experiment.scenario, experiment.facts()
    while experiment.step_count < experiment.steps:
        values = {name: float(value) for name, value in {**experiment.step(), **experiment.evaluate()}.items()}
        for name, value in values.items():
            if isfinite(value):
                why = KIND.explain_metric(scenario, name, experiment.step_count, values, facts)
                assert why is not None, name
                assert why.result == pytest.approx(value), name
                assert IN_FACT not in {each.name for each in why.steps}
                assert miscalculated([*why.steps, *why.meaning], within=0.01) == [], name
                if name == "lr":
                    assert [each.note for each in why.operands if each.name == "η_peak"] == ["train.learning_rate"]
                assert stage_at(scenario, experiment.step_count)[0] == experiment.plan[experiment.number][0]


@pytest.mark.parametrize(
    ("policy", "terms", "price"),
    [
        ({"pretraining_mix": 2.0}, "L = L_policy + c L_value + γ L_pre-training", "proxy − β KL"),
        ({"method": "rloo"}, "L = L_policy", "proxy − β KL"),
        ({"method": "grpo", "betas": [0.7]}, "L = L_policy + β L_KL", "β KL / T"),
    ],
)
def test_a_loss_is_explained_by_all_of_its_terms_and_the_proxy_by_its_price(
    policy: dict[str, Any], terms: str, price: str
) -> None:
    """The second step, in which the policy has left its reference."""
    experiment, _ = at_policy(policy={**policy, "learning_rate": 1e-2})
    experiment.step()
    values = {name: float(value) for name, value in experiment.step().items()}
    step, facts = experiment.step_count, experiment.facts()
    loss, proxy = (KIND.explain_metric(experiment.scenario, name, step, values, facts) for name in ("loss", "proxy"))
    assert loss is not None
    assert proxy is not None
    assert loss.equation == terms
    assert [each.name for each in loss.steps] == [*re.findall("[cβγ] L_[^ ]*", terms), "L"]
    assert [each.name for each in proxy.meaning] == [price]
    if "method" in policy and policy["method"] == "grpo":
        assert abs(values["loss"] - values["policy_loss"]) > 1e-4
        assert proxy.meaning[0].result == pytest.approx(0.7 * values["kl"] / values["length"])
    else:
        assert proxy.meaning[0].result == pytest.approx(values["proxy"] - 0.05 * values["kl"])


def test_supervised_fine_tuning_counts_the_answers_tokens_alone() -> None:
    gpt, _ = models()
    episodes = Episodes.of(PROMPTS, ANSWERS, pad=0)
    total, count = 0.0, 0
    for prompt, answer in zip(PROMPTS, ANSWERS, strict=True):
        logits = gpt(torch.tensor([[*prompt, *answer]]))[0].log_softmax(-1)
        for t, token in enumerate(answer):
            total -= float(logits[len(prompt) - 1 + t, token])  # the row before the token chose it
            count += 1
    assert float(answer_loss(gpt, episodes)) == pytest.approx(total / count, rel=1e-5)


def test_padding_changes_nothing() -> None:
    gpt, scalar = models()
    together = Episodes.of(PROMPTS, ANSWERS, pad=0)
    for row, (prompt, answer) in enumerate(zip(PROMPTS, ANSWERS, strict=True)):
        alone = Episodes.of([prompt], [answer], pad=0)
        T = len(answer)
        for ours, theirs in (
            (together.logprobs(together.logits(gpt))[row, :T], alone.logprobs(alone.logits(gpt))[0]),
            (together.values(scalar)[row, :T], alone.values(scalar)[0]),
            (together.scores(scalar)[row], alone.scores(scalar)[0]),
        ):
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def test_an_answer_is_scored_at_its_last_token_and_valued_before_each() -> None:
    _, scalar = models()
    episodes = Episodes.of(PROMPTS, ANSWERS, pad=0)
    for row, (prompt, answer) in enumerate(zip(PROMPTS, ANSWERS, strict=True)):
        numbers = scalar(torch.tensor([[*prompt, *answer]]))[0, :, 0]
        assert float(episodes.scores(scalar)[row]) == pytest.approx(float(numbers[-1]), rel=1e-4)
        torch.testing.assert_close(
            episodes.values(scalar)[row, : len(answer)], numbers[len(prompt) - 1 : -1], rtol=1e-4, atol=1e-6
        )


def test_what_was_drawn_in_a_batch_with_a_cache_has_the_probabilities_it_is_read_with() -> None:
    """Greedy: each token drawn, whatever its prompt's padding, is the likeliest where the answer is read again."""
    gpt, _ = models()
    draws = torch.Generator().manual_seed(0)
    episodes = sample(gpt, PROMPTS, 8, end=2, generator=draws, temperature=0.0)
    likeliest = episodes.logits(gpt).argmax(-1)
    assert torch.equal(likeliest[episodes.mask], episodes.answers[episodes.mask])


@pytest.mark.parametrize("temperature", [0.7, 1.5])
def test_the_temperature_of_sampling_is_that_of_reading(temperature: float) -> None:
    gpt, _ = models()
    with torch.no_grad():  # some tokens are much likelier than others, or no temperature could be seen
        for parameter in gpt.parameters():
            parameter.mul_(4.0)
    many = sample(gpt, [[3, 4]] * 16_000, 1, end=2, generator=torch.Generator().manual_seed(0), temperature=temperature)
    counts = torch.bincount(many.answers[:, 0], minlength=50) / 16_000
    probabilities = many.rows(torch.tensor([0])).logits(gpt, temperature)[0, 0].softmax(-1)
    plain = gpt.requires_grad_(False)(torch.tensor([[3, 4]]))[0, -1]
    torch.testing.assert_close(probabilities, (plain / temperature).softmax(-1))
    by_chance = 6 * (50 / 16_000) ** 0.5 / 2
    assert float((counts - probabilities).abs().sum()) < by_chance  # total variation
    assert float((counts - plain.softmax(-1)).abs().sum()) > by_chance


def test_padding_is_not_the_end_token_and_an_answer_ends_once() -> None:
    experiment, stage = at_policy()
    episodes = stage.collect(1).episodes
    for row in range(len(episodes)):
        ids = episodes.answers[row][episodes.mask[row]].tolist()
        assert experiment.texts.end not in ids[:-1]
        assert experiment.texts.end not in episodes.answers[row][~episodes.mask[row]].tolist()


def test_the_first_reading_of_a_rollout_has_ratio_one_no_clipping_and_no_kl() -> None:
    _, stage = at_policy(model={"dropout": 0.3})
    stage.rollout = stage.collect(1)
    stage.model.train()  # even then nothing is dropped
    measured = stage.gradients_on((1, torch.arange(8)))
    assert float(measured["ratio"]) == pytest.approx(1.0, abs=1e-6)
    assert float(measured["clip_fraction"]) == 0.0
    told = stage.measure_rollout(stage.rollout)
    assert told["kl"] == pytest.approx(0.0, abs=1e-6)
    assert told["k1"] == pytest.approx(0.0, abs=1e-6)


def test_advantages_are_whitened_over_the_answers_tokens_alone() -> None:
    _, stage = at_policy()
    rollout = stage.collect(1)
    mask = rollout.episodes.mask
    assert not bool(mask.all())  # there is padding
    those = rollout.advantages[mask].double()
    expected = (those - those.mean()) / those.std(unbiased=False)
    torch.testing.assert_close(rollout.whitened[mask].double(), expected, atol=1e-5, rtol=1e-5)
    assert not bool(rollout.whitened[~mask].any())


def test_a_frame_has_the_scores_of_the_open_questions_while_people_rank() -> None:
    experiment = made(rankings={"labeller": "human"})
    while experiment.plan[experiment.number][0] != "rankings":
        experiment.step()
        experiment.go_on()
    assert experiment.waiting
    first = experiment.asked[0]
    frame = experiment.frame()
    assert frame.facts["open"][0] == first.id
    ranking = Ranking("r1", first.id, first.prompt, first.answers, tuple(range(1, len(first.answers) + 1)), "ann")
    stage = experiment.stage
    alone, _ = stage.score_rankings([ranking])  # type: ignore[union-attr]
    assert frame.tensors["open/scores"][0].tolist() == pytest.approx(alone[0].tolist(), abs=1e-5)
    experiment.offer([ranking])
    experiment.step()
    assert experiment.waiting
    assert first.id not in experiment.frame().facts["open"]
    assert "open" not in made().frame().facts  # there is no viewer before a simulated labeller ranks


def test_a_second_ranking_of_a_question_counts_only_once_the_first_is_taken_back() -> None:
    """Two people on machines that share no lock may rank the same list; a run takes a list in once."""
    experiment = made(rankings={"labeller": "human"})
    while experiment.plan[experiment.number][0] != "rankings":
        experiment.step()
        experiment.go_on()
    assert experiment.waiting
    one, two = experiment.asked[:2]

    def ranking(name: str, question: Question, by: str) -> Ranking:
        return Ranking(name, question.id, question.prompt, question.answers, (1, 2, 3, 4), by)

    experiment.offer([ranking("r1", one, "ann"), ranking("r2", one, "ben")])
    assert not experiment.waiting
    experiment.step()
    assert experiment.waiting
    restarted = made(rankings={"labeller": "human"})
    restarted.load_state_dict(experiment.state_dict())
    restarted.offer([ranking("r1", one, "ann"), ranking("r2", one, "ben")])
    for each in (experiment, restarted):
        assert each.waiting
        each.offer([ranking("r3", two, "ben"), Undo("u1", "r1", "ann")])
        each.step()
        assert [line.id for line in each.stage.rankings] == ["r1", "r3"]
        assert not each.waiting  # the first ranking is taken back, so the second counts
        each.step()
        assert [line.id for line in each.stage.rankings] == ["r3", "r2"]
        assert each.stage.taken == 3


def test_an_adaptive_beta_moves_within_the_updates_of_a_run() -> None:
    """With the horizon of 10 000 of the original β would hardly move in the sixty updates that a run here has."""
    section = HumanFeedbackScenario.model_validate({"kind": "human-feedback", "policy": {"kl_target": 1.0}}).policy
    controller, beta = AdaptiveKL(section.kl_target, section.horizon), 1.0
    for _ in range(section.steps):
        beta = controller.update_weight(beta, 100.0, section.batch)
    assert beta > 2


@pytest.mark.parametrize("method", ["ppo", "rloo", "grpo", "best-of-n"])
def test_the_gold_score_is_shown_next_to_the_proxy_and_before_it(method: str) -> None:
    experiment, _ = at_policy() if method == "ppo" else (made(policy={"method": method}), None)
    metrics: dict[str, Any] = {}
    while experiment.step_count < experiment.steps:
        metrics = dict(experiment.step())
    assert isfinite(float(metrics["gold"]))
    assert isfinite(float(metrics["proxy"]))
    first = [metric.key for metric in KIND.METRICS if metric.primary]
    assert first.index("gold") < first.index("proxy")


def test_a_new_head_has_the_deviation_of_the_originals() -> None:
    """1/√(D + 1), Ziegler et al. 2019; so scores are of size 1 at first."""
    shape = HumanFeedbackScenario.model_validate(SMALL | {"model": {"width": 1024, "layers": 1}}).model.shape(50)
    head = ScalarGPT(shape, torch.Generator().manual_seed(0)).head
    assert float(head.weight.detach().std()) == pytest.approx(1025**-0.5, rel=0.1)
    assert not bool(head.bias.any())


def test_the_value_function_begins_as_the_reward_model() -> None:
    experiment, stage = at_policy()
    episodes = stage.collect(1).episodes
    reward = experiment.handed.reward
    assert reward is not None
    expected = experiment.handed.normaliser(episodes.values(reward))
    torch.testing.assert_close(stage.values(episodes), expected)


def test_rewards_add_up_to_the_score_less_beta_times_k1() -> None:
    _, stage = at_policy()
    for _ in range(2):
        stage.step()
    rollout = stage.rollout
    assert rollout is not None
    k1 = ((rollout.logprobs - rollout.reference) * rollout.episodes.mask).sum(1)
    torch.testing.assert_close(rollout.rewards.sum(1), rollout.scores - 0.05 * k1)
    last = rollout.episodes.mask.sum(1) - 1
    others = rollout.rewards.clone().scatter_(1, last[:, None], 0.0)
    assert float(others.abs().max()) < 1.0  # the score is on the last token alone


def test_scores_of_samples_have_mean_0_and_deviation_1() -> None:
    experiment, _ = at_policy()
    texts = experiment.texts
    prompts = texts.prompts("normalising", 0, 256)
    episodes = texts.sample_answers(experiment.handed.fine_tuned, prompts, "normalising", 0)
    scores = experiment.handed.proxy(episodes)
    assert float(scores.mean()) == pytest.approx(0, abs=1e-4)
    assert float(scores.std()) == pytest.approx(1, abs=1e-3)
    shifted, _ = at_policy(rankings={"normalise": "demonstrations"})
    written = shifted.texts.pack_answers(shifted.texts.demonstrations("normalising", 256))
    assert float(shifted.handed.proxy(written).mean()) == pytest.approx(0, abs=1e-4)


def test_reinforcing_raises_what_was_scored_highly() -> None:
    """A sign that is flipped in the reward would lower it."""
    _, stage = at_policy(policy={"learning_rate": 3e-3, "steps": 12, "batch": 32, "betas": [0.0]})
    first = stage.collect(1).scores.mean()
    for _ in range(12):
        stage.step()
    assert stage.collect(99).scores.mean() > first + 0.3


def test_a_simulated_labeller_prefers_by_the_logistic_of_the_difference() -> None:
    draws, labeller = np.random.default_rng(0), SimulatedLabeller(noise=1.0)
    for difference in (0.0, 1.0, 2.5):
        wins = sum(labeller.rank([difference, 0.0], ["a", "b"], draws) == [1, 2] for _ in range(4000)) / 4000
        assert wins == pytest.approx(1 / (1 + np.exp(-difference)), abs=0.03)
    biased = SimulatedLabeller(noise=0.0, bias=1.0)
    assert biased.rank([0.0, 0.0], ["short", "a much longer answer"], draws) == [2, 1]
    assert SimulatedLabeller(noise=0.0, tie=0.5).rank([1.0, 0.8, -1.0], ["", "", ""], draws) == [1, 1, 3]


@pytest.mark.parametrize("name", TASKS)
def test_a_task_gives_prompts_demonstrations_and_scores_in_its_own_characters(name: str) -> None:
    task, draws = task_named(name), np.random.default_rng(0)
    assert task.gold is not None
    scores = []
    for _ in range(200):
        prompt = task.prompt(draws)
        answer = task.demonstrate(draws, prompt)
        assert set(prompt + answer) <= set(task.characters)
        scores.append(task.gold(prompt, answer))
    assert len(set(scores)) > 3
    with pytest.raises(LabError, match="reviews"):
        task_named("review")


def test_the_gold_score_counts_what_it_says() -> None:
    assert gold("", " warm, witty, wise") == 3
    assert gold("", " warm, warm, dull") == 1 - 1 - 1
    assert gold("", " warmth") == -1
    assert gold("", " old, early") == 0


def test_k_answers_of_a_prompt_are_compared_pairwise_before_prompts_are_averaged() -> None:
    scores = torch.tensor([[0.0, 0.0, 0.0, 0.0], [5.0, 0.0, 0.0, 0.0]])
    found = ranking_loss(scores, torch.tensor([[1, 2, 3, 4], [1, 2, 0, 0]]))
    assert float(found.loss) == pytest.approx((log(2) + log(1 + np.exp(-5))) / 2, rel=1e-5)


def test_records_of_a_file_are_learnt_from_and_only_people_judge_them(tmp_path: Any) -> None:
    file = tmp_path / "records.json"
    file.write_text('[{"instruction": "a", "input": "b", "output": "c"}, {"instruction": "d", "output": "e"}]')
    task = {"source": "file", "records": str(file), "tokens": 4}
    experiment = made(task=task, model={"context": 80}, rankings={"steps": 0}, policy={"steps": 0})
    assert set(experiment.texts.prompts("x", 0, 20)) == {
        "### Instruction:\na\n### Input:\nb\n### Response:\n", "### Instruction:\nd\n### Response:\n"
    }  # fmt: skip
    experiment.step()
    with pytest.raises(ValueError, match="these records have no known criterion of a good answer"):
        made(task=task, model={"context": 80})
