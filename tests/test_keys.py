"""Keys for release: ChaCha20 as in its RFC, no seeds, the default one the operating system's; what each kind gives."""

import os
import pickle
import random
import subprocess
import sys
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import chacha20 as oracle
from protocol_cases import CASES, records

from jaxdpbo import drivers, mechanisms
from jaxdpbo.guarantee import assumptions, guarantees, release_key
from jaxdpbo.noise import keys as _keys

ROOT = Path(__file__).parent.parent
BYTES = bytes(range(32))
KEY = _keys.key_from_bytes(BYTES)
BITS, SPLIT, FOLD = _keys.BITS, _keys.SPLIT, _keys.FOLD

blocks = _keys._blocks


def words(key):
    return np.asarray(jax.random.key_data(key))


def hexes(array):
    return " ".join(f"{word:08x}" for word in np.asarray(array).ravel())


# RFC 8439, appendix A.1: key, counter, the nonce's last word, the 64 bytes.
VECTORS = [
    (
        "00" * 32, 0, 0,
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586",
    ),
    (
        "00" * 32, 1, 0,
        "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
        "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f",
    ),
    (
        "00" * 31 + "01", 1, 0,
        "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a"
        "8eca00bbb4a73bdad192b5c42f73f2fd4e273644c8b36125a64addeb006c13a0",
    ),
    (
        "00ff" + "00" * 30, 2, 0,
        "72d54dfbf12ec44b362692df94137f328fea8da73990265ec1bbbea1ae9af0ca"
        "13b25aa26cb4a648cb9b9d1be65b2c0924a66c54d545ec1b7374f4872e99f096",
    ),
    (
        "00" * 32, 0, 0x02000000,
        "c2c64d378cd536374ae204b9ef933fcd1a8b2288b3dfa49672ab765b54ee27c7"
        "8a970e0e955c14f3a88e741b97c286f75f8fc299e8148362fa198a39531bed6d",
    ),
]  # fmt: skip


@pytest.mark.parametrize("vector", range(5))
def test_a_block_is_the_rfcs(vector):
    key, counter, nonce, expected = VECTORS[vector]
    key, expected = bytes.fromhex(key), np.frombuffer(bytes.fromhex(expected), "<u4")
    counters = jnp.array([counter, counter + 1], jnp.uint32)
    found = blocks(words(_keys.key_from_bytes(key)), counters, 0, nonce)
    np.testing.assert_array_equal(found[0], expected)
    np.testing.assert_array_equal(oracle.blocks(key, [counter], (0, 0, nonce))[0], expected)
    assert np.mean(np.asarray(found[1]) == expected) < 0.1


def test_rounds_are_those_of_the_rfcs_worked_example():
    """Section 2.3.2, whose nonce has a word that our blocks keep at 0."""
    expected = (
        "e4e7f110 15593bd1 1fdd0f50 c47120a3 c7f4d1c7 0368c033 9aaa2204 4e6cd4c3 "
        "466482d2 09aa9f07 05d7c214 a2028bd9 d19c12b5 b94e16de e883d0cb 4e3c50a2"
    )
    nonce = 0x09000000, 0x4A000000, 0
    assert hexes(oracle.blocks(BYTES, [1], nonce)) == expected
    begun = np.array([*_keys.CONSTANTS, *words(KEY), 1, *nonce], np.uint32).reshape(4, 4, 1)  # four rows, of one block
    mixed = jax.jit(lambda rows: jax.lax.fori_loop(0, 10, lambda _, x: _keys._double_round(x), rows))((*begun,))
    assert hexes(np.stack(mixed) + begun) == expected
    assert np.array(_keys.CONSTANTS, "<u4").tobytes() == b"expand 32-byte k"


def test_every_word_of_a_long_draw_is_the_key_stream():
    count = 100_003  # not whole blocks
    drawn = jax.jit(partial(jax.random.bits, shape=(count,), dtype=jnp.uint32))(KEY)
    np.testing.assert_array_equal(drawn, oracle.stream(BYTES, count, (0, 32, BITS)))
    assert np.any(drawn != oracle.stream(BYTES, count, (0, 32, SPLIT)))  # the nonce counts


@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_bits_of_every_width_are_a_key_stream_of_their_own(width):
    count, dtype = 84, np.dtype(f"<u{width // 8}")
    drawn = np.asarray(jax.random.bits(KEY, (7, 12), dtype))
    assert drawn.dtype == dtype
    expected = oracle.stream(BYTES, -(-count * width // 32), (0, width, BITS)).astype("<u4").view(dtype)[:count]
    np.testing.assert_array_equal(drawn.ravel(), expected)


def test_children_are_key_streams_of_their_own():
    children = words(jax.random.split(KEY, (2, 3)))
    expected = oracle.blocks(BYTES, np.arange(6), (0, 0, SPLIT))[:, :8]
    np.testing.assert_array_equal(children, expected.reshape(2, 3, 8))
    for data in (0, 7, 2**32 - 1):
        folded = oracle.blocks(BYTES, [data], (0, 0, FOLD))[0, :8]
        np.testing.assert_array_equal(words(jax.random.fold_in(KEY, data)), folded)


def test_the_streams_stay_what_they_were():
    """A release must be reproducible from its key by later versions."""
    assert hexes(jax.random.bits(KEY, (4,), jnp.uint32)) == "d414554a 2debb182 b635e852 90289f95"
    assert hexes(words(jax.random.split(KEY))[0]) == (
        "30c0151a 824d1408 57704145 5559e958 25e998d5 b4b0edb5 d6bd96a6 ed9971b4"
    )
    assert hexes(words(jax.random.fold_in(KEY, 7))) == (
        "a4f08ca2 0b71786d 094637ba 63f922eb 7cf28707 99b64ddf 25547cef 5607f6c2"
    )


def test_no_word_serves_two_uses_of_a_key():
    """Bits of any width, children and folded keys: 32-bit words that coincide would do so by chance alone."""
    drawn = [
        np.asarray(jax.random.bits(KEY, (7, 12), f"uint{width}")).ravel().view(np.uint32) for width in (8, 16, 32, 64)
    ]
    drawn.append(words(jax.random.split(KEY, 16)).ravel())
    drawn.append(np.concatenate([words(jax.random.fold_in(KEY, data)) for data in range(16)]))
    together = np.concatenate([*drawn, words(KEY)])
    assert len(np.unique(together)) == len(together) == 21 * (1 + 2 + 4 + 8) + 2 * 128 + 8


def test_threefrys_bits_give_its_children_away_and_chachas_do_not():
    """The trap: draw from a threefry key and split it too, and 32 of the 64 bits of every child are public."""
    for seed in range(3):
        drawn = jax.random.bits(jax.random.key(seed), (50,), jnp.uint32)
        children = words(jax.random.split(jax.random.key(seed), 50))
        np.testing.assert_array_equal(drawn, children[:, 0] ^ children[:, 1])
    drawn = np.asarray(jax.random.bits(KEY, (50,), jnp.uint32))
    children = words(jax.random.split(KEY, 50))
    for i in range(8):
        for j in range(i + 1, 8):
            assert not np.any(drawn == children[:, i] ^ children[:, j])
    assert not np.any(drawn == np.bitwise_xor.reduce(children, axis=1))


def test_a_key_gives_the_same_under_every_transformation():
    def used(key):
        left, right = jax.random.split(key)
        return jax.random.bits(left, (3,), jnp.uint32), jax.random.key_data(jax.random.fold_in(right, 5))

    several, compiled = jax.random.split(KEY, 4), jax.jit(used)
    looped = [compiled(key) for key in several]
    expected = [np.stack(parts) for parts in zip(*looped, strict=True)]
    scanned = jax.jit(lambda keys: jax.lax.scan(lambda _, key: (None, used(key)), None, keys)[1])(several)
    for found in (jax.jit(jax.vmap(used))(several), scanned):
        jax.tree.map(np.testing.assert_array_equal, list(found), expected)
    jax.tree.map(np.testing.assert_array_equal, used(several[0]), looped[0])


def test_a_key_can_be_carried_through_a_scan():
    def step(key, _):
        key, used = jax.random.split(key)
        return key, jax.random.bits(used, (), jnp.uint32)

    last, drawn = jax.lax.scan(step, KEY, None, length=5)
    key, expected = KEY, []
    for _ in range(5):
        key, value = step(key, None)
        expected.append(value)
    np.testing.assert_array_equal(drawn, np.stack(expected))
    np.testing.assert_array_equal(words(last), words(key))
    assert last.dtype == KEY.dtype


def test_a_shorter_draw_begins_a_longer_one():
    """As in threefry: a key serves one draw, and no draw of another size is a fresh one."""
    long = np.asarray(jax.random.bits(KEY, (40,), jnp.uint32))
    for count in (1, 16, 17):
        np.testing.assert_array_equal(jax.random.bits(KEY, (count,), jnp.uint32), long[:count])
    np.testing.assert_array_equal(words(jax.random.split(KEY, 5))[:2], words(jax.random.split(KEY, 2)))


def test_draws_are_the_same_with_x64_off(float32):
    assert hexes(jax.random.bits(KEY, (4,))) == "d414554a 2debb182 b635e852 90289f95"
    np.testing.assert_array_equal(
        words(jax.random.split(KEY, 3)), oracle.blocks(BYTES, np.arange(3), (0, 0, SPLIT))[:, :8]
    )


def test_jax_random_draws_from_a_chacha_key():
    normal = np.asarray(jax.random.normal(KEY, (20_000,)))
    assert abs(normal.mean()) < 5 / np.sqrt(20_000)
    assert abs(normal.std() - 1) < 5 / np.sqrt(40_000)
    np.testing.assert_array_equal(np.sort(jax.random.permutation(KEY, 50)), np.arange(50))


def test_a_key_is_typed_and_says_its_generator():
    assert jnp.issubdtype(KEY.dtype, jax.dtypes.prng_key)
    assert (KEY.shape, words(KEY).shape, words(KEY).dtype) == ((), (8,), np.uint32)
    assert words(KEY).astype("<u4").tobytes() == BYTES
    assert jax.random.wrap_key_data(words(KEY), impl=_keys.chacha20).dtype == KEY.dtype
    assert _keys.generator(KEY) == "chacha20"
    assert _keys.generator(jax.random.key(0)) == "threefry2x32"
    assert _keys.generator(jax.random.key(0, impl=_keys.chacha20_test)) == "chacha20_test"
    assert _keys.is_secret_kind(KEY)
    assert not _keys.is_secret_kind(jax.random.key(0))
    assert not _keys.is_secret_kind(jax.random.key(0, impl=_keys.chacha20_test))


def test_an_integer_makes_no_release_key():
    for made in (jax.random.key, jax.random.PRNGKey):
        with pytest.raises(TypeError, match=r"a chacha20 key is not made of a seed: use secret_key\(\)"):
            made(0, impl=_keys.chacha20)


def test_integer_seeds_would_collide_where_x64_is_off(float32):
    """Why a release never takes its key from ``jax.random.key(int)``."""
    np.testing.assert_array_equal(words(jax.random.key(0)), words(jax.random.key(2**33)))


def test_the_test_generator_takes_integers_and_is_another_kind():
    made = [jax.random.key(seed, impl=_keys.chacha20_test) for seed in (0, 1, -1, 2**33)]
    assert len({words(key).tobytes() for key in made}) == 4
    np.testing.assert_array_equal(words(made[1]), words(jax.random.key(1, impl=_keys.chacha20_test)))
    drawn = jax.random.bits(made[0], (20,), jnp.uint32)
    np.testing.assert_array_equal(
        drawn, oracle.stream(words(made[0]).astype("<u4").tobytes(), 20, (0, 32, BITS))
    )  # the same distribution
    assert made[0].dtype != KEY.dtype


def test_secret_keys_are_typed_and_differ():
    drawn = [_keys.secret_key() for _ in range(50)]
    assert all(_keys.is_secret_kind(key) and key.shape == () for key in drawn)
    assert len({words(key).tobytes() for key in drawn}) == 50
    several = _keys.secret_key((2, 3))
    assert several.shape == (2, 3)
    assert len({row.tobytes() for row in words(several).reshape(6, 8)}) == 6


def test_no_secret_key_is_drawn_while_jax_traces():
    for draw in (_keys.secret_key, lambda: _keys.key_from_bytes(bytes(32))):
        with pytest.raises(RuntimeError, match="would be a constant of the program that JAX is tracing"):
            jax.eval_shape(draw)


def test_every_word_of_a_secret_key_is_the_operating_systems(monkeypatch):
    asked = []

    def counting(count):
        asked.append(count)
        return bytes(range(count))

    monkeypatch.setattr(_keys.os, "urandom", counting)
    assert words(_keys.secret_key()).astype("<u4").tobytes() == bytes(range(32))
    assert words(_keys.secret_key((3,))).astype("<u4").tobytes() == bytes(range(96))
    assert asked == [32, 96]


@pytest.mark.parametrize("data", [b"", bytes(range(100, 131)), bytes(range(100, 133)), bytes(64)])
def test_bytes_of_another_length_make_no_key_and_are_not_shown(data):
    with pytest.raises(ValueError, match=rf"^data must be 32 bytes, got {len(data)}$"):
        _keys.key_from_bytes(data)


@pytest.mark.parametrize("data", [bytearray(32), "0" * 32, 5, None, np.zeros(8, np.uint32)])
def test_only_bytes_make_a_key(data):
    with pytest.raises(TypeError, match=rf"^data must be bytes, got {type(data).__name__}$"):
        _keys.key_from_bytes(data)


def test_a_pickled_key_works_in_a_new_process_that_has_the_package(tmp_path):
    (tmp_path / "key").write_bytes(pickle.dumps(KEY))
    source = f"""
import pickle, sys
stored = open({str(tmp_path / "key")!r}, "rb").read()
sys.modules["jaxdpbo"] = None  # as if it were not installed
try:
    pickle.loads(stored)
    raise SystemExit("a key of an unknown generator")
except ModuleNotFoundError as error:
    print(error)
del sys.modules["jaxdpbo"]
key = pickle.loads(stored)
import jax
from jaxdpbo.noise import keys
print(keys.is_secret_kind(key), jax.random.bits(key, (2,), "uint32").tolist())
"""
    done = subprocess.run([sys.executable, "-c", source], cwd=ROOT, capture_output=True, text=True, check=True)
    missing, found = done.stdout.splitlines()
    assert "jaxdpbo" in missing
    assert found == f"True {[0xD414554A, 0x2DEBB182]}"


# What a run's guarantee rests on, by the kind of its key: each row of the table in ``for_release``.
EXACT = guarantees.guarantee(
    "gdp", 1.0, "replace_one", "rows",
    assumptions=(assumptions.RANDOM_BITS, assumptions.PUBLIC_CONFIG),
)  # fmt: skip
FLOAT = guarantees.guarantee(
    "gdp", 1.0, "replace_one", "rows", assumptions=(assumptions.IDEAL_NOISE, assumptions.PUBLIC_CONFIG)
)
NOTHING = guarantees.no_guarantee("rows", "for a test")
WEAK = [jax.random.key(0), jax.random.key(0, impl="rbg"), jax.random.key(0, impl=_keys.chacha20_test)]
KINDS = ["threefry2x32", "rbg", "chacha20_test"]


@pytest.mark.parametrize("statement", [EXACT, FLOAT, NOTHING], ids=["exact", "float", "none"])
@pytest.mark.parametrize("insecure", [False, True])
def test_without_a_key_a_fresh_one_is_drawn_and_nothing_more_is_assumed(statement, insecure):
    (first, kept), (second, _) = (release_key.for_release(None, statement, insecure) for _ in range(2))
    assert kept is statement
    assert _keys.is_secret_kind(first)
    assert np.any(words(first) != words(second))


@pytest.mark.parametrize("statement", [EXACT, FLOAT], ids=["exact", "float"])
@pytest.mark.parametrize("insecure", [False, True])
def test_a_chacha_key_must_be_secret(statement, insecure):
    key, kept = release_key.for_release(KEY, statement, insecure)
    assert key is KEY
    assert kept == statement.assuming(assumptions.KEY_SECRET)


@pytest.mark.parametrize("key", WEAK, ids=KINDS)
def test_a_key_of_another_generator_is_refused_where_noise_is_exact(key):
    message = rf"^key must be None or a chacha20 key for exact noise, got a {_keys.generator(key)} key: insecure"
    with pytest.raises(TypeError, match=message) as caught:
        release_key.for_release(key, EXACT, False)
    assert not any(str(word) in str(caught.value) for word in words(key) if word > 100)


@pytest.mark.parametrize("key", WEAK, ids=KINDS)
def test_a_permitted_key_of_another_generator_weakens_what_is_said(key):
    used, kept = release_key.for_release(key, EXACT, True)
    assert used is key
    assert kept.assumptions == (
        assumptions.PUBLIC_CONFIG,
        assumptions.WEAK_KEY,
        assumptions.KEY_SECRET,
    )
    for insecure in (False, True):
        used, kept = release_key.for_release(key, FLOAT, insecure)
        assert used is key
        assert kept == FLOAT.assuming(assumptions.WEAK_KEY, assumptions.KEY_SECRET)


@pytest.mark.parametrize("key", [KEY, *WEAK], ids=["chacha20", *KINDS])
@pytest.mark.parametrize("insecure", [False, True])
def test_where_there_is_no_guarantee_any_key_will_do(key, insecure):
    assert release_key.for_release(key, NOTHING, insecure) == (key, NOTHING)


@pytest.mark.parametrize(
    ("key", "error", "message"),
    [
        (0, TypeError, "key must be a typed key such as .*, got int"),
        (words(KEY), TypeError, "key must be a typed key such as .*, got ndarray"),
        (jax.random.PRNGKey(0), TypeError, "key must be a typed key such as .*"),
        (jax.random.split(KEY), ValueError, r"key must be one key, got shape \(2,\)"),
    ],
    ids=["seed", "words", "old style", "two"],
)
@pytest.mark.parametrize("statement", [EXACT, FLOAT, NOTHING], ids=["exact", "float", "none"])
def test_what_is_no_key_is_refused_whatever_is_stated(key, error, message, statement):
    with pytest.raises(error, match=message):
        release_key.for_release(key, statement, True)


def released(run):
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(run.release)]


def test_a_default_run_draws_from_the_operating_system_and_from_nothing_else(monkeypatch):
    """Trap 28: no default seed. What the operating system gives decides the run; no other generator is asked."""
    case, data, asked, real = CASES["dp_gd"], records(), [], os.urandom

    def run():
        return drivers.run_scan(case.algorithm, case.objective, data, case.config(1.0))

    def counting(count):
        asked.append(count)
        return real(count)

    def refused(*_, **__):
        raise AssertionError("a generator that is no secret")

    for name in ("default_rng", "random", "normal", "randint", "bytes", "seed"):
        monkeypatch.setattr(np.random, name, refused)
    before = random.getstate()
    monkeypatch.setattr(os, "urandom", counting)
    runs = [run() for _ in range(2)]
    assert asked == [32, 32]
    assert released(runs[0]) != released(runs[1])
    assert assumptions.KEY_SECRET not in runs[0].guarantee.assumptions
    monkeypatch.setattr(os, "urandom", lambda count: BYTES[:count])
    assert released(run()) == released(run())
    assert random.getstate() == before


def test_a_run_with_the_same_key_is_the_same_and_says_that_the_key_must_be_secret():
    case = CASES["dp_gd"]
    runs = [drivers.run_scan(case.algorithm, case.objective, records(), case.config(1.0), key=KEY) for _ in range(2)]
    assert released(runs[0]) == released(runs[1])
    assert assumptions.KEY_SECRET in runs[0].guarantee.assumptions
    with pytest.raises(TypeError, match="key must be None or a chacha20 key for exact noise"):
        drivers.run_scan(case.algorithm, case.objective, records(), case.config(1.0), key=jax.random.key(0))


@pytest.fixture
def reuse_is_an_error():
    with jax.debug_key_reuse(True):
        yield


def test_a_chacha_key_used_twice_is_caught_by_jax_too(reuse_is_an_error):
    key = _keys.secret_key()
    jax.random.bits(key)
    for use in (jax.random.bits, jax.random.split, lambda k: mechanisms.rounded_gaussian(k, (2,), 4)):
        with pytest.raises(jax.errors.KeyReuseError):
            use(key)
    with pytest.raises(jax.errors.KeyReuseError):
        jax.jit(lambda k: jax.random.bits(k) + jax.random.bits(k))(_keys.secret_key())


def test_a_statement_of_an_algorithm_is_of_keys_from_the_operating_system():
    """A loop of one's own asks ``for_release``, as the drivers do: a weak key is refused, or named."""
    stated = CASES["dp_gd"].algorithm.privacy(CASES["dp_gd"].config(1.0))
    assert assumptions.RANDOM_BITS in stated.assumptions
    assert not {assumptions.WEAK_KEY, assumptions.KEY_SECRET} & set(stated.assumptions)
    with pytest.raises(TypeError, match="key must be None or a chacha20 key for exact noise"):
        release_key.for_release(jax.random.key(1), stated, False)
    _, honest = release_key.for_release(jax.random.key(1), stated, True)
    assert {assumptions.WEAK_KEY, assumptions.KEY_SECRET} < set(honest.assumptions)
    assert assumptions.RANDOM_BITS not in honest.assumptions
    assert release_key.for_release(KEY, stated, False)[1] == stated.assuming(assumptions.KEY_SECRET)
    assert release_key.for_release(None, stated, False)[1] == stated
