"""TD(λ) with a network: as a linear unit, as Monte Carlo, and many at once (MATH M4)."""

import numpy as np
import pytest
import torch
from small_walks import some_episodes, walk
from torch import Tensor, nn

from txlab.engine.rl.features import radial, tabular
from txlab.engine.rl.network import NetworkSweep, NetworkTD, perceptron
from txlab.engine.rl.prediction import METHODS
from txlab.engine.rl.prediction_sweep import PredictionSettings, PredictionSweep
from txlab.engine.rl.returns import returns
from txlab.engine.rl.rollouts import Rollouts

SETTINGS = PredictionSettings(np.array([0.1, 0.3, 0.05]), np.array([0.0, 0.8, 1.0]), 0.9)


def made(seed: int, hidden: int = 5) -> nn.Module:
    return perceptron(4, hidden, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("limit", [0, 8])
def test_without_hidden_units_it_is_the_linear_unit(limit: int) -> None:
    features = radial(7, 4)
    networks = NetworkSweep(features, np.arange(5), SETTINGS, hidden=0)
    linear = PredictionSweep("accumulating", features, 5, SETTINGS)
    first = next(iter(networks.learner.parameters.values()))  # (M·K, 1, D)
    linear.weights = first.numpy().reshape(5, 3, 4).swapaxes(1, 2).copy()
    one, other = Rollouts(walk(5, 0, 1, limit), np.arange(5)), Rollouts(walk(5, 0, 1, limit), np.arange(5))
    for _ in range(4):
        networks.learn(one.episodes())
        linear.learn(other.episodes())
    assert networks.values() == pytest.approx(linear.values(), rel=1e-10, abs=1e-12)


def test_offline_with_lambda_1_it_is_the_gradient_of_the_monte_carlo_error() -> None:
    """Σₜ δₜ eₜ = −∂/∂w ½ Σₜ [Gₜ − O(sₜ)]², by autograd."""
    modules = [made(1), made(2)]
    episode = some_episodes(walk(5, -1, 1), 1)[0]
    x = torch.from_numpy(radial(7, 4).matrix)[episode.states]
    found = NetworkTD(modules, [0.1, 0.1], [1.0, 1.0], 1.0).offline(x, torch.from_numpy(episode.rewards), ended=True)
    gains = torch.from_numpy(returns(episode.rewards, 1.0))
    for row, module in enumerate(modules):
        module.zero_grad()
        (0.5 * ((gains - module(x[:-1]).squeeze(-1)) ** 2).sum()).backward()
        for name, parameter in module.named_parameters():
            assert torch.allclose(found[name][row], -parameter.grad, rtol=1e-9, atol=1e-12)  # type: ignore[operator]


def test_offline_sums_of_a_linear_network_are_those_of_the_linear_unit() -> None:
    features, episode = radial(7, 4), some_episodes(walk(5, -1, 1), 1)[0]
    module = made(3, hidden=0)
    w = next(module.parameters()).detach().numpy()[0].copy()
    x = torch.from_numpy(features.matrix)[episode.states]
    change = NetworkTD([module], [0.1], [0.6], 0.9).offline(x, torch.from_numpy(episode.rewards), ended=True)
    wanted = METHODS["offline-sum"].rule(w, features, episode, 1.0, 0.6, 0.9) - w
    assert next(iter(change.values()))[0, 0].numpy() == pytest.approx(wanted, rel=1e-10)


def by_autograd(module: nn.Module, alpha: float, lam: float, x: Tensor, rewards: Tensor, ended: bool) -> None:
    """On-line TD(λ) of one network, with autograd a step; changes the module."""
    traces = [torch.zeros_like(p) for p in module.parameters()]
    for t, reward in enumerate(rewards):
        module.zero_grad()
        here = module(x[t]).squeeze()
        here.backward()
        with torch.no_grad():
            there = 0.0 if ended and t == len(rewards) - 1 else module(x[t + 1]).squeeze()
            delta = reward + 0.9 * there - here
            for e, p in zip(traces, module.parameters(), strict=True):
                e.mul_(0.9 * lam).add_(p.grad)  # type: ignore[arg-type]
                p.add_(alpha * delta * e)


def test_networks_in_a_batch_equal_each_network_alone() -> None:
    features, runs = tabular(7), 3
    sweep = NetworkSweep(features, np.arange(runs), SETTINGS, hidden=6)
    rollouts = Rollouts(walk(5, 0, 1), np.arange(runs))
    alone = [[perceptron(7, 6, torch.Generator().manual_seed(run)) for _ in SETTINGS.alphas] for run in range(runs)]
    for _ in range(3):  # three episodes: the traces of one must not go over into the next
        episodes = rollouts.episodes()
        sweep.learn(episodes)
        for run in range(runs):
            lived = episodes.of(run)
            x = torch.from_numpy(features.matrix)[lived.states]
            for k in range(3):
                by_autograd(
                    alone[run][k],
                    float(SETTINGS.alphas[k]),
                    float(SETTINGS.depths[k]),
                    x,
                    torch.from_numpy(lived.rewards),
                    lived.ended,
                )
    with torch.no_grad():
        wanted = [[m(torch.from_numpy(features.matrix)).squeeze(-1).numpy() for m in row] for row in alone]
    assert sweep.values() == pytest.approx(np.array(wanted).swapaxes(1, 2), rel=1e-9, abs=1e-12)


def test_an_episode_of_a_network_is_what_the_rule_says_in_numpy() -> None:
    """O(s) = w₂ · tanh(W₁ x + b₁) + b₂ with its gradient by hand: δ, e and w of each transition, for each α and λ."""
    features = radial(7, 4)
    sweep = NetworkSweep(features, np.arange(2), SETTINGS, hidden=3)
    before = {name: value.numpy().copy() for name, value in sweep.learner.parameters.items()}
    episodes = Rollouts(walk(5, -1, 1), np.arange(2)).episodes()
    sweep.learn(episodes)
    for run in range(2):
        lived = episodes.of(run)
        for k, (alpha, lam) in enumerate(zip(SETTINGS.alphas, SETTINGS.depths, strict=True)):
            W, b, w, c = (before[name][3 * run + k] for name in ("0.weight", "0.bias", "2.weight", "2.bias"))
            traces = [np.zeros_like(each) for each in (W, b, w, c)]
            for t, reward in enumerate(lived.rewards):
                x, following = features.matrix[lived.states[t]], features.matrix[lived.states[t + 1]]
                h = np.tanh(W @ x + b)
                is_last = lived.ended and t == len(lived.rewards) - 1
                there = 0.0 if is_last else (w @ np.tanh(W @ following + b) + c)[0]
                delta = reward + 0.9 * there - (w @ h + c)[0]
                back = w[0] * (1 - h**2)
                gradients = (np.outer(back, x), back, h[None], np.ones(1))
                traces = [0.9 * lam * e + g for e, g in zip(traces, gradients, strict=True)]
                W, b, w, c = (each + alpha * delta * e for each, e in zip((W, b, w, c), traces, strict=True))
            found = [sweep.learner.parameters[name][3 * run + k].numpy() for name in before]
            for ours, theirs in zip((W, b, w, c), found, strict=True):
                assert theirs == pytest.approx(ours, rel=1e-10, abs=1e-13)
