"""Whether an algorithm keeps the contract of ``types.Algorithm``, and costs no more than it states."""

from jaxdpbo.testing import attack_check, charge_checks, contribute_checks, protocol_checks, tape
from jaxdpbo.types import Algorithm, Config, Data, Objective


def check_algorithm(algorithm: Algorithm, config: Config, objective: Objective, data: Data) -> None:
    """Check an algorithm as the tests of this package check its own: in the CI of your library, with a small config.

    * Fields, types and shapes; one run by every route; nothing more is released after step ``T``, nor under another
      budget than at the start.
    * Users add up in any groups, without a key, and reach the state through the result of ``perturb`` alone.
    * The draws of a run, played on 400 neighbours with values of any kind, cost no more than the guarantee, and nothing
      else that leaves the run differs.
    * An attack on 1,024 runs on each of the worst two neighbours does not refute the guarantee.

    The second and the last need ``contribute``, the third a guarantee of "gdp" or "dp" and a value for each user.
    Passing shows no privacy by itself: state and prove the formal guarantee. The check takes seconds with few steps and
    users, and drops all compiled programs of the process.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> from jaxdpbo import dp_gd, testing
    >>> def loss(point, data):
    ...     return jnp.sum((data - point) ** 2, axis=1)
    >>> config = dp_gd.config(users=6, steps=2, mu=1.0, bounds=[(0, 1)] * 3)
    >>> data = jax.random.uniform(jax.random.key(0), (6, 3))
    >>> testing.check_algorithm(dp_gd.algorithm, config, dp_gd.gradient_objective(loss), data)

    Args:
      algorithm: yours.
      config: of the algorithm, with a finite budget.
      objective: ``(point, data) -> values``, in JAX.
      data: of the objective; public, as the check quotes shapes and costs.

    Raises:
      AssertionError: the first fault, in a sentence that says what to mend.
    """
    subject = protocol_checks.make_subject(algorithm, config, objective, data)
    if subject.adds_users:
        contribute_checks.check_contribute(subject)
    protocol_checks.check_protocol(subject)
    if subject.stated.notion in ("gdp", "dp") and config.users is not None:
        with tape.running() as fresh:
            charge = charge_checks.check_charge(subject, fresh)
        if subject.adds_users:
            attack_check.check_attack(subject, charge.pair)
