"""People with ids of any kind: an id has one slot in every kind of table, and its rows move nothing of other slots."""

import dask.dataframe as dd
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxdpbo import Search, minimize, tables
from jaxdpbo.guarantee import assumptions
from jaxdpbo.tables import arrow, hashed_ids
from jaxdpbo.tables import people as _people

KEY = bytes(range(16))
IDS = tables.hashed("id", key=KEY)
RNG = np.random.default_rng(0)
PEOPLE, ROWS, SLOTS, MOST = 60, 300, 100, 3
NUMBERS = RNG.integers(-(2**62), 2**62, PEOPLE)
FRAME = pd.DataFrame({"id": RNG.choice(NUMBERS, ROWS), "x": RNG.normal(3.0, 0.3, ROWS)})
MASK = 2**64 - 1


def siphash(message, key):
    """SipHash-2-4 of the paper, byte by byte, with Python's integers."""
    first, second = (int.from_bytes(key[at : at + 8], "little") for at in (0, 8))
    state = [
        first ^ 0x736F6D6570736575, second ^ 0x646F72616E646F6D,
        first ^ 0x6C7967656E657261, second ^ 0x7465646279746573,
    ]  # fmt: skip

    def rotate(word, bits):
        return (word << bits | word >> (64 - bits)) & MASK

    def mix(times):
        v0, v1, v2, v3 = state
        for _ in range(times):
            v0 = (v0 + v1) & MASK
            v1 = rotate(v1, 13) ^ v0
            v0 = rotate(v0, 32)
            v2 = (v2 + v3) & MASK
            v3 = rotate(v3, 16) ^ v2
            v0 = (v0 + v3) & MASK
            v3 = rotate(v3, 21) ^ v0
            v2 = (v2 + v1) & MASK
            v1 = rotate(v1, 17) ^ v2
            v2 = rotate(v2, 32)
        state[:] = v0, v1, v2, v3

    padded = message + bytes(7 - len(message) % 8) + bytes([len(message)])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        state[3] ^= word
        mix(2)
        state[0] ^= word
    state[2] ^= 0xFF
    mix(4)
    return state[0] ^ state[1] ^ state[2] ^ state[3]


@given(st.lists(st.integers(0, MASK), min_size=1, max_size=5), st.binary(min_size=16, max_size=16))
def test_the_hash_is_siphash(numbers, key):
    found = hashed_ids.siphash(np.array(numbers, np.uint64), key)
    assert found.tolist() == [siphash(number.to_bytes(8, "little"), key) for number in numbers]


def test_the_hash_has_the_published_vector():
    message = np.frombuffer(bytes(range(8)), "<u8")
    assert hashed_ids.siphash(message, KEY).astype("<u8").tobytes().hex() == "6224939a79f5f593"


def test_slots_are_spread_evenly_and_depend_on_the_key():
    counts = np.bincount(IDS.slots(np.arange(100_000), 50), minlength=50)
    assert np.sum((counts - 2000) ** 2 / 2000) < 110  # chi-squared of 49 degrees of freedom, beyond 1e-6
    other = tables.hashed("id").slots(np.arange(1000), 2**40)
    assert not np.any(IDS.slots(np.arange(1000), 2**40) == other)
    assert repr(KEY) not in repr(IDS)


def test_an_id_has_one_slot_whatever_holds_it():
    whole = [7, 2**53 - 1, -5]
    expected = IDS.slots(np.array(whole), SLOTS).tolist()
    for values in (
        np.array(whole, object), np.float64(whole), pa.array(whole), pa.array([*whole, None])[:3],
        pa.array(whole, pa.float64()),
    ):  # fmt: skip
        slots = IDS.slots(values, SLOTS) if isinstance(values, np.ndarray) else arrow._to_slots(values, IDS, SLOTS)
        assert slots.tolist() == expected
    wide = arrow._to_slots(pa.array([2**64 - 5], pa.uint64()), IDS, SLOTS)
    assert wide.tolist() == IDS.slots(np.array([2**64 - 5], np.uint64), SLOTS).tolist()
    texts = ["Ann", "Bob", "é", "Ann"]
    slots = IDS.slots(np.array(texts, object), SLOTS).tolist()
    assert slots[0] == slots[3]
    for kind in (pa.string(), pa.large_string(), pa.binary()):
        values = pa.array([text.encode() for text in texts] if kind == pa.binary() else texts, kind)
        for column in (values, values.dictionary_encode()):
            assert arrow._to_slots(column, IDS, SLOTS).tolist() == slots


def test_a_missing_id_is_nobodys():
    for values in (np.array([None, np.nan, pd.NA, 2.5, [1]], object), np.array([np.nan, np.inf, 2.0**60, 0.5])):
        assert set(IDS.slots(values, SLOTS).tolist()) == {-1}
    for column in (
        pa.array([None], pa.int64()), pa.array([None], pa.string()), pa.array([None], pa.string()).dictionary_encode(),
        pa.array([None, 2.5]), pa.nulls(2),
    ):  # fmt: skip
        assert set(arrow._to_slots(column, IDS, SLOTS).tolist()) == {-1}


def write(folder, frame, files=2):
    folder.mkdir()
    for number, part in enumerate(np.array_split(np.arange(len(frame)), files)):
        pq.write_table(pa.Table.from_pandas(frame.iloc[part], preserve_index=False), folder / f"{number}.parquet")
    return folder


def loss(point, batch):
    return jnp.nan_to_num(jnp.nanmean(jnp.abs(batch["x"] - point[0]), axis=1), nan=0.0)


def search(table):
    run = {"key": jax.random.key(3), "insecure_key": True}
    options = {"loss_range": (0, 4), "search": Search(method="in_order", steps=8), **run}
    return minimize(loss, table, [(0, 10)], epsilon=3.0, delta=1e-6, **options)


def grouped(frame):
    """Columns of slots by a plain loop."""
    rows = [[] for _ in range(SLOTS)]
    for one, x in zip(IDS.slots(frame["id"].to_numpy(), SLOTS).tolist(), frame["x"], strict=True):
        rows[one].append(x)
    column = np.full((SLOTS, MOST), np.nan)
    for slot, own in enumerate(rows):
        column[slot, : min(len(own), MOST)] = sorted(own)[:MOST]
    return tables.arrays({"x": column})


def test_arrays_files_and_dask_release_the_same(tmp_path):
    given_people = {"person": IDS, "users": SLOTS, "max_rows": MOST}
    text = FRAME.assign(id=FRAME["id"].astype(str))
    releases = [
        search(table).release
        for table in (
            grouped(FRAME),
            tables.parquet(write(tmp_path / "numbers", FRAME), **given_people),
            tables.dask(dd.from_pandas(FRAME.sample(frac=1, random_state=1), npartitions=3), **given_people),
        )
    ]
    of_text = [
        search(table).release
        for table in (
            grouped(text),
            tables.parquet(write(tmp_path / "text", text), **given_people),
            tables.dask(dd.from_pandas(text, npartitions=2), **given_people),
        )
    ]
    for release in releases:
        assert jax.tree.all(jax.tree.map(np.array_equal, release, releases[0]))
    for release in of_text:
        assert jax.tree.all(jax.tree.map(np.array_equal, release, of_text[0]))
    assert 2.0 < float(releases[0].point[0]) < 4.0


def test_the_rows_of_one_id_move_one_slot(tmp_path):
    """Other rows, more rows and no row: the neighbours of the guarantee."""
    one = FRAME["id"].iloc[0]
    slot = int(IDS.slots(np.array([one]), SLOTS)[0])
    others = [
        FRAME[FRAME["id"] != one],
        FRAME.assign(x=FRAME["x"].where(FRAME["id"] != one, -9.0)),
        pd.concat([FRAME, pd.DataFrame({"id": [one] * 50, "x": -7.0})]),
    ]
    people = _people.People("id", SLOTS, MOST, IDS)

    def columns(frame):
        part = pa.Table.from_pandas(frame, preserve_index=False).combine_chunks().to_batches()[0]
        return _people.group_rows([arrow.to_people(part, ["x"], people)], people, 0, SLOTS)["x"]

    before = columns(FRAME)
    for frame in others:
        moved = np.any(~((before == columns(frame)) | (np.isnan(before) & np.isnan(columns(frame)))), axis=1)
        assert np.flatnonzero(moved).tolist() == [slot]
    # A person in the place of another with another id moves two: the guarantee says so.
    replaced = columns(FRAME.assign(id=FRAME["id"].where(FRAME["id"] != one, 12345)))
    moved = np.any(~((before == replaced) | (np.isnan(before) & np.isnan(replaced))), axis=1)
    assert np.sum(moved) == 2
    table = tables.parquet(write(tmp_path / "rows", FRAME), person=IDS, users=SLOTS, max_rows=MOST)
    assert assumptions.ONE_ID in search(table).guarantee.assumptions
    assert table.check().rows == len(FRAME)


def test_what_is_no_id_is_refused(tmp_path):
    folder = write(tmp_path / "rows", FRAME)
    people = {"users": SLOTS, "max_rows": MOST}
    text = write(tmp_path / "text", FRAME.assign(id=FRAME["id"].astype(str)))
    with pytest.raises(ValueError, match=r"for ids of any kind, give person=tables\.hashed\('id'\)"):
        tables.parquet(text, person="id", **people)
    with pytest.raises(ValueError, match="must name a column of integers or text"):
        tables.parquet(folder, ["id"], person=tables.hashed("x"), **people)
    mixed = [str(folder / "0.parquet"), str(text / "0.parquet")]
    with pytest.raises(ValueError, match="integers in all files, or text in all"):
        tables.parquet(mixed, ["x"], person=IDS, **people)
    for wrong, kind in (({"column": 3}, TypeError), ({"key": "k"}, TypeError), ({"key": b"k"}, ValueError)):
        with pytest.raises(kind):
            tables.hashed(**{"column": "id"} | wrong)
