"""Selections over levels among finitely many outcomes, by NumPy alone: distributions, and what an attacker gains."""

import numpy as np


def law(eta, gamma, count):
    """Probabilities of ``1, ..., count`` runs: a negative binomial distribution without its 0."""
    k = np.arange(1, count)
    steps = (1 - gamma) * (k + eta) / (k + 1)
    shape = np.concatenate([[1.0], np.cumprod(steps)])
    return shape / np.sum(shape)


def best_of(chances, groups):
    """The distribution of the best of ``K`` runs.

    Args:
      chances: of ``1, 2, ...`` runs.
      groups: probabilities of one run's outcomes, a group of equally good outcomes each, the best group first.
    """
    totals = np.array([np.sum(group) for group in groups])
    worse = np.clip(1 - np.concatenate([[0.0], np.cumsum(totals)]), 0.0, 1.0)
    generated = np.array([np.sum(chances * x ** np.arange(1, len(chances) + 1)) for x in worse])
    best = generated[:-1] - generated[1:]
    parts = [
        chance * group / total if total > 0 else 0 * group
        for chance, group, total in zip(best, groups, totals, strict=True)
    ]
    return np.concatenate(parts)


def excess(first, second, epsilons):
    """The delta that an attacker needs who is allowed the epsilon of each outcome."""
    return float(np.sum(np.maximum(first - np.exp(np.minimum(epsilons, 700.0)) * second, 0)))


def profile(first, second):
    """The larger of both directions' divergences, at an epsilon."""

    def at(epsilon):
        return max(excess(first, second, epsilon), excess(second, first, epsilon))

    return at
