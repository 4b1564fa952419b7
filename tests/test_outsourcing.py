"""Two parties: what passes between them, what is refused and why, and that a stop loses and repeats nothing."""

import argparse
import contextlib
import fcntl
import hashlib
import hmac
import io
import json
import math
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transform_cases import KINDS

from jaxdpbo import commands, outsourcing, transforms
from jaxdpbo.commands import curator, modeler
from jaxdpbo.guarantee import assumptions, guarantees
from jaxdpbo.outsourcing import ProtocolError

ROOT = Path(__file__).parent.parent
INPUTS = np.random.default_rng(0).uniform(-3, 3, (40, 2))
OUTPUTS = np.sin(INPUTS).sum(axis=1)
QUERIES = 6
OPTIONS = {"lengthscale": 1.0, "noise_variance": 1e-3}


def curated(kind="planar_laplace"):
    return transforms.curate(jax.random.key(0), KINDS[kind], INPUTS, insecure_key=True)


@pytest.fixture
def published(tmp_path):
    outsourcing.publish(tmp_path / "released.jsonl", curated())
    return outsourcing.read_publication(tmp_path / "released.jsonl")


class Evaluations:
    """The function, and which rows it was evaluated at."""

    def __init__(self):
        self.rows = []

    def __call__(self, row):
        self.rows.append(row)
        return OUTPUTS[row]


def opened(tmp_path, published, private=b"x", queries=QUERIES):
    return outsourcing.open_journal(tmp_path / "record.jsonl", published, private, queries)


def said_to(tmp_path, published, *lines, evaluate=OUTPUTS.__getitem__):
    """What a curator says to these lines, its greeting included."""
    replies = []
    with opened(tmp_path, published) as record:
        outsourcing.serve(record, evaluate, lines, replies.append)
    return [json.loads(reply) for reply in replies]


def ask(query, row):
    return json.dumps({"query": query, "row": row})


def conversation(tmp_path, published, evaluate, cut=math.inf, key=0):
    """Curator and modeler over a pair of connected streams, cut after so many answers."""
    ours, theirs = socket.socketpair()

    def curate():
        with theirs, theirs.makefile("rw") as stream, opened(tmp_path, published) as record:
            outsourcing.serve(record, evaluate, outsourcing.read_lines(stream), outsourcing.sender(stream))

    def answered(_):
        nonlocal cut
        cut -= 1
        if cut <= 0:
            raise KeyboardInterrupt

    curator = threading.Thread(target=curate)
    curator.start()
    try:
        with ours, ours.makefile("rw") as stream:
            return outsourcing.search(
                published, outsourcing.read_lines(stream), outsourcing.sender(stream), key=jax.random.key(key),
                on_answer=answered, **OPTIONS,
            )  # fmt: skip
    finally:
        curator.join(timeout=60)
        assert not curator.is_alive()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_published_is_read_back(tmp_path, kind):
    released = curated(kind)
    outsourcing.publish(tmp_path / "z", released)
    read = outsourcing.read_publication(tmp_path / "z").curated
    np.testing.assert_array_equal(read.z, released.z)
    assert read.guarantee == guarantees.guarantee_from_dict(released.guarantee.to_dict())
    assert read.metadata.distribution == released.metadata.distribution
    assert (read.metadata.kind, read.metadata.scale) == (kind, released.metadata.scale)
    if released.metadata.projection is not None:
        np.testing.assert_array_equal(read.metadata.projection, released.metadata.projection)


def test_a_second_release_is_refused_and_the_first_stays(tmp_path):
    path = tmp_path / "z"
    outsourcing.publish(path, curated())
    before = path.read_bytes()
    with pytest.raises(FileExistsError):
        outsourcing.publish(path, curated("gaussian"))
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"version": 1', '"version": 2', "z speaks version 2, this is version 1"),
        ("jaxdpbo.outsourcing", "other", "z does not speak jaxdpbo.outsourcing"),
        ('"rows": 40', '"rows": 41', "z has 40 rows, its header says 41"),
        ('"dimension": 2', '"dimension": 3', "z is damaged: a row must be 3 finite numbers"),
        ('"notion": "metric_dp"', '"notion": "perfect"', "z is damaged: notion must be one of"),
        ('"kind": "planar_laplace", "scale": 0.5', '"kind": "none", "scale": 0.5', "z is damaged: kind must be one of"),
        ('"distribution": ', '"lore": ', "z is damaged: 'distribution'"),
        ("\n[", "\n[NaN, ", "z is damaged: a row must be 2 finite numbers"),
        ("\n[", "\n[1e308, 1]\n[", "z is damaged: rows must be finite numbers of float32"),
        (
            '"projection": null',
            '"projection": [[1e308, 0], [0, 1]]',
            "z is damaged: projection must be finite numbers of",
        ),
        ('"projection": null', '"projection": [1, 2]', "z is damaged: projection must have the shape (d, 2), got (2,)"),
        ('"projection": null', '"projection": [["a", "b"]]', "z is damaged: projection must"),
        ('"projection": null, "scale": ', '"projection": null, "scale": -', "z is damaged: scale must be positive"),
        ('{"schema"', '["schema"', "a line must be a JSON object"),
    ],
)
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_damaged_file_is_refused(tmp_path, old, new, message):
    path = tmp_path / "z"
    outsourcing.publish(path, curated())
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    with jax.enable_x64(False), pytest.raises(ProtocolError) as refusal:
        outsourcing.read_publication(path)
    assert str(refusal.value).startswith(message)


def test_a_file_cut_short_is_refused(tmp_path, published):
    path = tmp_path / "released.jsonl"
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(ProtocolError):
        outsourcing.read_publication(path)
    path.write_bytes(b"")
    with pytest.raises(ProtocolError):
        outsourcing.read_publication(path)


def test_the_modeler_finds_a_good_row_and_the_curator_evaluates_each_once(tmp_path, published):
    evaluate = Evaluations()
    found = conversation(tmp_path, published, evaluate)
    assert [answer.row for answer in found.answers] == evaluate.rows
    assert found.output == OUTPUTS[found.row] == max(OUTPUTS[evaluate.rows])
    assert len(found.answers) == QUERIES


@pytest.mark.parametrize("cut", range(1, QUERIES))
def test_a_search_that_was_cut_goes_on_as_if_it_had_not_been(tmp_path, published, cut):
    whole = Evaluations()
    conversation(tmp_path, published, whole)
    (tmp_path / "record.jsonl").unlink()
    evaluate = Evaluations()
    with pytest.raises(KeyboardInterrupt):
        conversation(tmp_path, published, evaluate, cut=cut)
    found = conversation(tmp_path, published, evaluate, key=1)
    assert evaluate.rows == whole.rows == [answer.row for answer in found.answers]


def test_a_row_asked_for_again_is_answered_without_another_evaluation(tmp_path, published):
    evaluate = Evaluations()
    replies = said_to(tmp_path, published, ask(1, 5), ask(2, 7), ask(3, 5), evaluate=evaluate)
    assert [reply["output"] for reply in replies[1:]] == OUTPUTS[[5, 7, 5]].tolist()
    assert evaluate.rows == [5, 7]


REFUSALS = {
    ask(2, 0): "query must be 1, the next number, got 2",
    ask(0, 0): "query must be an integer from 1 to 6",
    ask(7, 0): "query must be an integer from 1 to 6",
    ask(1, 40): "row must be an integer from 0 to 39",
    ask(1, -1): "row must be an integer from 0 to 39",
    ask(1, 2.0): "row must be an integer from 0 to 39",
    ask(1, True): "row must be an integer from 0 to 39",
    ask("1", 2): "query must be an integer from 1 to 6",
    '{"query": 1}': "a query must be",
    '{"query": 1, "row": 2, "output": 3}': "a query must be",
    '{"answer": 40}': "answer must be an integer from 0 to 39",
    "{": "a line must be a JSON object",
    "": "a line must be a JSON object",
    "[1, 2]": "a line must be a JSON object",
    "[" * 100_000: "a line must be a JSON object",
}


@pytest.mark.parametrize("line", REFUSALS, ids=range(len(REFUSALS)))
def test_a_refused_query_costs_nothing(tmp_path, published, line):
    evaluate = Evaluations()
    _, refusal, answer = said_to(tmp_path, published, line, ask(1, 3), evaluate=evaluate)
    assert refusal["error"].startswith(REFUSALS[line])
    assert answer == {"query": 1, "row": 3, "output": OUTPUTS[3]}
    assert evaluate.rows == [3]


def test_a_repeated_query_and_one_too_many_are_refused(tmp_path, published):
    replies = said_to(tmp_path, published, ask(1, 3), ask(1, 4), *(ask(k, k) for k in range(2, 8)))
    assert replies[2] == {"error": "query 1 was answered before: the greeting has its answer"}
    assert "must be an integer from 1 to 6" in replies[-1]["error"]
    assert len(said_to(tmp_path, published)[0]["answers"]) == QUERIES


@given(
    st.lists(st.text() | st.recursive(st.none() | st.integers() | st.floats() | st.text(), st.lists).map(json.dumps))
)
def test_nothing_that_is_said_breaks_the_curator(tmp_path_factory, lines):
    folder = tmp_path_factory.mktemp("said")
    outsourcing.publish(folder / "z", curated())
    evaluate = Evaluations()
    replies = said_to(folder, outsourcing.read_publication(folder / "z"), *lines, evaluate=evaluate)
    assert all(set(reply) == {"error"} for reply in replies[1:])
    assert not evaluate.rows


def test_an_evaluation_that_fails_is_refused_without_its_reason_and_may_be_asked_again(tmp_path, published):
    def fails(row):
        raise RuntimeError("the patient earns 31,415")

    (_, refusal) = said_to(tmp_path, published, ask(1, 3), evaluate=fails)
    assert refusal == {"error": "the evaluation of row 3 failed: ask again"}
    with opened(tmp_path, published) as record, pytest.raises(ProtocolError) as raised:
        outsourcing.curator._evaluate(record, fails, 3)
    assert raised.value.__cause__ is raised.value.__context__ is None
    assert said_to(tmp_path, published, ask(1, 3))[-1]["output"] == OUTPUTS[3]


def test_what_fails_is_told_of_as_many_rows_as_there_are_queries(tmp_path, published):
    """Each says something of a row, and costs no query."""

    def fails(row):
        raise RuntimeError

    replies = said_to(tmp_path, published, *(ask(1, row) for row in (0, *range(10), 3)), evaluate=fails)[1:]
    told = ["failed: ask again" in reply["error"] for reply in replies]
    assert told == [True] * (QUERIES + 1) + [False] * (10 - QUERIES) + [True]


def test_a_record_that_others_may_read_is_refused(tmp_path, published):
    said_to(tmp_path, published, ask(1, 3))
    (tmp_path / "record.jsonl").chmod(0o640)
    with pytest.raises(ProtocolError, match="must be closed to others"):
        said_to(tmp_path, published)


def test_an_output_that_is_no_number_is_none_and_the_search_goes_on(tmp_path, published):
    def partly(row):
        return math.nan if row % 2 else OUTPUTS[row]

    found = conversation(tmp_path, published, partly)
    assert found.row % 2 == 0
    assert {answer.output is None for answer in found.answers} <= {True, False}
    assert all((answer.output is None) == (answer.row % 2 == 1) for answer in found.answers)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"private": b"y"}, "the private data, or the source of the outputs, changed"),
        ({"queries": 7}, "the number of queries changed"),
        ({"released": True}, "the released file changed"),
    ],
)
def test_a_record_of_something_else_is_refused_and_kept(tmp_path, published, change, message):
    said_to(tmp_path, published, ask(1, 3))
    before = (tmp_path / "record.jsonl").read_bytes()
    if change.pop("released", False):
        published = published._replace(digest="0" * 64)
    with pytest.raises(ProtocolError, match=message), opened(tmp_path, published, **change):
        pass
    assert (tmp_path / "record.jsonl").read_bytes() == before


def test_a_line_that_was_being_written_is_dropped_and_another_is_not(tmp_path, published):
    said_to(tmp_path, published, ask(1, 3), ask(2, 4))
    path = tmp_path / "record.jsonl"
    whole = path.read_bytes()
    for length in range(len(whole) + 1):
        path.write_bytes(whole[:length])
        answers = said_to(tmp_path, published)[0]["answers"]
        assert len(answers) == max(0, whole[:length].count(b"\n") - 1)
        assert whole.startswith(path.read_bytes())
    path.write_bytes(whole.replace(b'"row": 3', b'"row": 99'))
    with pytest.raises(ProtocolError):
        said_to(tmp_path, published)


def test_a_record_that_a_curator_did_not_write_is_refused_and_left_alone(tmp_path, published):
    said_to(tmp_path, published, ask(1, 3))
    path = tmp_path / "record.jsonl"
    whole = path.read_bytes()
    for content, message in (
        (b"precious, and of one line", "record.jsonl must be a curator's record"),
        (b"precious,\nof two", "a line must be a JSON object"),
        (whole.replace(b'"query": 1, ', b'"query":1, '), "was not written by a curator"),
        (whole + whole.splitlines(keepends=True)[1] * QUERIES, "has 7 answers to 6 queries"),
        (whole.replace(b'"version": 1', b'"version": 2'), "record.jsonl speaks version 2, this is version 1"),
    ):
        path.write_bytes(content)
        with pytest.raises(ProtocolError, match=message):
            said_to(tmp_path, published)
        assert path.read_bytes() == content


def test_a_record_is_one_file_in_its_place(tmp_path, published):
    """A symbolic link is refused, a hard link lacks its key, and a file that was moved gets no more answers."""
    said_to(tmp_path, published, ask(1, 3))
    path, away = tmp_path / "record.jsonl", tmp_path / "away"
    for link, message in ((away.symlink_to, "away is a symbolic link"), (away.hardlink_to, "away.key is missing")):
        link(path)
        with pytest.raises(ProtocolError, match=message), outsourcing.open_journal(away, published, b"x", QUERIES):
            pass
        away.unlink()
    with opened(tmp_path, published) as record:
        path.rename(away)
        for place in (None, b"another"):
            if place is not None:
                path.write_bytes(place)
            replies = []
            outsourcing.serve(record, OUTPUTS.__getitem__, [ask(2, 7)], replies.append)
            assert "record.jsonl was moved, deleted or replaced" in replies[-1]
        away.replace(path)
        outsourcing.serve(record, OUTPUTS.__getitem__, [ask(2, 7)], replies.append)
        assert json.loads(replies[-1])["output"] == OUTPUTS[7]
    assert len(said_to(tmp_path, published)[0]["answers"]) == 2


def test_a_full_disk_refuses_the_query_and_the_record_goes_on(tmp_path, published, file_size_limit):
    """Before, the line stayed in a buffer, the next answer wrote both, and the record refused itself for ever."""
    said_to(tmp_path, published, ask(1, 3))
    path, replies = tmp_path / "record.jsonl", []
    before = path.read_bytes()
    said_to(tmp_path, published, ask(2, 7))
    after = path.read_bytes()
    for size in range(len(before), len(after)):
        path.write_bytes(before)
        with opened(tmp_path, published) as record:
            with file_size_limit(size):
                outsourcing.serve(record, OUTPUTS.__getitem__, [ask(2, 7), ask(2, 9)], replies.append)
            assert path.read_bytes() == before
            for reply in replies[-2:]:
                assert json.loads(reply)["error"].startswith("record.jsonl could not be written (File too large)")
            outsourcing.serve(record, OUTPUTS.__getitem__, [ask(2, 7), ask(3, 7)], replies.append)
        assert path.read_bytes().startswith(after)
        assert [answer["row"] for answer in said_to(tmp_path, published)[0]["answers"]] == [3, 7, 7]


def test_a_full_disk_begins_no_record_and_no_key(tmp_path, published, file_size_limit):
    path, key = tmp_path / "record.jsonl", tmp_path / "record.jsonl.key"
    for size in (0, 1, 31):
        with file_size_limit(size), pytest.raises(OSError, match="File too large"), opened(tmp_path, published):
            pass
        assert not key.exists()
    said_to(tmp_path, published)
    secret, header = key.read_bytes(), path.read_bytes()
    for size in (0, 1, 40, len(header) - 1):
        path.unlink()
        with (
            file_size_limit(size),
            pytest.raises(ProtocolError, match="could not be written"),
            opened(tmp_path, published),
        ):
            pass
        assert path.read_bytes() == b""
        said_to(tmp_path, published)
        assert (path.read_bytes(), key.read_bytes()) == (header, secret)
    assert {file.name for file in tmp_path.iterdir()} == {"released.jsonl", path.name, key.name}


@pytest.mark.parametrize("failing", ["fsync", "pwrite", "ftruncate"])
@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), KeyboardInterrupt()], ids=["error", "interrupt"])
def test_a_write_that_fails_anywhere_leaves_nothing_behind(tmp_path, published, monkeypatch, failing, error):
    def fails(descriptor, *arguments):
        if failing == "pwrite":
            pwrite(descriptor, arguments[0][:20], arguments[1])
        raise error

    pwrite, replies = os.pwrite, []
    with opened(tmp_path, published) as record:
        before = record.path.read_bytes()
        with monkeypatch.context() as patch:
            patch.setattr(os, failing, fails)
            if isinstance(error, OSError):
                outsourcing.serve(record, OUTPUTS.__getitem__, [ask(1, 3)], replies.append)
                assert "Input/output error" in replies[-1]
            else:
                with pytest.raises(KeyboardInterrupt):
                    outsourcing.serve(record, OUTPUTS.__getitem__, [ask(1, 3)], replies.append)
        assert record.path.read_bytes() == before
        outsourcing.serve(record, OUTPUTS.__getitem__, [ask(1, 4)], replies.append)
    (answer,) = said_to(tmp_path, published)[0]["answers"]
    assert answer["row"] == 4


def test_a_full_disk_publishes_the_rows_whole_or_not_at_all(tmp_path, file_size_limit):
    """Before, the part that fitted stayed in the folder beside the name."""
    path, released = tmp_path / "released.jsonl", curated()
    outsourcing.publish(path, released)
    whole = path.read_bytes()
    path.unlink()
    for size in [*range(0, len(whole), 97), len(whole) - 1]:
        with file_size_limit(size), pytest.raises(OSError, match="File too large"):
            outsourcing.publish(path, released)
        assert not list(tmp_path.iterdir())
    with file_size_limit(len(whole)):
        outsourcing.publish(path, released)
    assert path.read_bytes() == whole


def test_the_record_says_nothing_of_the_data_without_its_key(tmp_path, published):
    """Before, it held their plain SHA-256, with which whoever reads it can test guesses."""
    private = b"the patient earns 31,415"
    headers = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        with opened(tmp_path / folder, published, private) as record:
            secret = (tmp_path / folder / "record.jsonl.key").read_bytes()
            headers.append(json.loads(record.header))
            assert record.path.stat().st_mode & 0o777 == 0o600
            assert (tmp_path / folder / "record.jsonl.key").stat().st_mode & 0o777 == 0o600
        text = record.path.read_text()
        assert headers[-1]["private"] == hmac.new(secret, private, "sha256").hexdigest()
        assert hashlib.sha256(private).hexdigest() not in text
        assert secret.hex() not in text
    assert headers[0]["private"] != headers[1]["private"]


def test_a_record_without_its_key_is_refused_and_no_other_is_drawn(tmp_path, published):
    said_to(tmp_path, published, ask(1, 3))
    key = tmp_path / "record.jsonl.key"
    secret = key.read_bytes()
    key.unlink()
    with pytest.raises(ProtocolError, match=r"record\.jsonl\.key is missing, .* restore it from a copy"):
        said_to(tmp_path, published)
    assert not key.exists()
    for content, mode, message in (
        (secret[:-1], 0o600, "record.jsonl.key must be 32 bytes long"),
        (secret, 0o644, "record.jsonl.key must be closed to others"),
        (bytes(32), 0o600, "the private data, or the source of the outputs, changed"),
    ):
        key.write_bytes(content)
        key.chmod(mode)
        with pytest.raises(ProtocolError, match=message):
            said_to(tmp_path, published)
    key.write_bytes(secret)
    assert len(said_to(tmp_path, published)[0]["answers"]) == 1


def test_different_parts_are_framed_as_different_bytes():
    ones = np.ones((2, 3))
    large = np.arange(2000.0)
    parts = [
        (), (b"",), ("",), (b"", b""), (b"ab",), (b"a", b"b"), ("ab",), (b"4:text2:ab",), (ones,), (ones.T.copy(),),
        (ones.astype(np.float32),), (ones.tobytes(),), (ones, ones), (ones * (1 + 1e-12),), (large,),
        (np.where(large == 1000, 1000 + 1e-9, large),), (ones.astype(">f8"),),
    ]  # fmt: skip
    assert len({outsourcing.frame(*each) for each in parts}) == len(parts)
    assert outsourcing.frame(ones.T) == outsourcing.frame(ones.T.copy())
    for odd in (None, 1.0, [1.0], np.array([None]), np.zeros(1, "f8,i4")):
        with pytest.raises(TypeError, match="parts must be bytes, str or arrays of numbers"):
            outsourcing.frame(odd)


def test_a_modeler_that_only_says_nonsense_is_left(tmp_path, published):
    replies = said_to(tmp_path, published, *["nonsense"] * 1000)
    assert len(replies) == 1 + 100


def test_queries_fit_one_greeting(tmp_path, published):
    with (
        pytest.raises(ValueError, match="queries must be at most 10000, got 10001"),
        opened(tmp_path, published, queries=10_001),
    ):
        pass
    longest = {"query": 10_000, "row": 2**53, "output": -1.2345678901234567e-308}
    assert len(json.dumps([longest] * 10_000)) + 500 < outsourcing.MAX_LINE_LENGTH


def test_two_curators_do_not_serve_one_record(tmp_path, published):
    with (
        opened(tmp_path, published),
        pytest.raises(ProtocolError, match="another curator has"),
        opened(tmp_path, published),
    ):
        pass


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "the curator stopped: its record holds all answers"),
        ([{"version": 2}], "the curator speaks version 2"),
        ([{"schema": "x"}], "the curator does not speak"),
        ([{"released": "0"}], "the released file is not the curator's"),
        ([{"more": 1}], "the curator's greeting has other fields"),
        ([{}], "the curator stopped: its record holds all answers"),
        ([{}, {"error": "no"}], "the curator refused: no"),
        ([{}, {"query": 1, "row": 0}], "the answer to query 1 must hold query, row and output"),
        ([{}, {"query": 2, "row": 0, "output": 0}], "query must be an integer from 1 to 1"),
        ([{}, {"query": 1, "row": 0, "output": "x"}], "output must be a finite number or null"),
        ([{}, {"query": 1, "row": 39, "output": 1.0}], "query 1 asked for row"),
        ([{"answers": [3]}], "the answer to query 1 must hold query, row and output"),
        ([{"answers": None}], "the curator's answers must be a list of at most 6"),
        (
            [{"answers": [{"query": 1, "row": 0, "output": 0.0}] * 7}],
            "the curator's answers must be a list of at most 6",
        ),
        ([{"rows": 41}], "rows must be an integer from 40 to 40"),
        ([{"queries": "6"}], "queries must be an integer from 1 to 10000"),
        ([{"queries": 2**53}], "queries must be an integer from 1 to 10000"),
        ([{}, {"query": 1, "row": 0, "output": 10**400}], "output must be a finite number or null"),
        ([{}, {"error": "\x1b[2J" + "x" * 1000}], r"the curator refused: \?\[2Jx{196}$"),
        ([{"version": ["\x1b[2J"]}], "the curator speaks version"),
    ],
)
def test_the_modeler_refuses_what_no_curator_says(tmp_path, published, lines, message):
    (greeting,) = said_to(tmp_path, published)
    spoken = [json.dumps(greeting | line if number == 0 else line) for number, line in enumerate(lines)]
    with pytest.raises(ProtocolError, match=message):
        outsourcing.search(published, spoken, lambda line: None, key=jax.random.key(0), **OPTIONS)


def test_a_line_too_long_is_read_past(tmp_path):
    path = tmp_path / "said"
    path.write_text("a\n" + "x" * (3 * outsourcing.MAX_LINE_LENGTH) + "\nb\nc")
    with open(path) as stream:
        assert list(outsourcing.read_lines(stream)) == ["a\n", "", "b\n"]


def test_a_connection_that_is_reset_has_ended():
    class Reset(io.StringIO):
        def readline(self, size=-1):
            line = super().readline(size)
            if not line:
                raise ConnectionResetError
            return line

    assert list(outsourcing.read_lines(Reset("a\n"))) == ["a\n"]


def test_a_statement_is_read_back_or_refused():
    for kind in KINDS.values():
        statement = json.loads(json.dumps(kind.guarantee.to_dict()))
        assert guarantees.guarantee_from_dict(statement) == kind.guarantee.assuming(assumptions.UNCHECKED)
    with pytest.raises(ValueError, match="a guarantee has notion"):
        guarantees.guarantee_from_dict({"notion": "dp"})
    with pytest.raises(ValueError, match="level must not be NaN"):
        guarantees.guarantee_from_dict(KINDS["gaussian"].guarantee.to_dict() | {"level": math.nan})


# The two programs


def started(tmp_path, table, *more):
    """A modeler that starts the curator of a table."""
    curator = shlex.join(map(str, [ROOT / "scripts" / "curator", *table]))
    return subprocess.Popen(
        [ROOT / "scripts" / "modeler", tmp_path / "released.jsonl", "--lengthscale=1", "--curator", curator, *more],
        env=os.environ | {"JAXDPBO_PYTHON": sys.executable}, text=True, stderr=subprocess.PIPE,
    )  # fmt: skip


def curate(*arguments):
    """The curator in this process, which gets its standard streams back."""
    kept, streams = [os.dup(number) for number in range(3)], (sys.stdout, sys.stderr)
    try:
        commands.main(["curator", *map(str, arguments)])
    finally:
        if sys.stdout is not streams[0]:
            sys.stdout.close()
        sys.stdout, sys.stderr = streams
        for number, descriptor in enumerate(kept):
            os.dup2(descriptor, number)
            os.close(descriptor)


@contextmanager
def fed(tmp_path, line):
    """Standard input holds one line."""
    (tmp_path / "said").write_text(line + "\n")
    stdin = os.dup(0)
    try:
        with (tmp_path / "said").open() as lines:
            os.dup2(lines.fileno(), 0)
        yield
    finally:
        os.dup2(stdin, 0)
        os.close(stdin)


def wait_until(condition):
    until = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


SLOW = """
import atexit, math, os, subprocess, sys, time

print("loaded")
if "pytest" not in sys.modules:
    atexit.register(os.write, 2, b"patient at the end\\n")

def function(row, inputs):
    time.sleep(0.15)
    open({path!r}, "a").write(f"{{os.getpid()}} {{row}}\\n")
    print("patient", row, inputs)
    os.write(1, b"patient\\n")
    os.write(2, b"patient\\n")
    subprocess.run(["sh", "-c", "cat; echo patient"])  # a child that would read the modeler's lines
    return sum(map(math.sin, inputs))

other = function
"""


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A CSV file, a function that counts its evaluations in a file, and how to start a curator of them."""
    lines = [f"{x},{y}" for x, y in INPUTS]
    (tmp_path / "table.csv").write_text("x,y\n" + "\n".join(lines) + "\n")
    (tmp_path / "slow.py").write_text(SLOW.format(path=str(tmp_path / "evaluated")))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{ROOT}")
    return [
        tmp_path / "table.csv", "--inputs", "x,y", "--function", "slow:function", "--centre=0,0", "--unit=1",
        "--epsilon=2", "--queries=8", "--folder", tmp_path,
    ]  # fmt: skip


def test_the_two_programs_survive_being_killed(tmp_path, table):
    """First the curator, which the modeler starts again; then the modeler, whose curator ends by itself."""

    def evaluated():
        path = tmp_path / "evaluated"
        return [tuple(map(int, line.split())) for line in path.read_text().splitlines()] if path.exists() else []

    modeler = started(tmp_path, table)
    wait_until(lambda: len(evaluated()) >= 2)
    released = (tmp_path / "released.jsonl").read_bytes()
    first = evaluated()[0][0]
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: evaluated()[-1][0] != first and len(evaluated()) >= 5)
    second = evaluated()[-1][0]
    modeler.kill()
    modeler.wait()
    again = started(tmp_path, table)
    told = modeler.stderr.read() + again.communicate(timeout=120)[1]
    assert again.returncode == 0, told
    assert "the curator stopped after" in told
    with pytest.raises(ProcessLookupError):
        os.kill(second, 0)
    assert (tmp_path / "released.jsonl").read_bytes() == released
    record = [json.loads(line) for line in (tmp_path / "record.jsonl").read_text().splitlines()]
    answers = record[1:]
    assert [answer["query"] for answer in answers] == list(range(1, 9))
    rows = [row for _, row in evaluated()]
    assert len(rows) <= len(set(rows)) + 1  # the evaluation that the curator's kill cut off, once more
    best = max(answers, key=lambda answer: answer["output"])
    assert f"row {best['row']}: output" in told
    assert f"the modeler's answer is row {best['row']}" in told
    assert "guarantee: metric_dp 2, total variation at most 7.9e-31 (unit_distance 1)" in told
    assert assumptions.KEY_SECRET not in told


def test_the_modeler_hears_nothing_that_the_owners_code_prints(tmp_path, table):
    """The curator's standard error may be the modeler's: it is where ssh passes it on."""
    modeler = started(tmp_path, table)
    told, log = modeler.communicate(timeout=120)[1], tmp_path / "curator.log"
    assert modeler.returncode == 0, told
    assert "patient" not in told
    assert "loaded" not in told
    kept = log.read_text()
    assert kept.count("loaded") == 1
    assert kept.count("patient") == 4 * 8 + 1
    assert "the modeler's answer is row" in kept
    assert log.stat().st_mode & 0o777 == 0o600


FAILURES = {
    "an evaluation fails": ("def function(row, inputs): raise ValueError(f'patient {inputs}')", "failed: ask again"),
    "an evaluation exits": ("def function(row, inputs): raise SystemExit(f'patient {inputs}')", "failed: ask again"),
    "the module fails": ("raise OSError('patient')", "slow failed; for the reason see"),
    "the module lacks it": ("def __getattr__(name): raise ValueError('patient')", "slow failed; for the reason see"),
    "the module exits": ("import sys; sys.exit('patient')", "slow failed; for the reason see"),
    "the curator is stopped": (
        "def function(row, inputs):\n    try: 1 / 0\n    except ZeroDivisionError: raise KeyboardInterrupt('patient')",
        "curator: stopped; for the reason see",
    ),
}  # fmt: skip


@pytest.mark.parametrize("failure", FAILURES)
def test_why_the_owners_code_fails_is_in_the_log_alone(tmp_path, table, monkeypatch, capfd, failure):
    source, message = FAILURES[failure]
    (tmp_path / "slow.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "slow", raising=False)
    with fed(tmp_path, ask(1, 3)), suppress(SystemExit):
        curate(*table)
    answered, told = capfd.readouterr()
    assert message in answered + told
    assert "patient" not in answered + told
    assert "patient" in (tmp_path / "curator.log").read_text()


def test_why_the_owners_signal_handler_fails_is_in_the_log_alone(tmp_path, table, monkeypatch, capfd):
    """It may fail outside of an evaluation."""

    def fails(*_):
        raise ValueError("patient")

    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(outsourcing, "serve", fails)
    with pytest.raises(SystemExit, match=r"curator: stopped; for the reason see curator\.log"):
        curate(*table)
    assert "patient" not in "".join(capfd.readouterr())
    assert "patient" in (tmp_path / "curator.log").read_text()


FORKING = """
import os, time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

pool = ProcessPoolExecutor(1, get_context("fork"))

def function(row, inputs):
    open({path!r}, "a").write(f"{{os.getpid()}} {{row}}\\n")
    open({path!r} + "_by", "a").write(f"{{pool.submit(os.getpid).result()}}\\n")
    if row % 2 and not os.fork():
        return 31415.0  # in a child, which must answer nobody
    time.sleep(0.15)
    return float(inputs[0])
"""


def test_children_that_the_function_forks_answer_nobody_and_keep_nobody_waiting(tmp_path, table):
    """Workers of a pool outlive a killed curator, with all that they inherited."""
    path = tmp_path / "evaluated"
    (tmp_path / "slow.py").write_text(FORKING.format(path=str(path)))
    modeler = started(tmp_path, table)
    wait_until(lambda: path.exists() and len(path.read_text().splitlines()) >= 3)
    os.kill(int(path.read_text().split()[0]), signal.SIGKILL)
    told = modeler.communicate(timeout=120)[1]
    assert modeler.returncode == 0, told
    assert "starting it again" in told
    answers = [json.loads(line) for line in (tmp_path / "record.jsonl").read_text().splitlines()][1:]
    assert len(answers) == 8
    assert [answer["output"] for answer in answers] == [INPUTS[answer["row"], 0] for answer in answers]
    for worker in set((tmp_path / "evaluated_by").read_text().split()):
        with contextlib.suppress(ProcessLookupError):  # those of the killed curator wait for ever
            os.kill(int(worker), signal.SIGKILL)


FORKED = """
import os, sys
from pathlib import Path
from jaxdpbo import outsourcing
path = Path(sys.argv[1])
published = outsourcing.read_publication(path / "released.jsonl")
with outsourcing.open_journal(path / "record.jsonl", published, b"x", 6) as record:
    evaluate = lambda row: 1.0 if os.fork() else 1 / 0
    outsourcing.serve(record, evaluate, ['{"query": 1, "row": 3}'], outsourcing.sender(sys.stdout))
"""


def test_a_forked_child_that_leaves_the_function_says_nothing(tmp_path, published):
    """The same in Python, where the child has the caller's streams."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED, str(tmp_path)], capture_output=True, text=True, check=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    _, answer = done.stdout.splitlines()
    assert json.loads(answer) == {"query": 1, "row": 3, "output": 1.0}


def test_a_log_that_cannot_grow_stops_nothing(tmp_path, table, monkeypatch, capfd, file_size_limit):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "slow", raising=False)
    (tmp_path / "slow.py").write_text("def function(row, inputs):\n    print('patient' * 100)\n    return float(row)\n")
    curate(*table)  # publishes
    before = (tmp_path / "record.jsonl").stat().st_size
    (tmp_path / "curator.log").write_bytes(b"x" * 4096)
    with fed(tmp_path, ask(1, 3)), file_size_limit(4096):
        curate(*table)
    answer = json.loads(capfd.readouterr().out.splitlines()[-1])
    assert answer == {"query": 1, "row": 3, "output": 3.0}
    assert (tmp_path / "record.jsonl").stat().st_size > before


def test_of_two_curators_that_publish_at_once_the_second_serves_what_the_first_published(
    tmp_path, table, monkeypatch, capfd
):
    publish = outsourcing.publish

    def publish_second(path, released):
        publish(path, released)  # the other curator, a moment earlier
        publish(path, released)

    monkeypatch.setattr(outsourcing, "publish", publish_second)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "slow", raising=False)
    with fed(tmp_path, ask(1, 3)):
        curate(*table)
    assert json.loads(capfd.readouterr().out.splitlines()[-1])["query"] == 1


@pytest.mark.parametrize("wrong", ["open to others", "a link", "a pipe"])
def test_a_log_that_is_not_the_owners_alone_is_refused(tmp_path, table, wrong):
    log = tmp_path / "curator.log"
    if wrong == "a pipe":
        os.mkfifo(log, 0o600)
    elif wrong == "a link":
        log.symlink_to(tmp_path / "elsewhere")
    else:
        log.write_text("")
        log.chmod(0o644)
    with pytest.raises(SystemExit, match=r"curator: .*curator\.log"):
        curate(*table)
    assert not (tmp_path / "released.jsonl").exists()


def test_a_curator_waits_for_the_one_that_has_the_record_open(tmp_path, table, monkeypatch):
    """A curator that lost its modeler may still evaluate."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "slow", raising=False)
    curate(*table)  # publishes
    with open(tmp_path / "record.jsonl") as record:
        fcntl.flock(record, fcntl.LOCK_EX)
        modeler = started(tmp_path, table)
        told = "".join(iter(modeler.stderr.readline, "another curator has record.jsonl open: waiting for it to end\n"))
        assert "the modeler's answer is row" not in told
    assert "the modeler's answer is row" in modeler.communicate(timeout=120)[1]
    assert modeler.returncode == 0


def test_a_curator_is_started_again_as_long_as_it_answers_more(monkeypatch, capsys):
    contacts = [2, 3, 3, 4]

    def stop(arguments, curator, answers):
        answers.extend(range(contacts.pop(0)))
        raise outsourcing.CuratorStopped("stopped")

    monkeypatch.setattr(modeler, "start", lambda command: nullcontext())
    monkeypatch.setattr(modeler, "talk", stop)
    with pytest.raises(outsourcing.CuratorStopped):
        modeler.meet(None, [])
    assert contacts == [4]
    told = capsys.readouterr()
    assert told.out == ""  # all that is for the modeler's owner goes to standard error
    assert [line for line in told.err.splitlines() if "stopped after 3 answers: starting it again" in line]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--centre=0,0", "--unit=1"], "--inputs must be given with a table: it is public, and never estimated"),
        (["--inputs=x,y", "--unit=1"], "--centre must be given with a table"),
        (["--inputs=x,y", "--centre=0,0"], "--unit must be given with a table"),
        (["--inputs=x,y", "--centre=0,0", "--unit=1"], "give either --output or --function with a table"),
    ],
)
def test_a_table_is_not_read_before_all_public_numbers_are_given(tmp_path, capsys, given, said):
    with pytest.raises(SystemExit) as end:
        curate(tmp_path / "nowhere.csv", *given, "--epsilon=1", "--folder", tmp_path / "folder")
    assert end.value.code == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "folder").exists()


def test_the_curator_makes_the_published_projection_of_the_numbers_on_its_command_line():
    parser = argparse.ArgumentParser()
    curator.add_arguments(parser)
    line = "table.csv --centre=0,0,0 --unit=2 --transform=random_projection --projected=2 --epsilon=1 --delta=1e-4"
    made = curator.choose_transform(parser.parse_args(line.split()), 3)
    expected = transforms.random_projection(dimension=3, projected=2, epsilon=1.0, delta=1e-4, scale=2.0)
    assert (made.kind, made.dimension, made.scale, made.threshold) == ("random_projection", 2, 2.0, expected.threshold)
    assert made.guarantee.notion == "none"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("", "--curator must be a command"),
        ("'", "--curator: No closing quotation"),
        ("no-such-program", "no-such-program"),
        ("true", "the curator ended before its greeting"),
    ],
)
def test_a_modeler_without_a_curator_says_so(capsys, command, message):
    with pytest.raises(SystemExit) as end:
        commands.main(["modeler", "--lengthscale=1", "--curator", command])
    assert message in f"{end.value}{capsys.readouterr().err}"


def test_a_table_may_lack_cells_and_is_published_once(tmp_path, table, monkeypatch):
    """A cell that is no number makes its row the centre, and stops nobody."""
    monkeypatch.setattr(outsourcing, "serve", lambda *_: None)
    monkeypatch.syspath_prepend(tmp_path)
    lines = (tmp_path / "table.csv").read_text().splitlines()
    for changed in (["x,y", "many", *lines[2:]], ["x,y", ",2", *lines[2:]]):
        (tmp_path / "table.csv").write_text("\n".join(changed) + "\n")
        for each in tmp_path.glob("re*.jsonl*"):
            each.unlink()
        sys.modules.pop("slow", None)
        curate(*table)
        assert len(outsourcing.read_publication(tmp_path / "released.jsonl").curated.z) == len(INPUTS)
    for each in tmp_path.glob("record*"):
        each.unlink()
    (tmp_path / "table.csv").write_text("\n".join(lines[:-1]) + "\n")
    with pytest.raises(SystemExit, match="has 40 rows, the table has 39"):
        curate(*table)


CELLS = {"text": b"abc", "200,000 letters": b"x" * 200_000, "latin-1": b"M\xfcller", "lone quote": b'"abc',
         "lone CR": b"a\rb", "a comma": b"1,2", "a NUL": b"1\x00", "nothing": b""}  # fmt: skip


def test_a_cell_decides_nothing_that_the_modeler_can_see(tmp_path, monkeypatch, capfd):
    """Eight rows in each file: the same exit, the same sentences, and a release of the same shape."""
    monkeypatch.setattr(outsourcing, "serve", lambda *_: None)
    monkeypatch.chdir(tmp_path)
    seen = []
    for cell in [b"7.5", *CELLS.values()]:
        for each in (tmp_path / "out").glob("*"):
            each.unlink()
        rows = [b"a,b,y", *(b"%d,%d,%d" % (i, 2 * i, i % 5) for i in range(8))]
        rows[4] = cell + rows[4][1:]
        (tmp_path / "table.csv").write_bytes(b"\n".join(rows) + b"\n")
        curate(
            "table.csv", "--inputs=a,b", "--output=y", "--centre=3,6", "--unit=1", "--epsilon=5", "--queries=3",
            "--folder=out",
        )  # fmt: skip
        released = outsourcing.read_publication(tmp_path / "out" / "released.jsonl").curated
        seen.append(
            (capfd.readouterr(), released.z.shape, released.guarantee, (tmp_path / "out/curator.log").stat().st_size)
        )
    assert all(one == seen[0] for one in seen), seen


def test_a_column_without_numbers_is_for_the_owner_to_read(tmp_path, table, monkeypatch, capfd):
    monkeypatch.setattr(outsourcing, "serve", lambda *_: None)
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("slow", None)
    (tmp_path / "table.csv").write_text((tmp_path / "table.csv").read_text().replace(",", ",no"))
    (tmp_path / "table.csv").write_text((tmp_path / "table.csv").read_text().replace("x,noy", "x,y"))
    curate(*table)
    assert "has no number in column y" in (tmp_path / "curator.log").read_text()
    assert "has no number" not in "".join(capfd.readouterr())


HEADERS = {  # the first line, and the end of each
    "none": (b"Alice,Bob", b"\n"), "none, and CRLF": (b"Alice,Bob", b"\r\n"), "CR": (b"x,y", b"\r"),
    "CR, no header": (b"Alice,Bob", b"\r"), "CR twice": (b"x,y", b"\r\r\n"), "a CR inside": (b"x\rAlice,y", b"\n"),
    "empty": (b"", b"\n"), "UTF-16": (b"\xff\xfex\x00,\x00y\x00", b"\n"), "a NUL": (b"x,y,Alice\x00", b"\n"),
    "other separators": (b"x;y;Alice", b"\n"), "a name twice": (b"x,y,Alice,x", b"\n"),
}  # fmt: skip


@pytest.mark.parametrize("kind", HEADERS)
def test_a_header_that_is_refused_is_for_the_owner_to_read(tmp_path, table, capfd, kind):
    """It may be a row, or the whole table: standard error is the modeler's."""
    first, end = HEADERS[kind]
    rows = [b"4711,Carol", b"0815,Dave"]
    (tmp_path / "table.csv").write_bytes(end.join([first, *rows, b""]))
    with pytest.raises(SystemExit) as raised:
        curate(*table)
    told = "".join(capfd.readouterr()) + str(raised.value)
    assert not re.search("Alice|Bob|4711|Carol|0815|Dave", told)
    assert re.search("header and lines that end with LF or CRLF|has no column 'x'|has two or more columns 'x'", told)
    log = (tmp_path / "curator.log").read_text()
    assert ("Alice" in log) == ("the table has" in told and b"Alice" in first)


CHANGED = "the private data, or the source of the outputs, changed"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["--epsilon=3"], "was made under other settings"),
        (["--queries=9"], "the number of queries changed"),
        (["--lengthscales=2,2"], CHANGED),
        (["--centre=0,1"], CHANGED),
        (["--lengthscales=2"], "--lengthscales must be 2 positive numbers"),
        (["--inputs=x,z"], "has no column 'z'"),
        (["--inputs=x,word"], CHANGED),
        (["--queries=0"], "--queries must be 1 to 10000, got 0"),
        (["--function=sys:getsizeof"], "--function: sys has no file"),
        (["--function=slow:other"], CHANGED),
        ("the source of the function", CHANGED),
        ("an output", CHANGED),
    ],
)
def test_the_curator_says_what_it_refuses(tmp_path, table, monkeypatch, capsys, changes, message):
    def started_again(*more):
        sys.modules.pop("slow", None)
        curate(*table, *more)

    monkeypatch.setattr(outsourcing, "serve", lambda *_: None)
    monkeypatch.syspath_prepend(tmp_path)
    text = (tmp_path / "table.csv").read_text().splitlines()
    words = [text[0] + ",word", *(f"{line},secret" for line in text[1:])]
    (tmp_path / "table.csv").write_text("\n".join(words) + "\n")
    started_again()
    started_again()
    if changes == "an output":  # of a column that the function may read
        (tmp_path / "table.csv").write_text("\n".join(words).replace("secret", "secre1", 1) + "\n")
    elif changes == "the source of the function":
        (tmp_path / "slow.py").write_text((tmp_path / "slow.py").read_text().replace("math.sin", "math.cos"))
    with pytest.raises(SystemExit) as end:
        started_again(*([] if isinstance(changes, str) else changes))
    assert message in str(end.value)
    assert "secre" not in str(end.value)
