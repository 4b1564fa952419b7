"""A tape of each draw of every mechanism, and of the numbers below it: recorded on one data set, played on neighbours.

While a tape runs, each mechanism of ``jaxdpbo.noise.mechanisms`` calls back to the host when its program runs, with
its key, its scale and the numbers that its noise is added to. Recorded, a draw gives what it would give. Played, it
gives what it gave when it was recorded, so a neighbour has the same transcript and only the data differ. A key names
its draw: the order does not matter, and programs are compiled as users' are.
"""

import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback

from jaxdpbo import input_noise
from jaxdpbo.noise import mechanisms, wide_integers


class Draw(NamedTuple):
    """``onto``: the totals, means or scores, as NumPy; of outcomes the probabilities."""

    mechanism: str
    scale: float
    onto: np.ndarray


Pair = tuple[Draw, Draw]


def terms(pairs: Sequence[Pair]) -> list[tuple[str, float, np.ndarray, np.ndarray]]:
    """Mechanism, scale, and both totals of each draw, as ``draw_costs`` takes them."""
    return [(new.mechanism, new.scale, old.onto, new.onto) for old, new in pairs]


def summary(draws: list[Draw]) -> str:
    """How many of each mechanism."""
    counts = Counter(draw.mechanism for draw in draws)
    return ", ".join(f"{count} {mechanism}" for mechanism, count in sorted(counts.items()))


class Tape:
    """The draws of one data set, by key."""

    def __init__(self):
        self._drawn: dict[bytes, tuple[Draw, Any]] = {}
        self._pairs: dict[bytes, Pair] | None = None
        self._mode, self._errors = "off", []

    def record(self, enter: Callable[..., Any], *arguments: Any) -> tuple[Any, list[Draw]]:
        """Run and note every draw; the result, and the draws."""
        before = set(self._drawn)
        result = self._run("record", enter, *arguments)
        return result, [draw for key, (draw, _) in self._drawn.items() if key not in before]

    def play(self, enter: Callable[..., Any], *arguments: Any) -> tuple[Any, list[Pair]]:
        """Run on a neighbour with the recorded results; the result, and each draw beside the recorded one."""
        self._pairs = {}
        result = self._run("play", enter, *arguments)
        return result, list(self._pairs.values())

    def _run(self, mode, enter, *arguments):
        self._mode = mode
        try:
            result = jax.block_until_ready(enter(*arguments))
            jax.effects_barrier()
        finally:
            self._mode = "off"
            errors, self._errors = self._errors, []  # a driver may have swallowed them
        if errors:
            raise AssertionError(errors[0])
        return result

    def note(self, mechanism, key, scale, onto, result):
        """What a program calls while it runs; on the host."""
        result = jax.tree.map(np.asarray, result)
        if self._mode == "off":
            return result
        key, new = np.asarray(key).tobytes(), Draw(mechanism, float(scale), _whole(onto))
        if self._mode == "record":
            if key in self._drawn:
                self._errors.append(f"two draws by one key, of which the second is {mechanism}: use each key once")
            self._drawn[key] = new, result
            return result
        old, result = self._drawn.get(key, (None, result))
        if old is None or (old.mechanism, old.scale, old.onto.shape) != (mechanism, new.scale, new.onto.shape):
            self._errors.append(
                f"the values of users decide what is drawn: {_words(old)} on one data set, {_words(new)} on a neighbour"
            )
        elif self._pairs is not None:
            self._pairs[key] = old, new
        return result


def _words(draw: Draw | None) -> str:
    return "nothing" if draw is None else f"{draw.mechanism} of scale {draw.scale:g} on shape {draw.onto.shape}"


def _whole(onto) -> np.ndarray:
    if isinstance(onto, wide_integers.Wide):
        return np.asarray(onto.high, np.int64) * 2**32 + np.asarray(onto.low, np.int64)
    return np.asarray(onto)


@jax.tree_util.register_pytree_node_class
class Noise:
    """Drawn, and added to nothing yet: it can only be added, or picked from a batch."""

    def __init__(self, note, mechanism, scale, key, drawn):
        self.note, self.mechanism = note, mechanism
        self.scale, self.key, self.drawn = scale, key, drawn

    def tree_flatten(self):
        """Flatten, for JAX."""
        return (self.scale, self.key, self.drawn), (self.note, self.mechanism)

    @classmethod
    def tree_unflatten(cls, static, leaves):
        """Make one from its leaves."""
        return cls(*static, *leaves)

    def __getitem__(self, place):
        """Pick from a batch."""
        leaves = (leaf[place] for leaf in (self.scale, self.key, self.drawn))
        return Noise(self.note, self.mechanism, *leaves)

    def __radd__(self, onto):
        """Add to numbers."""
        return self.added(onto, onto + self.drawn)

    __add__ = __radd__

    def added(self, onto, result):
        """Note what this noise is added to, and return the result."""
        return self.note(self.mechanism, self.key, self.scale, onto, result)


@contextmanager
def running() -> Iterator[Callable[[], Tape]]:
    """Within, programs call back to the newest tape; gives a function that makes one."""
    tapes = [Tape()]

    def call(mechanism, key, scale, onto, result):
        return tapes[-1].note(mechanism, key, scale, onto, result)

    def note(mechanism, key, scale, onto, result):
        kinds = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), result)
        scale = jnp.asarray(scale, jnp.result_type(float))
        return io_callback(partial(call, mechanism), kinds, jax.random.key_data(key), scale, onto, result)

    def fresh() -> Tape:
        tapes.append(Tape())
        return tapes[-1]

    with ExitStack() as patches:
        for owner, name, replacement in list(_replacements(note)):
            patches.enter_context(mock.patch.object(owner, name, replacement))
        jax.clear_caches()  # of programs that do not call back
        try:
            yield fresh
        finally:
            jax.clear_caches()  # of those that do


def _replacements(note) -> Iterator[tuple[Any, str, Any]]:
    """What stands in the places of the mechanisms."""
    real = {name: value for name, value in vars(mechanisms).items() if callable(value)}

    def arguments(name, given, named):
        return inspect.signature(real[name]).bind(*given, **named).arguments

    def chosen(name, mechanism, rate_of):
        def choose(*given, **named):
            of = arguments(name, given, named)
            key, scores, *scale = of.values()
            return note(mechanism, key, rate_of(*scale), scores, real[name](**of))

        return mechanisms, name, choose

    def added(name, mechanism):
        def add(*given, **named):
            of = arguments(name, given, named)
            key, value, scale = of.values()
            return note(mechanism, key, scale, value, real[name](**of))

        return mechanisms, name, add

    def drawn(name, mechanism):
        def draw(*given, **named):
            of = arguments(name, given, named)
            key, _, scale, *bits = of.values()
            leaf = jnp.asarray(float(scale), jnp.result_type(float))
            full = f"{mechanism} of {bits[0]} bits" if bits and bits[0] != 128 else mechanism
            return Noise(note, full, leaf, key, real[name](**of))

        return mechanisms, name, draw

    yield added("gaussian", "float Gaussian")
    yield added("laplace", "float Laplace")
    yield chosen("exponential", "float choice", lambda epsilon, sensitivity: epsilon / (2 * sensitivity))
    yield chosen("exact_exponential", "choice", float)
    yield chosen("noisy_argmax", "choice", float)
    yield drawn("rounded_gaussian", "exact Gaussian")
    yield drawn("discrete_laplace", "exact Laplace")
    yield drawn("planar_laplace", "exact planar Laplace")

    def of_table(key, shape, table):
        words = table[0, :2].astype(jnp.result_type(float))
        half = words[0] * 2.0**-32 + words[1] * 2.0**-64  # of the least digit: 1 / (1 + e^rate)
        return Noise(
            note, "exact Laplace", jnp.log(1 / half - 1), key, real["discrete_laplace_from_table"](key, shape, table)
        )

    yield mechanisms, "discrete_laplace_from_table", of_table

    def of_distribution(key, distribution, count):
        noise = draw_noise(key, distribution, count)
        return Noise(note, f"float {distribution.kind}", jnp.asarray(distribution.scale, noise.dtype), key, noise)

    draw_noise = input_noise.draw_noise
    yield input_noise, "draw_noise", of_distribution

    widen, add = wide_integers.widen, wide_integers.add
    yield wide_integers, "widen", lambda whole: whole if isinstance(whole, Noise) else widen(whole)
    yield (
        wide_integers,
        "add",
        lambda one, other: (
            other.added(one, add(one, widen(other.drawn))) if isinstance(other, Noise) else add(one, other)
        ),
    )
