"""A private choice, outcome by outcome, and what its range costs in Gaussian DP."""

import numpy as np
from scipy.stats import norm


def probabilities(losses: np.ndarray, width: float, eta: float, favoured: int | None = None) -> np.ndarray:
    """Of each point ``(m,)``, of the ideal mechanism: no grid."""
    weights = []
    for j in range(len(losses)):
        lost = 0.0
        for i in range(losses.shape[1]):
            own = [value for value in losses[:, i] if np.isfinite(value)]
            if not np.isfinite(losses[j, i]):
                lost += 1.0
            else:
                lost += min((losses[j, i] - min(own)) / width, 1.0)
        weights.append(-eta / 2 * lost)
    found = np.exp(np.array(weights) - max(weights))
    if favoured is not None:
        found[favoured] *= max(len(losses) - 1, 1)
    return found / found.sum()


def mu_of_pair(eta: float, t: float) -> float:
    """The GDP level of two binary outcomes whose log-ratios are ``t`` and ``t - eta``."""
    q = -np.expm1(t - eta) / (np.exp(t) - np.exp(t - eta))
    return float(norm.ppf(np.exp(t) * q) - norm.ppf(q))
