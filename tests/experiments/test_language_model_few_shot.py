"""Tasks that are new in every sequence: what is asked, what is held out, what is measured (MATH T13)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from decided import DECIDED

from txlab.errors import LabError
from txlab.experiments.kinds.language_model import KIND
from txlab.experiments.kinds.language_model.data import build_data
from txlab.experiments.kinds.language_model.few_shot import FewShotData, best_possible
from txlab.experiments.kinds.language_model.schema import LanguageModelScenario
from txlab.experiments.learning.text_data import NOT_SCORED


def scenario(vocabulary: int = 12, context: int = 17, **changes: Any) -> LanguageModelScenario:
    sections: dict[str, Any] = {
        "seed": 2,
        "data": {"source": "few-shot", "vocabulary": vocabulary},
        "model": {"layers": 2, "heads": 2, "width": 16, "context": context, "positions": "rotary"},
        "train": {"steps": 40, "batch": 32, "warmup": 5, "validation_batches": 4},
        "sampling": {"prompts": ["aGbAa"], "tokens": 1},
        "probe": {"positions": 12},
        "compute": DECIDED | {"attention": "matmul"},
    }
    for name, section in changes.items():
        sections[name] = {**sections[name], **section}
    return LanguageModelScenario.model_validate(sections)


def made(vocabulary: int = 12, context: int = 17) -> FewShotData:
    data = build_data(scenario(vocabulary, context, sampling={"prompts": ["aA"]}))
    assert isinstance(data, FewShotData)
    return data


def pairs_of(data: FewShotData, inputs: list[int], targets: list[int]) -> list[tuple[str, str]]:
    """(letter, its answer) of a sequence as its text tells them."""
    return [(data.decode([x]), data.decode([y])) for x, y in zip(inputs[::2], targets[::2], strict=True)]


@pytest.mark.parametrize(("vocabulary", "context"), [(12, 17), (6, 3), (39, 40)])
def test_a_sequence_is_pairs_of_one_map_and_every_answer_is_asked_for(vocabulary: int, context: int) -> None:
    data = made(vocabulary, context)
    for batch in (data.train_batch(3), *data.validation_batches()):
        assert batch.inputs.shape == batch.targets.shape == (32, context)
        for inputs, targets in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True):
            asked = [place for place, target in enumerate(targets) if target != NOT_SCORED]
            assert asked == list(range(0, 2 * data.pairs, 2))
            answers: dict[str, str] = {}
            for letter, answer in pairs_of(data, inputs[: 2 * data.pairs], targets[: 2 * data.pairs]):
                assert letter.islower()
                assert answer.isupper()
                assert answers.setdefault(letter, answer) == answer
            shown = data.decode(inputs)
            assert all(shown[place + 1 : place + 2] in ("", data.decode([targets[place]])) for place in asked)


def test_maps_of_validation_are_never_trained() -> None:
    """On so few maps that all of them come: which are drawn where is seen from the answers alone."""
    data = made(6)  # 2 letters, 4 capitals: 16 maps
    seen: dict[bool, set[tuple[int, ...]]] = {False: set(), True: set()}
    for unseen in (False, True):
        for seed in range(20):
            seen[unseen] |= set(map(tuple, data.maps(np.random.default_rng(seed), 100, unseen).tolist()))
    assert not seen[False] & seen[True]
    assert len(seen[False] | seen[True]) == 16
    many = made(39)
    shares = [many.maps(np.random.default_rng(1), 2000, unseen).mean() for unseen in (False, True)]
    assert shares == pytest.approx([12.5, 12.5], abs=0.3)  # what is held out is no special kind of map


def test_about_an_eighth_of_all_maps_is_held_out() -> None:
    from itertools import product

    from txlab.experiments.kinds.language_model.few_shot import is_held_out

    everything = np.array(list(product(range(8), repeat=4)))
    assert is_held_out(everything).mean() == pytest.approx(1 / 8, abs=0.02)


@pytest.mark.parametrize("vocabulary", range(6, 13))
def test_there_are_maps_of_both_kinds_however_few_symbols(vocabulary: int) -> None:
    from itertools import product

    from txlab.experiments.kinds.language_model.few_shot import is_held_out

    letters = vocabulary // 3
    found = is_held_out(np.array(list(product(range(vocabulary - letters), repeat=letters))))
    assert 0 < found.sum() < len(found)  # or drawing one would never end


def test_the_best_possible_is_what_looking_up_in_the_prompt_gets() -> None:
    """Played through: an answer that was shown is repeated, any other guessed."""
    data = made()
    random = np.random.default_rng(0)
    right = np.zeros(data.pairs)
    rows, _ = data.sequences(np.random.default_rng(5), 4000, unseen=True)
    for row in rows.tolist():
        known: dict[int, int] = {}
        for k in range(data.pairs):
            letter, answer = row[2 * k], row[2 * k + 1]
            guess = known.get(letter, data.letters + int(random.integers(data.answers)))
            right[k] += guess == answer
            known[letter] = answer
    wanted = [best_possible(k, data.letters, data.answers) for k in range(data.pairs)]
    np.testing.assert_allclose(right / 4000, wanted, atol=0.03)
    assert data.facts()["corpus"]["best_possible"]["accuracy_4"] == wanted[4]


def test_accuracy_is_counted_at_the_question_after_n_examples() -> None:
    experiment = KIND.build(scenario(train={"learning_rate": 1e-2}))
    for _ in range(40):
        experiment.step()
    metrics = experiment.evaluate()
    assert len({metrics[f"accuracy_{k}"] for k in (0, 1, 2, 4)}) == 4  # not one number for all, which any mistake has
    right = dict.fromkeys((0, 1, 2, 4, 8), 0)
    rows = 0
    for batch in experiment.data.validation_batches():
        for inputs, targets in zip(batch.inputs, batch.targets, strict=True):
            rows += 1
            for k in right:  # from the prompt alone: k examples and the question, nothing behind it
                with torch.no_grad():
                    said = experiment.model(inputs[None, : 2 * k + 1])[0, -1].argmax()
                right[k] += int(said == targets[2 * k])
    for k, count in right.items():
        assert metrics[f"accuracy_{k}"] == pytest.approx(count / rows)


def test_batches_are_functions_of_seed_and_step_and_training_resumes_bit_for_bit() -> None:
    whole, parts = KIND.build(scenario()), KIND.build(scenario())
    losses = [whole.step()["loss"] for _ in range(10)]
    for _ in range(6):
        parts.step()
    fresh = KIND.build(scenario())
    fresh.load_state_dict(parts.state_dict())
    assert [fresh.step()["loss"] for _ in range(4)] == losses[6:]
    assert fresh.evaluate() == whole.evaluate()
    sample = whole.samples()[0]
    assert sample.prompt == "aGbAa"
    assert len(sample.text) == 1


def test_its_checkpoint_opens() -> None:
    experiment = KIND.build(scenario())
    opened = KIND.open_model(scenario(), experiment.state_dict())
    assert opened.tokenizer.decode(opened.tokenizer.encode("aGbAc")) == "aGbAc"
    assert len(opened.example) >= 2


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"data": {"vocabulary": 5}}, r"data\.vocabulary = 5 does not suit the few-shot task; allowed: 6 … 39"),
        ({"data": {"vocabulary": 40}}, r"data\.vocabulary = 40 does not suit"),
        ({"model": {"context": 2}}, r"model\.context = 2 is too short for an example and a question; at least 3"),
        ({"sampling": {"prompts": ["aZ"]}}, r"'Z' is not a symbol of the few-shot task; allowed: abcdABCDEFGH"),
        ({"sampling": {"prompts": [""]}}, r"sampling\.prompts has ''"),
        ({"probe": {"text": "a"}}, r"probe\.text = 'a' has 1 token"),
    ],
)
def test_unsuitable_settings_are_reported(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(LabError, match=sentence):
        build_data(scenario(**changes))


def test_an_accuracy_is_explained_with_the_best_possible() -> None:
    from txlab.experiments.kind import explain_metric

    experiment = KIND.build(scenario())
    values = {name: float(value) for name, value in experiment.evaluate().items()}
    told = explain_metric(scenario().model_dump(), "accuracy_4", 0, values, experiment.facts())
    assert told is not None
    assert told.result == values["accuracy_4"]
    assert {step.name: step.result for step in told.steps}["best"] == pytest.approx(best_possible(4, 4, 8))
