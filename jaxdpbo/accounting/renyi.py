"""Renyi divergences of DP-SGD with batches without replacement, replace-one: the dominating pair's, and the paper's.

``rate`` is ``q = m / n`` and ``z`` the noise multiplier (noise over the sensitivity ``2 L / m``). ``pair_divergences``
takes the pair of ``sampling``. ``published_divergence`` is theorem 27 of Wang, Balle and Kasiviswanathan (2019), as
used by Avent et al. (2020) and dp-accounting, and is never smaller.
"""

import math
from functools import lru_cache
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

Vector = NDArray[np.floating[Any]]
ORDERS = 1.0 + np.geomspace(0.01, 1e4, 90)
MAX_DEVIATIONS = 2000.0  # longest reach of an order's integral, in standard deviations


def pair_epsilon(rate: float, z: float, steps: int, delta: float) -> float:
    """Return the least ``epsilon`` over ``ORDERS`` for the dominating pair."""
    return renyi_epsilon(ORDERS, steps * pair_divergences(rate, z), delta)


@lru_cache(maxsize=1024)
def pair_divergences(rate: float, z: float) -> Vector:
    """Return read-only divergences at ``ORDERS``; infinite where the integral would reach too far."""
    divergences = np.full(len(ORDERS), np.inf)
    near = (ORDERS + 1) / z + 12 <= MAX_DEVIATIONS
    divergences[near] = _divergences(rate, z, ORDERS[near])
    divergences.setflags(write=False)
    return divergences


def _divergences(rate: float, z: float, orders: Vector) -> Vector:
    """Compute ``log(int_{w > mu/2} phi(w) (e^(a L) + e^((1 - a) L)) dw + (1 - q) (2 Phi(mu / 2) - 1)) / (a - 1)``.

    Orders ``a > 1`` increase. All orders share a grid; each sum stops where its integrand vanishes.
    """
    mu = 1 / z
    pieces = np.ceil(2 * ((orders + 0.5) * mu + 12)).astype(int)
    w, weights = panels(mu / 2 + 0.5 * np.arange(np.max(pieces, initial=0) + 1))
    size = privacy_loss(rate, mu, w)
    density = -(w**2) / 2 - 0.5 * math.log(2 * math.pi) + np.log(weights)
    atom = math.log1p(-rate) + math.log(scipy.special.erf(mu / math.sqrt(8.0))) if rate < 1 else -math.inf
    divergences = np.empty(len(orders))
    for number, (order, end) in enumerate(zip(orders.tolist(), pieces.tolist(), strict=True)):
        losses = size[:end]
        powers = order * losses + density[:end]
        largest = float(np.max(powers))
        integral = np.sum(np.exp(powers - largest) * (1 + np.exp((1 - 2 * order) * losses)))
        total = np.logaddexp(largest + math.log(integral), atom)
        divergences[number] = max(float(total), 0.0) / (order - 1)
    return divergences


def published_divergence(rate: float, z: float, orders: NDArray[np.int64]) -> Vector:
    """Return theorem 27 of Wang et al. at whole ``orders`` from 2 on.

    ``log(1 + sum_{j=2}^a C(a, j) q^j zeta_j) / (a - 1)``, ``zeta_2 = min(4 (e^(1/z^2) - 1), 2 e^(1/z^2))``,
    ``zeta_j = min(4 sqrt(B_(2 floor(j/2)) B_(2 ceil(j/2))), 2 e^(j (j-1) / (2 z^2)))``,
    ``B_l = E (e^(x/z - 1/(2 z^2)) - 1)^l`` of a standard normal ``x``.
    """
    most = int(np.max(orders))
    j = np.arange(2, most + 1)
    even = 2 * np.arange(1, most // 2 + 2)
    log_even = {int(power): value for power, value in zip(even, _even_moments(z, even), strict=True)}
    squares = np.array([log_even[2 * (k // 2)] + log_even[2 * ((k + 1) // 2)] for k in j.tolist()])
    log_zeta = np.minimum(math.log(4) + 0.5 * squares, math.log(2) + j * (j - 1) / (2 * z**2))
    log_zeta[0] = min(math.log(4) + _log_expm1(1 / z**2), math.log(2) + 1 / z**2)
    divergences = []
    for order in orders.tolist():
        terms = j[: order - 1]
        log_factorial = scipy.special.gammaln
        choose = log_factorial(order + 1) - log_factorial(terms + 1) - log_factorial(order - terms + 1)
        total = log_sum(np.append(choose + terms * math.log(rate) + log_zeta[: order - 1], 0.0))
        divergences.append(float(total) / (order - 1))
    return np.array(divergences)


def published_epsilon(rate: float, z: float, steps: int, delta: float) -> float:
    """Return the paper's ``epsilon``: theorem 27 at whole orders to 256, by the conversion of its time."""
    orders = np.arange(2, 257)
    return renyi_epsilon(orders, steps * published_divergence(rate, z, orders), delta, "classic")


def renyi_epsilon(orders: NDArray[Any], divergences: Vector, delta: float, conversion: str = "improved") -> float:
    """Convert Renyi divergences at several orders to the least ``epsilon`` at ``delta``.

    "improved" is Canonne, Kamath and Steinke (2020), proposition 12: ``+ log(1 - 1/a) - log(delta a) / (a - 1)``;
    "classic", of Mironov (2017) and the paper, is ``+ log(1 / delta) / (a - 1)``.
    """
    if conversion == "classic":
        epsilons = divergences - math.log(delta) / (orders - 1)
    else:
        epsilons = divergences + np.log1p(-1 / orders) - np.log(delta * orders) / (orders - 1)
    return max(float(np.min(epsilons)), 0.0)


def renyi_delta(orders: NDArray[Any], divergences: Vector, epsilon: float) -> float:
    """Return the least ``delta`` over some orders: the inverse of ``renyi_epsilon`` with "improved"."""
    logarithms = (orders - 1) * (divergences + np.log1p(-1 / orders) - epsilon) - np.log(orders)
    return math.exp(min(float(np.min(logarithms)), 0.0))


def privacy_loss(rate: float, mu: float, w: Vector) -> Vector:
    """Return the loss ``L(w)`` of the pair, ``w >= mu / 2``: see ``sampling``."""
    t = np.maximum(mu * w - mu**2 / 2, 0.0)
    if np.max(t, initial=0.0) < 700:  # no exponential is infinite
        return np.log1p(rate * np.expm1(t))
    small = np.minimum(t, 30.0)
    return np.where(t < 30, np.log1p(rate * np.expm1(small)), t + np.log(rate + (1 - rate) * np.exp(-t)))


def panels(edges: Vector) -> tuple[Vector, Vector]:
    """Return Gauss-Legendre nodes and weights ``(k, 8)`` between consecutive edges."""
    width = np.diff(edges)[:, None]
    return edges[:-1, None] + width * _NODES, width * _WEIGHTS


def rule(nodes: int) -> tuple[Vector, Vector]:
    """Return Gauss-Legendre nodes and weights on [0, 1]."""
    places, weights = np.polynomial.legendre.leggauss(nodes)
    return (places + 1) / 2, weights / 2


_NODES, _WEIGHTS = rule(8)


def log_sum(logarithms: Vector) -> Vector:
    """Apply SciPy's ``logsumexp`` to the last axis, typed without its optional sign."""
    return np.asarray(scipy.special.logsumexp(logarithms, axis=-1))


def _even_moments(z: float, powers: NDArray[np.int64]) -> Vector:
    """Return ``log B_l`` by quadrature: nothing cancels, unlike in forward differences."""
    far = float(powers[-1]) / z + 12
    edges = np.linspace(-12.0, far, 1 + math.ceil(2 * (far + 12)))
    x, weights = map(np.ravel, panels(edges))
    density = np.log(weights) - 0.5 * math.log(2 * math.pi) - x**2 / 2
    with np.errstate(divide="ignore"):
        t = x / z - 1 / (2 * z**2)
        size = np.where(t > 30, t, np.log(np.abs(np.expm1(np.minimum(t, 30)))))
    return np.array([float(log_sum(density + power * size)) for power in powers.tolist()])


def _log_expm1(x: float) -> float:
    return x + math.log(-math.expm1(-x))
