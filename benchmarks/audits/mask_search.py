"""A search for masks: Flower's "SecAgg+" seeds each mask with 28 free bits, and jaxdpbo.silos with 256.

The pairwise mask of SecAgg+ comes from ``numpy.random.RandomState``, seeded by the exclusive or of the 32-bit words of
a key in base64. The code of a character has 7 bits, so there are 2^28 seeds. Quantised numbers are small beside the
modulus, so a seed that leaves small numbers is the mask. The server sees everything else that the attack needs.
"""

import importlib

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.audits import one_run
from benchmarks.audits.rows import Row, claim
from jaxdpbo.silos import masks

SEEDS = 2**28
BLOCK, LANES = 2**20, 2**13  # seeds of a call, and of a vector in the cache
NUMBERS = 1000  # of a silo, each one of two by a coin
CLIP, TARGET, MODULUS = 8.0, 2**22, 2**32  # the framework's defaults
SEEDING, TWIST = np.uint32(1812433253), np.uint32(0x9908B0DF)  # of the Mersenne Twister
Guesses = tuple[np.ndarray, np.ndarray]


def rows() -> list[Row]:
    """Return the rows; an empty list if Flower or jax-privacy is not installed."""
    try:
        import flwr  # noqa: F401
        import jax_privacy.auditing  # noqa: F401
    except ImportError:
        return []
    masked = claim("dp", 1.0)
    return [
        Row("SecAgg+ of Flower, searched", masked, audit=lambda: one_run.audit(attack_secagg()), holds=False),
        Row("masks of jaxdpbo.silos, searched", masked, audit=lambda: one_run.audit(attack_silos()), least=0.0),
        Row(
            "masks of jaxdpbo.silos, forgotten", masked, audit=lambda: one_run.audit(attack_silos(masked=False)),
            holds=False,
        ),
    ]  # fmt: skip


def attack_secagg(first: int = 0, last: int = SEEDS) -> Guesses:
    """Two clients of Flower in a round of SecAgg+, and a server that searches the seeds from ``first`` to ``last``."""
    coins, words = _secagg_round()
    return coins, _centre(_unmask(words, first, last)[1:])


def attack_silos(*, masked: bool = True) -> Guesses:
    """The same search for the mask of ``jaxdpbo.silos``, in the low 32 bits of a silo's answer."""
    coins = np.random.default_rng(1).integers(0, 2, NUMBERS)
    private = {name: masks.generate_key() for name in "AB"}
    publics = {name: masks.public_key(key) for name, key in private.items()}
    mask = masks.make_mask("A", private["A"], publics, b"audit", NUMBERS) * np.uint64(masked)
    words = (coins.astype(np.uint64) * np.uint64(TARGET) + mask) % np.uint64(MODULUS)
    return coins, _centre(_unmask(words.astype(np.int64), 0, SEEDS))


def _unmask(words: np.ndarray, first: int, last: int) -> np.ndarray:
    """The numbers if a seed explains the words, and the words otherwise."""
    for seed in spread(search(words[:2], TARGET, first, last)):
        generator = np.random.RandomState(seed)
        numbers = (words - generator.randint(0, MODULUS - 1, len(words), dtype=np.int64)) % MODULUS
        if np.all(numbers <= TARGET):
            return numbers
    return words


def _centre(numbers: np.ndarray) -> np.ndarray:
    return numbers - (np.min(numbers) + np.max(numbers)) / 2


def spread(numbers: np.ndarray) -> np.ndarray:
    """The seeds of 28-bit numbers: seven bits a byte, uint32."""
    numbers = np.asarray(numbers, np.uint32)
    return sum(((numbers >> np.uint32(7 * byte)) & np.uint32(0x7F)) << np.uint32(8 * byte) for byte in range(4))


def search(words: np.ndarray, most: int, first: int, last: int) -> np.ndarray:
    """The numbers of the seeds with two first outputs that leave at most ``most`` of two masked words."""
    words, matches = np.asarray(words, np.uint64).astype(np.uint32), []
    for start in range(first, last, BLOCK):
        numbers = np.arange(start, min(start + BLOCK, last), dtype=np.uint32)
        padded = np.resize(spread(numbers), (-(-len(numbers) // LANES), LANES))
        matches.append(
            numbers[np.flatnonzero(np.asarray(_fits(padded, words, np.uint32(most))).ravel()[: len(numbers)])]
        )
    return np.concatenate(matches)


@jax.jit
def _fits(seeds: jax.Array, words: jax.Array, most: jax.Array) -> jax.Array:
    def check_lane(lane: jax.Array) -> jax.Array:
        outputs = first_outputs(lane)
        return jnp.all(jnp.stack([word - output <= most for word, output in zip(words, outputs, strict=True)]), axis=0)

    return jax.lax.map(check_lane, seeds)


def first_outputs(seeds: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The first two outputs of the Mersenne Twister of each seed (Matsumoto and Nishimura 1998), uint32."""

    def advance(place: jax.Array, state: jax.Array) -> jax.Array:
        return SEEDING * (state ^ (state >> np.uint32(30))) + place.astype(np.uint32)

    first = advance(np.uint32(1), seeds)
    second = advance(np.uint32(2), first)
    far = jax.lax.fori_loop(3, 398, advance, second)
    return _temper(far ^ _twist(seeds, first)), _temper(advance(np.uint32(398), far) ^ _twist(first, second))


def _twist(high: jax.Array, low: jax.Array) -> jax.Array:
    joined = (high & np.uint32(0x80000000)) | (low & np.uint32(0x7FFFFFFF))
    return (joined >> np.uint32(1)) ^ ((joined & np.uint32(1)) * TWIST)


def _temper(word: jax.Array) -> jax.Array:
    word ^= word >> np.uint32(11)
    word ^= (word << np.uint32(7)) & np.uint32(0x9D2C5680)
    word ^= (word << np.uint32(15)) & np.uint32(0xEFC60000)
    return word ^ (word >> np.uint32(18))


def _secagg_round() -> tuple[np.ndarray, np.ndarray]:
    """The coins of the second of two clients, and its vector under the mask of the pair, as an honest server has it.

    The first word is the client's weight. The server learns the client's own mask in the last stage of the protocol.
    """
    from flwr.common import bytes_to_ndarray, ndarrays_to_parameters
    from flwr.common.secure_aggregation import secaggplus_constants, secaggplus_utils
    from flwr.common.secure_aggregation.crypto.shamir import combine_shares

    # the package has a function of the module's name
    client = importlib.import_module("flwr.client.mod.secure_aggregation.secaggplus_mod")
    key = secaggplus_constants.Key
    coins = np.random.default_rng(0).integers(0, 2, NUMBERS)
    states = {1: client.SecAggPlusState(), 2: client.SecAggPlusState()}
    setup = {
        key.SAMPLE_NUMBER: 2, key.SHARE_NUMBER: 2, key.THRESHOLD: 2, key.CLIPPING_RANGE: CLIP, key.TARGET_RANGE: TARGET,
        key.MOD_RANGE: MODULUS, key.MAX_WEIGHT: 1000.0,
    }  # fmt: skip
    publics = {}
    for node, state in states.items():
        state.nid = node
        sent = client._setup(state, setup)
        publics[str(node)] = (sent[key.PUBLIC_KEY_1], sent[key.PUBLIC_KEY_2])
    shared = {node: client._share_keys(state, publics) for node, state in states.items()}
    masked = {}
    for node, state in states.items():
        other = 3 - node
        configs = {key.CIPHERTEXT_LIST: shared[other][key.CIPHERTEXT_LIST], key.SOURCE_LIST: [other]}
        values = np.where(coins, 1.0, -1.0) if node == 2 else np.zeros(NUMBERS)
        masked[node] = client._collect_masked_vectors(state, configs, 100, ndarrays_to_parameters([values]))
    shares = [
        client._unmask(state, {key.ACTIVE_NODE_ID_LIST: [2, 1], key.DEAD_NODE_ID_LIST: []})[key.SHARE_LIST][0]
        for state in states.values()
    ]
    own = secaggplus_utils.pseudo_rand_gen(combine_shares(shares), MODULUS, [(1,), (NUMBERS,)])
    factor, numbers = (bytes_to_ndarray(content) for content in masked[2][key.MASKED_PARAMETERS])
    return coins, np.concatenate([factor - own[0], numbers - own[1]]) % MODULUS
