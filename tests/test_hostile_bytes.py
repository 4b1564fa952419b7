"""Bytes that others may have written: a parser of JSON returns what it states, or raises what it states.

Mutants of honest files and messages: changed bytes, and changed values, keys and types. Each parser is shipped code.
"""

import contextlib
import hashlib
import json
import random
import sys
import time
import tracemalloc
import zlib
from base64 import b64encode
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdpbo import dp_gibo, ledger, outsourcing, silos, transforms
from jaxdpbo.drivers import recorded_run, table_scan
from jaxdpbo.guarantee import recording as _recording
from jaxdpbo.ledger import ledger_file
from jaxdpbo.outsourcing import protocol
from jaxdpbo.silos import agreement as _agreement
from jaxdpbo.silos import conversation, messages, roster, sockets
from jaxdpbo.silos import terms as silo_terms

DEEP = "[" * 100_000 + "]" * 100_000
RAW = ["NaN", "-Infinity", "1e999", "9" * 5000, DEEP, '{"a": 1, "a": 2}', "1e9999999999", "-0", "1.0", "1e2"]
VALUES = [
    None, True, False, 7, -1, 2**70, 10**400, 0.5, -0.5, "", "x", "x" * 300, "\ud800", "\x1b[2J", "\0", "1/0",
    "1e999999999", [], [[]], {}, {"a": 1}, ["x"], [1], [None], [[1.0, 2.0]],
]  # fmt: skip
KEYS = ["a", "inode", "id", "folder", "kind", "paid", "summary_delta", "run", "unit", "users", "name", "events"]


def places(value, path=()):
    """The path of each value inside a value."""
    yield path
    if isinstance(value, (dict, list)):
        for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(inner, (*path, name))


def mutate_value(rng, content):
    """JSON with one value replaced, one key added, removed, repeated or renamed, or one element repeated."""
    value = json.loads(content)
    *outer, last = rng.choice([path for path in places(value) if path] or [(0,)])
    holder = value
    for name in outer:
        holder = holder[name]
    way = rng.random()
    if way < 0.7:
        holder[last] = "@@"
    elif way < 0.8 and isinstance(holder, dict):
        holder[rng.choice(KEYS)] = holder.pop(last)
    elif way < 0.9 and isinstance(holder, dict):
        holder[rng.choice(KEYS)] = "@@"
    elif isinstance(holder, dict):
        text = json.dumps(value, sort_keys=True)
        return text.replace(f'"{last}": ', f'"{last}": 0, "{last}": ', 1).encode()
    elif way < 0.9:
        holder.append(holder[last])
    else:
        del holder[last]
    odd = rng.choice([json.dumps(odd) for odd in VALUES] + RAW)
    return json.dumps(value, sort_keys=True).replace('"@@"', odd).encode()


def mutate_bytes(rng, content):
    """Bytes with a piece changed, removed, repeated or cut off."""
    made = bytearray(content)
    for _ in range(rng.randint(1, 3)):
        at, length = rng.randint(0, len(made)), rng.randint(0, 12)
        made[at : at + length] = rng.choice([b"", rng.randbytes(3), b'"', b"\n", b"{}", b"[[", b",0", bytes(made[:40])])
    return bytes(made[: rng.randint(0, len(made))] if rng.random() < 0.1 else made)


def mutants(content, count, seed):
    """Mutants of JSON; of lines of JSON, each of one line or of the whole."""
    rng, lines = random.Random(seed), content.splitlines()
    for _ in range(count):
        if rng.random() < 0.3:
            yield mutate_bytes(rng, content)
        else:
            changed = rng.randrange(len(lines))
            yield b"\n".join(mutate_value(rng, line) if i == changed else line for i, line in enumerate(lines))


def hashed(contents):
    """Lines of a ledger with right lengths and hashes, whatever they hold."""
    previous, lines = "0" * 64, []
    for content in contents:
        body = f'{{"previous": "{previous}", "length": {len(content)}, "content": {content.decode(errors="replace")}'
        previous = hashlib.sha256(body.encode(errors="surrogatepass")).hexdigest()
        lines.append(f'{body}, "hash": "{previous}"}}\n')
    return "".join(lines).encode(errors="surrogatepass")


def in_file(parse, folder):
    """A parser of a path as a parser of bytes."""

    def parse_content(content):
        path = folder / "file"
        path.unlink(missing_ok=True)
        path.write_bytes(content)
        return parse(path)

    return parse_content


def make_agreement(folder):
    cards = [silos.create_identity(folder / name, name, users=100) for name in "AB"]
    config = dp_gibo.config(users=200, steps=2, mu=1.0, clip_norm=1.0, bounds=[(0, 1)] * 3, memory="none")
    return cards, silos.agree("march", dp_gibo.algorithm, config, silos.make_roster(cards))


def honest_request(agreement):
    leaves = messages.write_leaves([np.asarray(leaf)[None] for leaf in jax.tree.leaves(agreement.template)])
    key = messages.Credential(b64encode(bytes(32)).decode(), b64encode(bytes(64)).decode())
    return messages.Request("march", 0, 0, {"A": key, "B": key}, leaves).to_bytes()


def a_roster(folder):
    silos.make_roster(make_agreement(folder)[0]).save(folder / "roster.json")
    return (folder / "roster.json").read_bytes(), in_file(silos.load_roster, folder), (ValueError,)


def an_agreement(folder):
    space = {"x": {"type": "real", "low": 0, "high": 1}}
    terms = {"run": "march", "settings": {"steps": 2, "mu": 1.0, "clip_norm": 1.0}, "space": space, "columns": ["x"]}
    silos.save_agreement(folder / "agreement.json", terms, silos.make_roster(make_agreement(folder)[0]))

    def parse(path):  # all but the programs of the search
        with mock.patch.multiple(silo_terms, agree=mock.DEFAULT, _expects=mock.Mock(return_value={})):
            silos.load_agreement(path)

    content = json.dumps(json.loads((folder / "agreement.json").read_text())).encode()  # in one line
    return content, in_file(parse, folder), (ValueError,)


def a_status(folder):
    del folder
    status = silos.Status("march", "waiting", 1, 3, 5, ("A",), ("B",), (), {"B": "no"}, healthy=False)
    return status.to_json().encode(), conversation.parse_status, (ValueError,)


def a_card(folder):
    content = json.dumps(make_agreement(folder)[0][0]._asdict()).encode()

    def parse(path):  # as ``jaxdpbo silo roster`` does
        return silos.make_roster([roster.load_card(path), silos.Member("Z", 1, b64encode(bytes(32)).decode())])

    return content, in_file(parse, folder), (ValueError,)


def a_request(folder):
    _, agreement = make_agreement(folder)
    like = jax.tree.leaves(agreement.template)

    def parse(content):
        return messages.read_leaves(messages.parse_request(content, agreement.largest_request).leaves, like)

    return honest_request(agreement), parse, (silos.Refused,)


def a_credential(folder):
    del folder
    content = b'{"name": "Bern", "public": "cHVi", "signature": "c2ln", "proof": ""}'
    return content, lambda content: sockets.parse_credential(b"C" + content), (silos.Refused,)


def a_record_of_a_server(folder):
    _, agreement = make_agreement(folder)
    count = len(table_scan.flatten(_agreement.make_zeros(agreement, agreement.template).whole))
    total = b64encode(bytes(8 * count)).decode()
    lines = [{"terms": agreement.digest.hex(), "seed": [1, 2]}, {"step": 0, "attempt": 0}, {"step": 0, "total": total}]

    def parse(path):
        with contextlib.suppress(silos.SiloError):  # nobody answers
            silos.run_silos(agreement, dict, lambda requests: {}, record=path)

    return "\n".join(map(json.dumps, lines)).encode(), in_file(parse, folder), (ValueError,)


def a_publication(folder):
    config = transforms.random_projection(dimension=2, projected=1, epsilon=1.0, delta=0.1)
    outsourcing.publish(folder / "released.jsonl", transforms.curate(None, config, np.zeros((3, 2))))
    content = (folder / "released.jsonl").read_bytes()
    return content, in_file(outsourcing.read_publication, folder), (outsourcing.ProtocolError,)


def a_message(folder):
    del folder

    def parse(content):
        return protocol.parse_answer(protocol.parse(content.decode(errors="replace")), 1, 4)

    return b'{"query": 1, "row": 2, "output": 0.5}', parse, (outsourcing.ProtocolError,)


def a_ledger(folder):
    """The contents of its lines, written with right hashes: readers and writers."""
    path = folder / "ledger"
    ledger.create(path, notion="dp", level=3, delta="1e-6")
    spend = ledger.Spend(
        (ledger.Event("dp", 1, "1e-7"),), "replace_one", ledger.USERS, assumptions=("a",), ex_post=True
    )
    for run in ("one", "two"):
        ledger.charge(path, run, "a mean", spend, fingerprint="f")
        ledger_file.note(path, run, 1, {"draws": 1})
    ledger_file.store_release(path, "one", {"mean": 0.25}, paid="1/3")
    content = "\n".join(json.dumps(line) for line in ledger_file.read(path).lines).encode()
    inode = path.stat().st_ino

    def parse(mutant):
        with path.open("r+b") as file:  # the same inode, so that writers read on
            file.write(hashed(mutant.splitlines()))
            file.truncate()
        for mark in folder.glob("ledger-*.head"):
            with contextlib.suppress(ledger.LedgerError):
                mark.write_text(ledger.head(path))
        assert path.stat().st_ino == inode
        ledger.describe(path)
        ledger.charge(path, "three", "a mean", spend)
        ledger_file.note(path, "three", 1, {})

    return content, parse, (ledger.LedgerError,)


PARSERS = [
    a_roster, an_agreement, a_status, a_card, a_request, a_credential, a_record_of_a_server, a_publication, a_message,
    a_ledger,
]  # fmt: skip


@pytest.mark.parametrize("make", PARSERS)
def test_mutants_raise_what_a_parser_states_and_nothing_else(make, trials, tmp_path):
    content, parse, stated = make(tmp_path)
    parse(content)
    refused, count = 0, trials(f"mutants of {make.__name__.replace('_', ' ')}", 150, 10_000, 0)
    for mutant in mutants(content, count, 0):
        started = time.perf_counter()
        try:
            parse(mutant)
        except stated:
            refused += 1
        except BaseException as error:
            raise AssertionError(f"{type(error).__name__}: {error!s:.200} of {mutant!r:.600}") from error
        assert time.perf_counter() - started < 5, mutant[:300]
    assert refused > count // 3


def test_an_integer_of_a_million_digits_is_refused_also_where_python_reads_it():
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        with pytest.raises(ValueError, match="must be JSON of finite numbers"):
            ledger_file.parse_json(b"[" + b"9" * 10**6 + b"]")
    finally:
        sys.set_int_max_str_digits(limit)


@pytest.mark.parametrize("odd", [*RAW[:6], '{"a": NaN}', '{"a": [1e999]}'])
def test_json_that_readers_take_differently_is_refused_and_not_quoted(odd):
    for content in (odd, odd.encode()):
        with pytest.raises(ValueError, match="must be JSON of finite numbers") as refusal:
            ledger_file.parse_json(content)
        assert odd[:30] not in str(refusal.value)


def test_the_reader_takes_what_python_writes_and_no_more_than_it_may():
    deep = eval("[" * ledger_file.MAX_DEPTH + "]" * ledger_file.MAX_DEPTH)
    for value in (deep, {"a": [1, -2.5e-300, "NaN", None, True, 10**4000]}, 0, "x"):
        assert ledger_file.parse_json(json.dumps(value)) == value
    with pytest.raises(ValueError, match="nested"):
        ledger_file.parse_json(json.dumps([deep]))
    with pytest.raises(ValueError, match="8 bytes or fewer"):
        ledger_file.parse_json(b'"1234567"', most=8)
    with pytest.raises(ValueError, match="nested"):
        ledger_file.parse_json(b'"\xff"')


def test_a_ledger_holds_as_deep_a_payload_as_it_reads(tmp_path):
    ledger.create(path := tmp_path / "ledger", mu=9)
    deep = eval("[" * (ledger_file.MAX_DEPTH - 1) + "]" * (ledger_file.MAX_DEPTH - 1))
    for run, payload in (("one", {"a": deep}), ("two", {"a": [deep]}), ("three", {1: 0, "1": 0})):
        ledger.charge(path, run, "a mean", ledger.Spend((ledger.Event("gdp", 1),), "replace_one", ledger.USERS))
        with contextlib.nullcontext() if run == "one" else pytest.raises(ValueError, match="content must be JSON"):
            ledger_file.store_release(path, run, payload)
        assert len(ledger.account(path).spends) == ("one", "two", "three").index(run) + 1


def test_a_line_that_holds_a_gigabyte_of_zeros_takes_no_gigabyte(tmp_path):
    """A public state is a short line: zlib makes 1.1 GB of 780 KB."""
    like = {"a": jnp.zeros(1000)}
    config = dp_gibo.config(users=3, steps=2, mu=1.0, clip_norm=1.0, bounds=[(0, 1)])
    ledger.create(tmp_path / "ledger", mu=9)
    recording, guarantee = _recording.Recording(tmp_path / "ledger", "march"), dp_gibo.algorithm.privacy(config)

    def begin():
        return recorded_run.begin_record(
            recording, dp_gibo.algorithm, config, guarantee, like, recorded_run.Subject(recorded_run.UNKNOWN, "", "")
        )

    begin()
    packed = b64encode(zlib.compress(bytes(2**28), 9)).decode()
    ledger_file.note(tmp_path / "ledger", "march", 1, {"draws": "step 0", "loss": recorded_run.UNKNOWN})
    ledger_file.note(tmp_path / "ledger", "march", 2, {"public": packed})
    tracemalloc.start()
    try:
        with pytest.raises(ledger.DamagedLedgerError, match="has other shapes"):
            begin()
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 2**25


def test_a_long_request_is_refused_before_it_is_read(tmp_path):
    _, agreement = make_agreement(tmp_path)
    honest = honest_request(agreement)
    assert messages.parse_request(honest, agreement.largest_request).run == "march"
    assert 2 * len(honest) <= agreement.largest_request < 2 * len(honest) + 10
    long = json.dumps(json.loads(honest) | {"leaves": [["x", [], "x"]] * 1_000_000}, sort_keys=True).encode()
    tracemalloc.start()
    try:
        with pytest.raises(silos.Refused, match="longer than any of this run"):
            messages.parse_request(long, agreement.largest_request)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 2**16
