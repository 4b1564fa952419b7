"""The sparse vector technique (Lyu, Su and Li 2017, algorithm 7, answers without values; Avent et al. 2020, section 4).

The threshold has Laplace noise of scale ``b1``, each query of scale ``b2``, queries move by at most 1 between
neighbours, and the mechanism stops after ``C`` answers above: ``epsilon = 1 / b1 + 2 C / b2``, ``delta = 0``.
"""

from jaxdpbo import _checks


def split_noise(noise: float, answers: int) -> tuple[float, float]:
    """``(b1, b2)`` of total ``b``, in the ratio ``1 : (2 C)^(1/3)``: least noise in a comparison for what it spends.

    Raises:
      TypeError: ``answers`` is not a whole number: the proof counts releases.
      ValueError: ``noise`` is not positive, or too small to be split; ``answers`` under 1.
    """
    total = _checks.positive("noise", noise)
    threshold = total / (1.0 + (2.0 * _checks.size("answers", answers)) ** (1 / 3))
    if not 0 < threshold < total:
        raise ValueError(f"noise must be a number that floats can split, got {total}")
    return threshold, total - threshold


def sparse_vector_epsilon(noise: float, answers: int) -> float:
    """``1 / b1 + 2 C / b2 = (1 + (2 C)^(1/3)) (1 + (2 C)^(2/3)) / b`` for that split."""
    threshold, queries = split_noise(noise, answers)
    return 1.0 / threshold + 2.0 * _checks.size("answers", answers) / queries
