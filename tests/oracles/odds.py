"""An attacker's detections and groups of users, by definition."""

import math

from scipy import optimize, stats


def gaussian_detections(mu, rate):
    """Of the likelihood-ratio test between two Gaussians ``mu`` apart, by its threshold."""
    threshold = stats.norm.isf(rate)
    return stats.norm.sf(threshold, loc=mu)


def region_detections(epsilon, delta, rate):
    """The largest rate that both inequalities of (epsilon, delta)-DP allow, for the event and its complement."""
    allowed = [
        detected
        for detected in (step / 10_000 for step in range(10_001))
        if detected <= math.exp(epsilon) * rate + delta + 1e-12
        and 1 - rate <= math.exp(epsilon) * (1 - detected) + delta + 1e-12
    ]
    return max(allowed)


def gaussian_group_epsilon(mu, size, delta):
    """Of a group: Gaussians ``size mu`` apart."""
    shift = size * mu

    def excess(epsilon):
        first = stats.norm.cdf(-epsilon / shift + shift / 2)
        return first - math.exp(epsilon) * stats.norm.cdf(-epsilon / shift - shift / 2) - delta

    return optimize.brentq(excess, 0, 200)
