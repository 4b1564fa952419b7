"""What one record may be: Python and NumPy objects, each with the number that it must count as, NaN if none."""

import datetime
import logging
import os
import sys
import warnings
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

NAN, INF = float("nan"), float("inf")
SECRET = "8642097531"
DATES = {"date", "day", "moment", "time"}  # objects of the zoo that a cell of a private model does not hold


class Odd(NamedTuple):
    """``make()`` gives a fresh object, which counts as ``number``."""

    name: str
    make: Callable[[], Any]
    number: float


class Loud:
    """A number that says so, in every way that a process has."""

    def __float__(self):
        warnings.warn(f"I am {SECRET}", stacklevel=1)
        logging.getLogger("loud").critical(SECRET)
        print(SECRET)
        print(SECRET, file=sys.stderr)
        os.write(1, SECRET.encode())
        os.write(2, SECRET.encode())
        return 0.75

    def __array__(self, *_, **__):
        return np.asarray(float(self))


class Raising:
    """Raises whenever it is looked at."""

    def __init__(self, error: type[BaseException]):
        self.error = error

    def _raise(self, *_, **__):
        raise self.error(SECRET)

    __float__ = __array__ = __len__ = __iter__ = __getitem__ = __bool__ = __repr__ = __eq__ = __hash__ = _raise


class RaisingType(type):
    """A type that raises whenever it is asked for anything."""

    def _raise(cls, *_, **__):
        raise RuntimeError(SECRET)

    __hash__ = __eq__ = __instancecheck__ = __subclasscheck__ = _raise


class OfRaisingType(metaclass=RaisingType):
    pass


class RaisingClass:
    """``isinstance`` of it raises."""

    @property
    def __class__(self):
        raise RuntimeError(SECRET)


class Large(Fraction):
    """A number without bounds, which cannot be compared."""

    def __float__(self):
        raise OverflowError(SECRET)

    def __gt__(self, other):
        raise TypeError(SECRET)


def _inside_itself() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


def _objects(*values: Any) -> np.ndarray:
    found = np.empty(len(values), object)
    found[:] = values
    return found


def _odd(number: float, **makes: Callable[[], Any]) -> list[Odd]:
    return [Odd(name.replace("_", " "), make, number) for name, make in makes.items()]


ZOO: list[Odd] = [
    *_odd(
        NAN,
        nan=lambda: NAN, none=lambda: None, text=lambda: SECRET + "x", empty_text=lambda: "", zero_byte=lambda: "\x00",
        surrogate=lambda: "\ud800", bytes=lambda: b"\xff" * 8, complex=lambda: 1j, complex_nan=lambda: complex("nan"),
        numpy_complex=lambda: np.complex128(1 + 1j), decimal_nan=lambda: Decimal("NaN"),
        signalling_nan=lambda: Decimal("sNaN"), no_date=lambda:
        np.datetime64("NaT"), no_time=lambda: np.timedelta64("NaT"), masked=lambda: np.ma.masked,
        all_masked=lambda: np.ma.masked_all(2), empty_list=lambda: [], two=lambda: [1.0, 2.0],
        ragged=lambda: [[1.0], [2.0, 3.0]], texts=lambda: ["a", "b"], pair=lambda: (0.5, 0.5), dict=lambda: {"a": 1.0},
        set=lambda: {1.0}, range=lambda: range(3), iterator=lambda: iter(()), generator=lambda: (x for x in (1.0, 2.0)),
        inside_itself=_inside_itself, empty_array=lambda: np.zeros(0), vector=lambda: np.ones(2),
        matrix=lambda: np.eye(2), text_array=lambda: np.array(["a"] * 2), structured=lambda:
        np.zeros((), [("a", float)])[()], record_array=lambda: np.recarray(2, [("a", int)]), jax_vector=lambda:
        jnp.ones(2), key=lambda: jax.random.key(0), object=object, ellipsis=lambda: Ellipsis, function=lambda: len,
        type=lambda: float, module=lambda: np, raises=lambda: Raising(ValueError), exits=lambda: Raising(SystemExit),
        overflows=lambda: Raising(OverflowError), recurses=lambda: Raising(RecursionError),
        of_raising_type=OfRaisingType, raising_class=RaisingClass, large=lambda: Large(1),
        numpy_void=lambda: np.void(b"abc"), objects=lambda: _objects(None, SECRET),
    ),
    *_odd(
        INF,
        inf=lambda: INF, googol=lambda: 10**400, large_decimal=lambda: Decimal("1e999"), text_of_inf=lambda: "inf",
        large_fraction=lambda: Fraction(10**400),
    ),
    *_odd(-INF, negative_inf=lambda: -INF, negative_googol=lambda: -(10**400)),
    *_odd(
        1.0,
        one=lambda: 1, true=lambda: True, text_of_one=lambda: "1", bytes_of_one=lambda: b"1.0", numpy_text=lambda:
        np.str_("1"), numpy_true=lambda: np.True_, byte=lambda: np.int8(1), real_complex=lambda: 1 + 0j,
        scalar_array=lambda: np.array(1.0), jax_scalar=lambda: jnp.float32(1.0), jax_integer=lambda: jnp.int8(1),
        long_double=lambda: np.longdouble(1), list_of_one=lambda: [1.0], array_of_one=lambda: np.ones((1, 1)),
        object_of_one=lambda: _objects(1.0), time=lambda: np.timedelta64(1, "s"),
    ),
    *_odd(
        0.5, half=lambda: Fraction(1, 2), decimal=lambda: Decimal("0.5"), half_precision=lambda: np.float16(0.5),
        brain_float=lambda: jnp.bfloat16(0.5),
    ),
    *_odd(0.75, loud=Loud),
    *_odd(
        1_577_836_800.0, date=lambda: np.datetime64("2020-01-01"), day=lambda: datetime.date(2020, 1, 1), moment=lambda:
        datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC),
    ),
    *_odd(2.0**40, large_integer=lambda: 2**40),
    *_odd(2.0**63, larger_integer=lambda: 2**63, numpy_integer=lambda: np.uint64(2**63)),
    *_odd(1e30, largest_integer=lambda: 10**30),
    *_odd(1.7e308, nearly_infinite=lambda: 1.7e308),
    *_odd(5e-324, least=lambda: 5e-324),
    *_odd(-0.0, negative_zero=lambda: -0.0),
]  # fmt: skip


# What a cell of a CSV file may hold
CELLS = [
    Odd("text", lambda: b"abc", NAN),
    Odd("200,000 letters", lambda: b"x" * 200_000, NAN),
    Odd("400 digits", lambda: b"1" * 400, INF),
    Odd("another encoding", lambda: b"M\xfcller", NAN),
    Odd("a quote", lambda: b'"', NAN),
    Odd("an open quote", lambda: b'"abc', NAN),
    Odd("a number in quotes", lambda: b'"0.75"', 0.75),
    Odd("a comma in quotes", lambda: b'"1,5"', NAN),
    Odd("a lone CR", lambda: b"a\rb", NAN),
    Odd("a NUL", lambda: b"1\x000", NAN),
    Odd("nothing", lambda: b"", NAN),
    Odd("spaces", lambda: b" 0.75\t", 0.75),
    Odd("a separator of lines", lambda: "a\u2028b\x0b\x0c".encode(), NAN),
    Odd("a comma", lambda: b"1,5", NAN),
]
