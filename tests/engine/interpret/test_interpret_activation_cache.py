"""What is seen is what the model did, formed from queries and keys alone (MATH T1)."""

import math
from collections.abc import Sequence

import pytest
import torch
from interpret_models import MODELS, PAIR, TEXT, model_named, text_for
from torch import Tensor

from txlab.engine.interpret.activation_cache import (
    ActivationCache,
    induction_scores,
    previous_token_scores,
    run_with_cache,
)
from txlab.engine.interpret.interventions import Edge, Erratum, Intervention, Patch, ScaleHead
from txlab.engine.interpret.sites import Model, Text, run, sites
from txlab.engine.transformer.gpt import GPT, GPTShape
from txlab.engine.transformer.hooks import Hooks, keeping
from txlab.errors import LabError

CLOSE = {"atol": 1e-12, "rtol": 0}


def patterns_in(model: Model, text: Text) -> dict[str, Tensor]:
    """Site → (L, H, T, S), kept whole while the model ran."""
    hooks, kept = keeping("*.pattern")
    run(model, text, hooks)
    return {
        site.name: torch.cat([kept[site.at(layer, "pattern")] for layer in range(site.layers)]) for site in sites(model)
    }


def whole(seen: ActivationCache, site: str) -> Tensor:
    found = seen.sites[site]
    return torch.stack(
        [torch.stack([seen.pattern(site, layer, head) for head in range(found.heads)]) for layer in range(found.layers)]
    )


@pytest.mark.parametrize("name", MODELS)
def test_patterns_windows_and_sums_are_those_of_the_model(name: str) -> None:
    model = model_named(name).train()
    text = text_for(model)
    seen, kept = run_with_cache(model, text), patterns_in(model, text)
    assert model.training
    assert all(module.training for module in model.modules())
    torch.testing.assert_close(seen.logits, run(model, text), **CLOSE)
    assert set(seen.sites) == set(kept)
    for site, patterns in kept.items():
        torch.testing.assert_close(whole(seen, site), patterns, **CLOSE)
        torch.testing.assert_close(seen.patterns(site), patterns, **CLOSE)
        window = seen.pattern(site, 1, 1, slice(2, 5), slice(1, 4))
        torch.testing.assert_close(window, patterns[1, 1, 2:5, 1:4], **CLOSE)
        torch.testing.assert_close(seen.row(site, 0, 1, 3), patterns[0, 1, 3], **CLOSE)
        torch.testing.assert_close(seen.row(site, 0, 1, -1), patterns[0, 1, -1], **CLOSE)
        torch.testing.assert_close(seen.average(site, 1), patterns[1].mean(0), **CLOSE)
        torch.testing.assert_close(
            seen.average(site, None, slice(1, 3), slice(0, 2)), patterns[:, :, 1:3, :2].mean((0, 1)), **CLOSE
        )
        torch.testing.assert_close(seen.row_sums(site, 0, 0), patterns[0, 0].sum(-1), **CLOSE)
        torch.testing.assert_close(
            seen.row_sums(site, 0, 0, without_first=True), patterns[0, 0, :, 1:].sum(-1), **CLOSE
        )
        torch.testing.assert_close(seen.attention_received(site, 0, 1), patterns[0, 1].mean(0), **CLOSE)


@pytest.mark.parametrize("pool", ["max", "mean"])
@pytest.mark.parametrize("name", ["gpt", "translator"])
def test_a_thumbnail_pools_each_tile_and_misses_nothing(name: str, pool: str) -> None:
    model = model_named(name)
    text = text_for(model)
    seen = run_with_cache(model, text)
    for site, patterns in patterns_in(model, text).items():
        T, S = patterns.shape[-2:]
        for layer, small in seen.all_thumbnails(site, 3, pool):
            for a in range(3):
                for b in range(3):
                    tile = patterns[layer, :, a * T // 3 : (a + 1) * T // 3, b * S // 3 : (b + 1) * S // 3]
                    expected = tile.amax((1, 2)) if pool == "max" else tile.mean((1, 2))
                    torch.testing.assert_close(small[:, a, b], expected, **CLOSE)
        torch.testing.assert_close(seen.thumbnails(site, 0, 99, pool), patterns[0], **CLOSE)
    with pytest.raises(LabError, match="max or mean"):
        seen.thumbnails(site, 0, 3, "median")


def test_the_scores_of_heads_are_those_of_whole_patterns() -> None:
    model = GPT(GPTShape(2, 2, 8, 200, 11)).double()
    torch.manual_seed(0)
    for parameter in model.parameters():
        parameter.data.normal_(0, 0.4)
    text = Text(tuple(torch.randint(11, (150,)).tolist()))  # several bands of rows
    patterns = patterns_in(model, text)["self"]
    found = run_with_cache(model, text).scores("self")
    torch.testing.assert_close(found["previous"], previous_token_scores(patterns), **CLOSE)
    torch.testing.assert_close(found["induction"], induction_scores(patterns, text.ids), **CLOSE)
    torch.testing.assert_close(found["first"], patterns[:, :, 1:, 0].mean(-1), **CLOSE)
    rows = [i for i in range(150) if text.ids[i] in text.ids[:i]]
    same = [sum(patterns[..., i, j] for j in range(i) if text.ids[j] == text.ids[i]) for i in rows]
    torch.testing.assert_close(found["duplicate"], torch.stack(same).mean(0), **CLOSE)


def test_scores_that_mean_nothing_are_nan_or_left_out() -> None:
    assert set(run_with_cache(model_named("translator"), text_for(model_named("translator"))).scores("cross")) == {
        "first"
    }
    alone = run_with_cache(model_named("gpt"), Text((3,))).scores("self")
    assert all(bool(values.isnan().all()) for values in alone.values())
    once = run_with_cache(model_named("gpt"), Text((3, 4, 5))).scores("self")
    assert bool(once["induction"].isnan().all())
    assert not bool(once["previous"].isnan().any())


PATCHED = [Patch("blocks.0.attention.pattern", 4, head=1), Patch("blocks.1.attention.scores", 5, 3)]


@pytest.mark.parametrize(
    "interventions",
    [
        [ScaleHead("self", 0, 1, 0.0)],
        [Edge("self", None, None, 5, 2), Edge("self", 1, 0, 3, 7, True)],
        [*PATCHED, Patch("blocks.1.resid_pre", 2)],
        [Erratum("softmax-over-matrix")],
        [Erratum("scaled-output"), Edge("self", 1, 1, 4, 4), ScaleHead("self", 0, 0, 2.0)],
        [Erratum("batch-statistics")],
    ],
)
def test_patterns_under_interventions_are_those_of_the_changed_model(interventions: Sequence[Intervention]) -> None:
    from txlab.engine.interpret.interventions import intervening, together

    model, text = model_named("gpt"), text_for(model_named("gpt"))
    second = Text(tuple(reversed(text.ids)))
    hooks, kept = keeping("*.pattern")
    with intervening(model, text, interventions, second) as reaching:
        logits = run(model, text, together(reaching, hooks))
    seen = run_with_cache(model, text, interventions, second)
    torch.testing.assert_close(seen.logits, logits, **CLOSE)
    for layer in (1, 0, 1):
        for head in range(2):
            expected = kept[f"blocks.{layer}.attention.pattern"][0, head]
            torch.testing.assert_close(seen.pattern("self", layer, head), expected, **CLOSE)
            window = seen.pattern("self", layer, head, slice(3, 6), slice(2, 8))
            torch.testing.assert_close(window, expected[3:6, 2:8], **CLOSE)
    assert (seen.logits - run(model, text)).abs().max() > 1e-3


@pytest.mark.parametrize(
    ("name", "erratum"),
    [("bert", "unscaled-scores"), ("translator", "unscaled-scores"), ("translator", "query-from-encoder")],
)
def test_errata_of_encoders_are_seen_as_they_act(name: str, erratum: str) -> None:
    from txlab.engine.transformer.variants import switch_on

    model, keep = model_named(name), keeping("*.pattern", "logits")
    text = Text(PAIR.ids[:5], PAIR.target) if name == "translator" else TEXT
    with switch_on(erratum, model, keep[0]) as hooks:
        run(model, text, hooks)
    before = run(model, text)
    seen, kept = run_with_cache(model, text, [Erratum(erratum)]), keep[1]
    torch.testing.assert_close(seen.logits, kept["logits"][0], **CLOSE)
    assert (seen.logits - before).abs().max() > 1e-4
    torch.testing.assert_close(run(model, text), before, **CLOSE)  # nothing is left of it
    for site in seen.sites.values():
        torch.testing.assert_close(seen.pattern(site.name, 1, 0), kept[site.at(1, "pattern")][0, 0], **CLOSE)


def test_further_hooks_act_after_the_interventions() -> None:
    model = model_named("gpt")
    hooks = Hooks({"*.pattern": lambda name, alpha: torch.ones_like(alpha) / 10})
    seen = run_with_cache(model, text_for(model), hooks=hooks)
    torch.testing.assert_close(seen.pattern("self", 1, 0), torch.full((10, 10), 0.1, dtype=torch.float64))


def test_the_likeliest_next_tokens_come_first() -> None:
    seen = run_with_cache(model_named("gpt"), Text((1, 2, 3)))
    ids, probabilities = seen.following(1, 4)
    expected = seen.logits[1].softmax(-1)
    assert ids.tolist() == expected.argsort(descending=True)[:4].tolist()
    torch.testing.assert_close(probabilities, expected[ids])
    assert math.isclose(float(seen.probabilities().sum()), 1.0, rel_tol=1e-9)


def test_what_cannot_be_shown_is_reported() -> None:
    model, pair = model_named("gpt"), model_named("translator")
    for wrong, part in [
        (Text(()), "no tokens"),
        (Text((1,) * 13), "at most 12"),
        (Text((1, 11)), "0 to 10"),
        (Text((1,), (2,)), "one text alone"),
    ]:
        with pytest.raises(LabError, match=part):
            run_with_cache(model, wrong)
    with pytest.raises(LabError, match="no target"):
        run_with_cache(pair, Text((1, 2)))
    seen = run_with_cache(model, Text((1, 2)))
    with pytest.raises(LabError, match=r"no head 3\.1; allowed: 1\.1 to 2\.2"):
        seen.pattern("self", 2, 0)
    with pytest.raises(LabError, match="there is: self"):
        seen.pattern("cross", 0, 0)
