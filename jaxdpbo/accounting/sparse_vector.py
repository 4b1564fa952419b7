"""The sparse vector technique (Lyu, Su and Li 2017, algorithm 7, answers without values; Avent et al. 2020, section 4).

The threshold has Laplace noise of scale ``b1``, each query of scale ``b2``. A user moves a query by at most ``QUERY``,
and its difference from the threshold by ``sensitivity.between_scores(QUERY)``. The mechanism stops after ``C`` answers
above: ``epsilon = 1 / b1 + 2 C / b2``, ``delta = 0``.
"""

from jaxdpbo import checks, sensitivity

QUERY = 1.0  # how far a user moves a query


def split_noise(noise: float, answers: int) -> tuple[float, float]:
    """Split the total ``b`` into ``(b1, b2)``, in the ratio ``1 : (2 C)^(1/3)``: least noise in a comparison per cost.

    Raises:
      TypeError: ``answers`` is not a whole number: the proof counts releases.
      ValueError: ``noise`` is not positive, or too small to split; ``answers`` under 1.
    """
    total = checks.positive("noise", noise)
    threshold = total / (1.0 + (2.0 * checks.size("answers", answers)) ** (1 / 3))
    if not 0 < threshold < total:
        raise ValueError(f"noise must be large enough for floats to split, got {total}")
    return threshold, total - threshold


def sparse_vector_epsilon(noise: float, answers: int) -> float:
    """Return ``1 / b1 + 2 C / b2 = (1 + (2 C)^(1/3)) (1 + (2 C)^(2/3)) / b`` for ``split_noise``.

    >>> from jaxdpbo import accounting
    >>> round(accounting.sparse_vector_epsilon(10.0, 2), 3)
    0.911
    """
    threshold, queries = split_noise(noise, answers)
    return QUERY / threshold + sensitivity.between_scores(QUERY) * checks.size("answers", answers) / queries
