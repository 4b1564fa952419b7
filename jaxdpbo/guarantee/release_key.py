"""The key of a release: checked, and its assumptions added to the guarantee."""

import jax
from jax.core import Tracer

from jaxdpbo import checks
from jaxdpbo.guarantee import assumptions, guarantees
from jaxdpbo.noise import keys


def for_release(
    key: jax.Array | None, guarantee: guarantees.Guarantee, insecure_key: bool
) -> tuple[jax.Array, guarantees.Guarantee]:
    """Check the key of a run, and add the key's assumptions to the guarantee. Every private entry point calls this.

    ``algorithm.privacy(config)`` is the guarantee for keys from ``secret_key``. If you call an algorithm's functions in
    your own loop, pass the guarantee here and publish the returned guarantee.

    >>> from jaxdpbo import dp_gibo
    >>> from jaxdpbo.guarantee import for_release
    >>> config = dp_gibo.config(users=500, steps=5, mu=1.0, bounds=[(0, 6)] * 3)
    >>> guarantee = dp_gibo.algorithm.privacy(config)
    >>> key, guarantee = for_release(None, guarantee, insecure_key=False)
    >>> guarantee == guarantee
    True

    ==========================  ==========================================================================
    ``key``                     result
    ==========================  ==========================================================================
    None                        ``secret_key()`` and the unchanged guarantee
    of ``chacha20``             adds ``KEY_SECRET``, since nobody can check the origin of the key
    of another generator        adds ``KEY_SECRET``, replaces ``RANDOM_BITS`` by ``WEAK_KEY``; refused for exact or
                                unknown noise, unless ``insecure_key``
    any, no guarantee           unchanged
    ==========================  ==========================================================================

    Raises:
      TypeError: ``key`` is not a typed key, or is refused.
      ValueError: ``key`` is an array of keys.
      RuntimeError: under a trace, if ``key`` is None, or a ``chacha20`` key and no argument of the traced function.
    """
    if key is None:
        return keys.secret_key(), guarantee
    key = checks.key("key", key)
    if guarantee.notion == "none":
        return key, guarantee
    if keys.is_secret_kind(key):
        if not isinstance(key, Tracer):
            keys.refuse_trace("a chacha20 key that the traced function closes over")
        return key, guarantee.assuming(assumptions.KEY_SECRET)
    floats = assumptions.IDEAL_NOISE in guarantee.assumptions and assumptions.RANDOM_BITS not in guarantee.assumptions
    if not floats and not insecure_key:
        raise TypeError(
            f"key must be None or a chacha20 key for exact noise, got a {keys.generator(key)} key: insecure_key=True "
            "permits it for tests, noise='float' for research"
        )
    return key, guarantee.without(assumptions.RANDOM_BITS).assuming(assumptions.WEAK_KEY, assumptions.KEY_SECRET)
