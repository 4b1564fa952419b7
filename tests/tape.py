"""A tape of what a mechanism draws, and onto what: recorded on one data set, played on a neighbour.

While a tape runs, every exact or float draw of ``jaxdpbo.privacy._mechanisms`` is noted with its scale and the numbers
it was drawn onto. Played, each draw gives what it gave when it was recorded, so a neighbour has the same transcript and
all that differs is the data. Only for calls in Python, which run under ``jax.disable_jit``.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxdpbo.privacy import _mechanisms, _wide_integers


class Draw(NamedTuple):
    """``onto``: the totals, means or scores, as NumPy."""

    mechanism: str
    scale: float
    onto: np.ndarray


class Tape:
    """``recorded``: the draws of the first data set, and what they gave."""

    def __init__(self, monkeypatch):
        self.recorded: list[tuple[Draw, Any]] = []
        self._monkeypatch = monkeypatch
        self._noise: tuple[Any, Any] | None = None  # drawn and not added yet: its deviation, and the integers

    @contextmanager
    def running(self, *, play: bool) -> Iterator[list[Draw]]:
        """The draws in the block; played, they must be those on the tape but for what they are drawn onto."""
        draws: list[Draw] = []

        def note(mechanism, scale, onto, draw):
            number, new = len(draws), Draw(mechanism, float(scale), np.asarray(onto))
            draws.append(new)
            if not play:
                self.recorded.append((new, draw()))
            old, result = self.recorded[number]
            assert (new.mechanism, new.scale, new.onto.shape) == (old.mechanism, old.scale, old.onto.shape)
            return result

        with self._monkeypatch.context() as patch, jax.disable_jit():
            for owner, name in (
                (_mechanisms, "gaussian"), (_mechanisms, "exact_exponential"), (_mechanisms, "rounded_gaussian"),
                (_wide_integers, "widen"), (_wide_integers, "add"),
            ):  # fmt: skip
                patch.setattr(owner, name, getattr(self, f"_{name}")(getattr(owner, name), note))
            yield draws
        assert self._noise is None, "noise was drawn and added to nothing"
        assert len(draws) == len(self.recorded)

    def _gaussian(self, real, note):
        def gaussian(key, value, deviation):
            return note("float Gaussian", deviation, value, lambda: real(key, value, deviation))

        return gaussian

    def _exact_exponential(self, real, note):
        def exact_exponential(key, scores, rate):
            return note("choice", rate, scores, lambda: real(key, scores, rate))

        return exact_exponential

    def _rounded_gaussian(self, real, note):
        def rounded_gaussian(key, shape, sigma, *bits):
            assert self._noise is None, "noise was drawn and added to nothing"
            with jax.disable_jit(False):  # thousands of times faster
                self._noise = sigma, jax.jit(real, static_argnums=(1, 2, 3))(key, tuple(shape), sigma, *bits)
            return self._noise[1]

        return rounded_gaussian

    def _widen(self, real, note):
        def widen(whole):
            wide = real(whole)
            if self._noise is not None and whole is self._noise[1]:
                self._noise = self._noise[0], wide
            return wide

        return widen

    def _add(self, real, note):
        def add(one, other):
            if self._noise is None or other is not self._noise[1]:
                return real(one, other)
            (sigma, _), self._noise = self._noise, None
            onto = np.asarray(one.high, np.int64) * 2**32 + np.asarray(one.low, np.int64)
            return note("exact Gaussian", sigma, onto, lambda: real(one, other))

        return add
