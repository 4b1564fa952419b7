"""People with ids of any kind: an id has one slot in every kind of table, and its rows move nothing of other slots."""

import decimal

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
from jaxdpbo.tables import arrow, dask_table, hashed_ids
from jaxdpbo.tables import people as _people

KEY = bytes(range(16))
IDS = tables.hashed("id", key=KEY)
RNG = np.random.default_rng(0)
PEOPLE, ROWS, SLOTS, MOST = 60, 300, 100, 3
NUMBERS = RNG.integers(-(2**52), 2**52, PEOPLE)
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
    whole = [7, 2**53 - 1, -5, 1]
    for exact in (True, False):
        expected = IDS.slots(np.array(whole), SLOTS, exact=exact).tolist()
        for values in (
            np.array(whole, object), np.float64(whole), np.array([str(one) for one in whole], object),
            np.array([f"{one}.0" for one in whole], object), np.array([np.int64(one) for one in whole], object),
            np.array([decimal.Decimal(one) for one in whole], object), np.array([7, 2**53 - 1, -5, True], object),
        ):  # fmt: skip
            assert IDS.slots(values, SLOTS, exact=exact).tolist() == expected
        for column in (
            pa.array(whole), pa.array([*whole, None])[:4], pa.array(whole, pa.float64()),
            pa.array([str(one) for one in whole]), pa.array([str(one).encode() for one in whole]).dictionary_encode(),
        ):  # fmt: skip
            assert arrow._to_slots(column, IDS, SLOTS, exact).tolist() == expected
    assert len(set(IDS.slots(np.array(["1_23", "12_3", "123", b"1_23"], object), 2**40).tolist())) == 3
    full = pa.DictionaryArray.from_arrays(pa.array([127, None], pa.int8()), pa.array([str(one) for one in range(128)]))
    assert arrow._to_slots(full, IDS, SLOTS, True).tolist() == [IDS.slots(np.array([127]), SLOTS)[0], -1]
    texts = ["Ann", "Bob", "é", "Ann"]
    slots = IDS.slots(np.array(texts, object), SLOTS).tolist()
    assert slots[0] == slots[3]
    for kind in (pa.string(), pa.large_string(), pa.binary()):
        values = pa.array([text.encode() for text in texts] if kind == pa.binary() else texts, kind)
        for column in (values, values.dictionary_encode()):
            assert arrow._to_slots(column, IDS, SLOTS, True).tolist() == slots


def test_ids_of_64_bits_are_apart_where_their_type_is_declared_and_else_count_as_floats():
    wide, count = [2**60 + 1, 2**60 + 2, 2**63 + 4096, 2**64 - 5], 2**40
    exact = IDS.slots(np.array(wide, np.uint64), count).tolist()
    assert len(set(exact)) == 4
    assert exact == IDS.slots(np.array(wide, object), count).tolist()
    assert exact == arrow._to_slots(pa.array(wide, pa.uint64()), IDS, count, True).tolist()
    rounded = IDS.slots(np.array(wide, np.uint64), count, exact=False).tolist()
    for values in (np.float64(wide), np.array(wide, object), np.array([str(one) for one in wide], object)):
        assert IDS.slots(values, count, exact=False).tolist() == rounded


def test_a_missing_id_is_nobodys():
    for values in (np.array([None, np.nan, pd.NA, [1]], object), np.array([np.nan])):
        assert set(IDS.slots(values, SLOTS).tolist()) == {-1}
    for column in (
        pa.array([None], pa.int64()), pa.array([None], pa.string()), pa.array([None], pa.string()).dictionary_encode(),
        pa.array([None, np.nan], pa.float64()), pa.nulls(2),
    ):  # fmt: skip
        assert set(arrow._to_slots(column, IDS, SLOTS, True).tolist()) == {-1}


@pytest.mark.parametrize("base", [0, 2**60], ids=["small", "wide"])
@pytest.mark.parametrize("odd", ["text", "missing", "a fraction"])
def test_the_id_of_one_row_moves_no_other_row_of_its_part(tmp_path, base, odd):
    """A reader turns the ids of a whole part into text or floats for one odd cell."""
    ids = np.arange(50) * 7919 + base

    def slots(frame):
        table = dd.from_pandas(frame, npartitions=1, sort=False)
        people = _people.People("id", 100_000, MOST, IDS)
        (rows,) = dask_table._read_people(table.compute(), ["x"], people)
        return rows.persons

    plain = pd.DataFrame({"id": ids, "x": 1.0})
    cell = {"text": "x7", "missing": "", "a fraction": "7.5"}[odd]
    path = tmp_path / "rows.csv"
    pd.concat([plain.astype({"id": str}), pd.DataFrame({"id": [cell], "x": [1.0]})]).to_csv(path, index=False)
    np.testing.assert_array_equal(slots(pd.read_csv(path))[:50], slots(plain))


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


def shape_of(table):
    """How many slots hold how many rows, and a sum of their means."""

    def count(batch):
        x = np.asarray(batch.columns["x"])[np.asarray(batch.present)]
        held = np.sum(~np.isnan(x), axis=1)
        means = np.nansum(x, axis=1) / np.maximum(held, 1)
        return np.append(np.bincount(held, minlength=MOST + 1), np.rint(1e6 * means).sum()).astype(np.int64)

    return np.asarray(table.add(count).total)


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
    of_numbers = [
        (search(table).release, shape_of(table))
        for table in (
            grouped(FRAME),
            tables.parquet(write(tmp_path / "numbers", FRAME), **given_people),
            tables.dask(dd.from_pandas(FRAME.sample(frac=1, random_state=1), npartitions=3), **given_people),
        )
    ]
    of_text = [
        (search(table).release, shape_of(table))
        for table in (
            grouped(text),
            tables.parquet(write(tmp_path / "text", text), **given_people),
            tables.dask(dd.from_pandas(text, npartitions=2), **given_people),
        )
    ]
    for found in (*of_numbers, *of_text):
        assert jax.tree.all(jax.tree.map(np.array_equal, found, of_numbers[0]))
    assert 2.0 < float(of_numbers[0][0].point[0]) < 4.0


def test_the_rows_of_one_id_move_one_slot(tmp_path):
    """Other rows, more rows and no row: the neighbours of the guarantee."""
    one = FRAME["id"].iloc[0]
    slot = int(IDS.slots(np.array([one]), SLOTS)[0])
    others = [
        FRAME[FRAME["id"] != one],
        FRAME.assign(x=FRAME["x"].where(FRAME["id"] != one, -9.0)),
        pd.concat([FRAME, pd.DataFrame({"id": [one] * 50, "x": -7.0})]),
    ]
    people = _people.People("id", SLOTS, MOST, IDS, exact=True)

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
    for wrong, kind in (({"column": 3}, TypeError), ({"key": "k"}, TypeError), ({"key": b"k"}, ValueError)):
        with pytest.raises(kind):
            tables.hashed(**{"column": "id"} | wrong)
