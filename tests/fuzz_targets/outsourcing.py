"""Rows of ``jaxdpbo.outsourcing``."""

import io
import itertools
import json
from pathlib import Path

from hypothesis import strategies as st
from protocol_cases import CANDIDATES

from fuzz_targets.odd_values import anything, odd_private
from fuzz_targets.target import Target, finite
from fuzz_targets.valid_values import any_float, constant, either, few, just, secret
from jaxdpbo import outsourcing, transforms
from jaxdpbo.noise import keys
from jaxdpbo.outsourcing import protocol as spoken


def parties(folder: Path) -> dict[str, Target]:
    number = itertools.count()
    curated = transforms.curate(
        keys.key_from_bytes(bytes(32)), transforms.gaussian(centre=[0.0, 0.0], scale=1.0, epsilon=2.0, delta=0.1),
        CANDIDATES[:4],
    )  # fmt: skip
    path = folder / "released"
    outsourcing.publish(path, curated)
    content, published = path.read_bytes(), outsourcing.read_publication(path)
    header = json.loads(content.splitlines()[0])

    @st.composite
    def corrupted(draw):
        if draw(st.booleans()):
            changed, name = dict(header), draw(st.sampled_from([*header, "more"]))
            inner = changed.get(name)
            value = draw(
                st.none()
                | st.floats()
                | st.integers()
                | st.text(max_size=4)
                | st.lists(st.floats(), max_size=2)
                | either("gdp", True, {}, [[1]], 10**400, -1)
            )
            if isinstance(inner, dict) and draw(st.booleans()):
                inner = dict(inner)
                inner[draw(st.sampled_from(list(inner)))] = value
                value = inner
            changed[name] = value
            return b"\n".join([json.dumps(changed).encode(), *content.splitlines()[1:]]) + b"\n"
        found = bytearray(content)
        for _ in range(draw(st.integers(1, 3))):
            at = draw(st.integers(0, len(found)))
            found[at : at + draw(st.integers(0, 20))] = draw(
                st.binary(max_size=5)
                | either(b"\n", b"[1, 2]\n", b"[" * 3000, b"NaN", b"null", b"1" + b"0" * 400, b'"a"', b"{}")
            )
        return bytes(found)

    def fresh() -> Path:
        return folder / f"o{next(number)}"

    def read(content):
        place = fresh()
        place.write_bytes(content)
        try:
            return outsourcing.read_publication(place).curated.z
        finally:
            place.unlink()

    def publish(path, curated):
        outsourcing.publish(fresh() if path is None else path, curated)

    def serve(said, output, begun, queries):
        """What a curator says to anything; in order of its lines."""
        place, heard = fresh(), []
        if begun is not None:
            place.write_bytes(begun)
        try:
            with outsourcing.open_journal(place, published, b"8642097531", queries) as record:
                outsourcing.serve(record, constant(output), said, heard.append)
        finally:
            place.unlink(missing_ok=True)
        assert all(isinstance(json.loads(line), dict) for line in heard)
        return [line for line in heard if "error" in json.loads(line)]

    def search(said, key):
        replies = [json.dumps(one) if isinstance(one, dict) else one for one in said]
        return outsourcing.search(published, replies, lambda _: None, key=key, lengthscale=1.0, noise_variance=0.1).row

    line = st.text(max_size=12) | st.sampled_from([
        "", "{}", "[]", "null", "nan", '{"query": 1, "row": 0}', '{"query": 2, "row": 3}', '{"query": 1, "row": 1e0}',
        '{"query": true, "row": 0}', '{"query": 1, "row": -1}', '{"query": 1, "row": 99999999999999999999}',
        '{"answer": 0}', '{"answer": []}', '{"answer": null}', '{"answer": 1e400}', '{"row": 1}', "[" * 5000, '"' * 9,
        "\x00",
        '{"query": {"a": 1}, "row": []}', '{"answer": ' + "9" * 5000 + "}",
    ])  # fmt: skip
    outputs = any_float | odd_private() | anything()
    hello = {
        "schema": spoken.SCHEMA,
        "version": 1,
        "released": published.digest,
        "rows": 4,
        "queries": 2,
        "answers": [],
    }
    reply = st.builds(
        lambda q, r, o: {"query": q, "row": r, "output": o}, few, st.integers(0, 3), any_float | st.none()
    )

    @st.composite
    def greetings(draw):
        changed = dict(hello)
        if draw(st.booleans()):
            changed[draw(st.sampled_from([*changed, "more"]))] = draw(
                st.none()
                | st.integers(-2, 4)
                | st.floats()
                | st.text(max_size=3)
                | st.lists(reply | st.integers(), max_size=4)
                | either(True, {}, "2", 2.0, 10**30)
            )
        return changed

    said = st.lists(reply | line, max_size=3)
    refused = {"raises": (outsourcing.ProtocolError,)}
    wrong_paths = st.sampled_from([5, 2.5, b"x", "", "\x00", folder, folder / "no" / "such", [], object(), str(folder)])
    begun = (
        st.none()
        | st.binary(max_size=60)
        | st.lists(line, max_size=3).map(lambda x: "\n".join(x).encode("utf8", "replace"))
    )
    content_of = st.fixed_dictionaries({"query": few, "row": st.integers(0, 3), "output": any_float | st.none()})
    odd_content = st.dictionaries(either("query", "row", "output", "more"), anything(), max_size=4) | anything()
    return {
        "protocol.parse": Target(spoken.parse, {"line": line}, named=False, **refused),
        "protocol.parse_answer": Target(
            spoken.parse_answer, {"content": content_of, "number": few, "rows": just(4)}, odd={"content": odd_content},
            fixed=("number", "rows"), words=("query", "row", "output", "answered"), named=False, **refused,
        ),
        "protocol.read_lines": Target(
            lambda text: list(outsourcing.read_lines(io.StringIO(text, newline=""))), {"text": st.text(max_size=40)},
            fixed=("text",),
        ),
        "read_published of bytes": Target(
            read, {"content": just(content)}, odd={"content": corrupted() | st.binary(max_size=60)}, named=False,
            check=finite, weight=4, **refused,
        ),
        "read_published of a path": Target(
            outsourcing.read_publication, {"path": just(path)}, odd={"path": wrong_paths}, named=False,
            raises=(OSError, outsourcing.ProtocolError),
        ),
        "publish": Target(
            publish, {"path": st.none(), "curated": just(curated)}, odd={"path": wrong_paths}, fixed=("curated",),
            named=False, raises=(OSError,), weight=0.3,
        ),
        "serve": Target(
            serve, {"said": st.lists(line, max_size=4), "output": outputs, "begun": begun, "queries": just(3)},
            fixed=("said", "output", "begun"),
            private=("output",), named=False, weight=3, **refused,
        ),
        "search": Target(
            search,
            {"said": st.builds(lambda one, more: [one, *more], greetings(), said), "key": secret()},
            fixed=("said",), named=False, weight=2, **refused,
        ),
    }  # fmt: skip
