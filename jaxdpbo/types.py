"""The contract every algorithm keeps, and the letters every shape is written in.

========  ==========================================================
letter    counts
========  ==========================================================
``n``     users (one loss each)
``m``     evaluated points: the capacity of a buffer, not its filling
``b``     points in one query
``d``     parameters (the dimension of a point)
``T``     steps
``k``     points predicted at, in one call
``c``     candidates of a finite set
========  ==========================================================

Points come first and users last, in every buffer: ``(m, d)``, ``(m, n)``. Shapes stand in docstrings.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

Kernel = Callable[[Any, jax.Array, jax.Array], jax.Array]  # (params, x (d,), y (d,)) -> ()
Objective = Callable[[Any, Any], Any]  # (point (d,), data) -> values


class Algorithm(NamedTuple):
    """Five functions; the first four are pure and jit-compatible, and take a typed key first.

    Attributes:
      init: ``(key, config) -> State``, independent of the users' data.
      ask: ``(key, config, state) -> Query``, where to evaluate next.
      tell: ``(key, config, state, query, values) -> (State, Info)``.
      release: ``(key, config, state) -> Release``, the only thing to publish.
      privacy: ``(config) -> Guarantee``, on the host: of a run of ``steps`` steps whose keys ``secret_key`` drew, each
        used once. With other keys it is what ``privacy.keys.for_release`` makes of it: the drivers ask there, and so
        must a loop of one's own. The four functions take any key, as tests and research need, and no key shows where
        it came from.
    """

    init: Callable[..., Any]
    ask: Callable[..., Any]
    tell: Callable[..., Any]
    release: Callable[..., Any]
    privacy: Callable[..., Any]


class State(NamedTuple):
    """What a run knows. ``public`` is released or data-independent; ``private`` is raw.

    ``public.step`` counts the steps taken. ``public.budget``, where there is one, holds all that sets the noise of the
    run as it was begun: no driver goes on from a state under another, since the guarantee would be of a run that never
    was. What acts on released values alone (an optimizer, a box, a kernel) may change.
    A state prints its private arrays: keep it out of logs.
    """

    public: Any
    private: Any


class Query(NamedTuple):
    """Where to evaluate next.

    Attributes:
      points: ``(b, d)`` points, all inside the box.
      mask: ``(b,)`` True where the point is to be evaluated; values elsewhere are ignored.
      rows: ``(b,)`` which candidates the points are, where the search is over a finite set; otherwise None.
    """

    points: jax.Array
    mask: jax.Array
    rows: jax.Array | None = None
