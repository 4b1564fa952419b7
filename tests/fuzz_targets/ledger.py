"""Rows of ``jaxdpbo.ledger`` and ``jaxdpbo.guarantee.recording``."""

import itertools
from fractions import Fraction
from pathlib import Path

import jax
import numpy as np
from hypothesis import strategies as st

from fuzz_targets.odd_values import anything
from fuzz_targets.target import OF_PATHS, Target
from fuzz_targets.valid_values import either, just, words
from jaxdpbo.guarantee import guarantees, recording
from jaxdpbo.ledger import ledger_file


def ledgers(folder: Path) -> dict[str, Target]:
    number = itertools.count()
    template = folder / "template"
    ledger_file.create(template, notion="gdp", level=2, delta="1e-6", relation="replace_one", protects="them", by="me")
    spend = ledger_file.Spend((ledger_file.Event("gdp", 1),), "replace_one", "them")
    ledger_file.charge(template, "first", "a run", spend)
    whole_file = template.read_bytes()
    (folder / "directory").mkdir()

    def fresh() -> Path:
        return folder / f"l{next(number)}"

    def copied(content: bytes = whole_file) -> Path:
        path = fresh()
        path.write_bytes(content)
        return path

    def adopted() -> Path:
        path = copied()
        ledger_file.adopt(path, by="me")
        return path

    def on(function, make):
        """Its path made anew for every call, unless the path itself is odd."""

        def call(path, **others):
            place = make() if path is None else path
            try:
                return function(place, **others)
            finally:
                if path is None:
                    place.unlink(missing_ok=True)

        return call

    paths = {"path": st.none()}
    wrong = st.sampled_from(
        [5, 2.5, b"x", "", "\x00", folder / "directory", folder / "no" / "such", [], object(), "x" * 5000]
    )
    exact = st.fractions(Fraction(1, 9), 1) | st.floats(0.1, 1.0) | either("0.1", "1/3", "1e-3")
    zero_up = either(0, "1e-9", Fraction(1, 10**9), 1e-12)
    events = st.builds(
        lambda *fields: ledger_file.Event(*fields), just("gdp"), exact, either(0, "1e-9"), either(0, 2**-80)
    )
    spends = st.builds(
        lambda *fields: ledger_file.Spend(*fields), st.lists(events, min_size=1, max_size=2).map(tuple),
        just("replace_one"), just("them"), st.none(), st.lists(words, max_size=2).map(tuple),
    )  # fmt: skip

    def odd_field(some, fields):
        return st.builds(lambda one, name, value: one._replace(**{name: value}), some, either(*fields), anything())

    odd_spend = odd_field(spends, spend._fields) | st.builds(
        lambda event: spend._replace(events=(event,)), odd_field(events, ledger_file.Event._fields)
    )
    payload = st.dictionaries(
        st.text(max_size=3), st.none() | st.booleans() | st.floats(-1, 1) | st.text(max_size=3), max_size=3
    )
    content = {"content": payload}
    common = {"odd": {"path": wrong}, "raises": (OSError, ledger_file.LedgerError)}
    fields = (*spend._fields, *ledger_file.Event._fields, "notion", "Spend", "Event", *OF_PATHS)

    @st.composite
    def corrupted(draw):
        found = bytearray(whole_file)
        for _ in range(draw(st.integers(1, 3))):
            way, at = draw(st.sampled_from(["set", "cut", "put", "drop"])), draw(st.integers(0, len(found)))
            if way == "cut":
                del found[at:]
            elif way == "put":
                found[at:at] = draw(st.binary(max_size=6) | either(b"\n", b'{"previous": "', whole_file[:200]))
            elif way == "drop":
                del found[at : at + draw(st.integers(1, 200))]
            elif at < len(found):
                found[at] = draw(st.integers(0, 255))
        return bytes(found)

    def reading(function):
        def call(content):
            path = copied(content)
            try:
                return function(path)
            finally:
                path.unlink()

        return Target(
            call, {"content": either(whole_file, whole_file[:-9])},
            odd={"content": corrupted() | st.binary(max_size=90)},
            named=False, raises=(ledger_file.LedgerError,),
        )  # fmt: skip

    budget = {"notion": either(*ledger_file.LEVELS), "level": exact, "delta": zero_up, "total_variation": zero_up,
              "relation": words, "protects": words, "by": st.none() | words}  # fmt: skip
    like = {"a": jax.ShapeDtypeStruct((2,), np.float32), "b": jax.ShapeDtypeStruct((), np.int32)}
    text = recording.to_text({"a": np.ones(2, np.float32), "b": np.int32(3)})
    odd_text = st.builds(
        lambda at, name, value: [one | ({name: value} if place == at else {}) for place, one in enumerate(text)],
        st.integers(0, 1), either("dtype", "shape", "data", "more"), anything(),
    )  # fmt: skip
    return {
        "recording.from_text": Target(
            lambda text: recording.from_text(like, text), {"text": just(text)}, odd={"text": odd_text | anything()},
            named=False, raises=(ledger_file.LedgerError,),
        ),
        "recording.check_recording": Target(
            recording.check_recording,
            {"recording": st.builds(recording.Recording, either("a", folder / "b", b"c"), words)},
            odd={"recording": st.builds(recording.Recording, wrong, words)
                | st.builds(recording.Recording, just("a"), anything()) | anything()},
            words=("run", "ledger", "path", *OF_PATHS), check=lambda found, _: Path(found.path).is_absolute(),
        ),
        "ledger.create": Target(on(ledger_file.create, fresh), paths | budget, words=fields, **common),
        "ledger.charge": Target(
            on(lambda path, **options: ledger_file.charge(path, **options), adopted),
            paths | {"run": words, "what": words, "spend": spends, "fingerprint": words,
                "timeout": either(0.0, 0.001, 1)},
            words=fields, fixed=("timeout",), **common | {"odd": {"path": wrong, "spend": odd_spend}},
        ),
        "ledger.store_release": Target(
            on(ledger_file.store_release, adopted), paths | {"run": either("first", "second"), "payload": payload},
            words=OF_PATHS, **common,
        ),
        "ledger.note": Target(
            on(ledger_file.note, adopted), paths | {"run": either("first", "second"), "number": either(1, 2)} | content,
            words=OF_PATHS, **common,
        ),
        "ledger.adopt": Target(
            on(lambda path, by: ledger_file.adopt(path, by=by), copied), paths | {"by": st.none() | words},
            words=OF_PATHS, **common,
        ),
        "ledger.head": Target(on(ledger_file.head, copied), paths, **common | {"named": False}),
        "ledger.account": Target(on(ledger_file.account, copied), paths | {"expected_head": st.none()},
            **common | {"named": False}),
        "ledger.account of bytes": reading(ledger_file.account),
        "ledger.describe of bytes": reading(ledger_file.describe),
        "ledger.read of bytes": reading(ledger_file.read),
        "recording.charge": Target(
            on(lambda path, run, statement: recording.charge_run(path, run, "fuzz", statement, 1), adopted),
            paths | {"run": words, "statement": st.builds(lambda mu: guarantees.guarantee("gdp", mu, "replace_one",
                "them"), exact.filter(lambda x: isinstance(x, float)))},
            fixed=("statement",), words=fields, **common,
        ),
    }  # fmt: skip
