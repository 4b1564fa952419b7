"""Who takes part: silos with their public sizes and identities, agreed before the first run."""

import base64
import contextlib
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jaxdpbo import checks, files
from jaxdpbo.ledger import ledger_file

EXTRA = "silos"
LARGEST_CARD, LARGEST_ROSTER = 2**12, 2**20  # bytes of a file
CARD = {"name": str, "users": int, "identity": str}
ROSTER = {"members": list, "missing": int}


class Member(NamedTuple):
    """The card of a silo. All fields are public.

    Attributes:
      name: of the silo.
      users: the number of its users.
      identity: its Ed25519 public key, 32 bytes in base64.
    """

    name: str
    users: int
    identity: str


class Roster(NamedTuple):
    """The silos of a federation, in the order of their names.

    Attributes:
      members: the cards of all silos.
      missing: the most silos that may be absent from a sum.
    """

    members: tuple[Member, ...]
    missing: int

    @property
    def users(self) -> int:
        """The number of users of all silos."""
        return sum(member.users for member in self.members)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all silos, in order."""
        return tuple(member.name for member in self.members)

    def member(self, name: str) -> Member:
        """The card of a silo. Raise a ValueError if it is not on the roster."""
        for member in self.members:
            if member.name == name:
                return member
        raise ValueError(f"silo {name!r} is not on the roster: {', '.join(self.names)}")

    def digest(self) -> bytes:
        """The SHA-256 of the roster."""
        return hashlib.sha256(self.to_json().encode()).digest()

    def to_json(self) -> str:
        """The roster as JSON, with members in order."""
        members = [member._asdict() for member in self.members]
        return json.dumps({"members": members, "missing": self.missing}, sort_keys=True)

    def save(self, path: str | Path) -> None:
        """Write the roster to a file."""
        Path(path).write_text(self.to_json())


def make_roster(members: Sequence[Member], *, missing: int = 0) -> Roster:
    """Check the cards of silos, and put them in order.

    >>> import base64
    >>> from jaxdpbo import silos
    >>> cards = [silos.Member(name, 100, base64.b64encode(name.encode() * 32).decode()) for name in "BA"]
    >>> silos.make_roster(cards).names
    ('A', 'B')

    Args:
      members: two cards or more, each from ``create_identity``.
      missing: the most silos that may be absent from a sum. The noise of the others covers for them, so a sum of all
        has more noise than with ``missing=0``.

    Raises:
      ValueError: fewer than two silos, two of one name or one key, or fewer than two that must be there.
      TypeError: a card of another type.
    """
    if not all(isinstance(member, Member) for member in members):
        raise TypeError("members must be cards of silos, silos.Member")
    missing = checks.size("missing", missing, minimum=0)
    for member in members:
        checks.size("users", member.users)
        _check_name(member.name)
        decode_key("identity", member.identity)
    if len(members) - missing < 2:
        raise ValueError(f"a sum must have two silos or more, got {len(members)} with missing={missing}")
    for what, values in ("names", {m.name for m in members}), ("identities", {m.identity for m in members}):
        if len(values) < len(members):
            raise ValueError(f"members must have {what} of their own")
    return Roster(tuple(sorted(members)), missing)


def load_roster(path: str | Path) -> Roster:
    """Read a roster from a file, and check it again.

    >>> import base64, pathlib, tempfile
    >>> from jaxdpbo import silos
    >>> cards = [silos.Member(name, 100, base64.b64encode(name.encode() * 32).decode()) for name in "AB"]
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "roster.json"
    >>> silos.make_roster(cards).save(path)
    >>> silos.load_roster(path).users
    200

    Raises:
      ValueError: the file is no roster, has more than a MiB, or see ``make_roster``.
    """
    return parse_roster(_read(path, ROSTER, LARGEST_ROSTER), Path(path).name)


def parse_roster(content: Any, file: str) -> Roster:
    """The roster in an object of JSON, checked. Raise a ValueError, which names the file, if it is none."""
    if not ledger_file.has_fields(content, ROSTER) or not all(
        ledger_file.has_fields(member, CARD) for member in content["members"]
    ):
        raise ValueError(f"{file} must hold cards of silos, each of {', '.join(CARD)}")
    return make_roster([Member(**member) for member in content["members"]], missing=content["missing"])


def load_card(path: str | Path) -> Member:
    """Read the card of a silo from a file; ``make_roster`` checks it. Raise a ValueError if the file is no card."""
    try:
        return Member(**_read(path, CARD, LARGEST_CARD))
    except ValueError as error:
        raise ValueError(f"{error}; give the cards that `jaxdpbo silo init` wrote, NAME.card.json") from None


def _read(path: str | Path, fields: dict[str, Any], most: int) -> dict[str, Any]:
    """Read a file of another silo."""
    with open(path, "rb") as file:
        content = file.read(most + 1)
    try:
        return ledger_file.parse_fields(content, fields, most=most)
    except ValueError as error:
        raise ValueError(f"{Path(path).name}: {error}") from None


def create_identity(folder: str | Path, name: str, *, users: int) -> Member:
    """Make the key of a silo, and return its public card. Needs the extra ``silos``.

    The private key stays in ``folder``, in a file that only your account can read. Give the card alone to others, over
    an authenticated channel.

    >>> import tempfile
    >>> from jaxdpbo import silos
    >>> card = silos.create_identity(tempfile.mkdtemp(), "Bern", users=500)
    >>> card.name, card.users
    ('Bern', 500)

    Args:
      folder: a place for the key. Anybody with the key can answer in place of the silo.
      name: of the silo: letters, digits, "-" and "_".
      users: the number of the silo's users, public.

    Raises:
      FileExistsError: the folder holds the key of a silo of this name.
      ValueError: an invalid name or number.
    """
    _check_name(name)
    users = checks.size("users", users)
    keys = checks.extra("cryptography.hazmat.primitives.asymmetric.ed25519", EXTRA, "silos")
    private = keys.Ed25519PrivateKey.generate()
    Path(folder).mkdir(parents=True, exist_ok=True)
    files.write_once(identity_path(folder, name), private.private_bytes_raw(), files.PRIVATE)
    return Member(name, users, base64.b64encode(private.public_key().public_bytes_raw()).decode())


def identity_path(folder: str | Path, name: str) -> Path:
    """The file of a silo's private key."""
    return Path(folder) / f"{name}.identity"


def sign(folder: str | Path, name: str, message: bytes) -> bytes:
    """The signature of a silo under a message."""
    keys = checks.extra("cryptography.hazmat.primitives.asymmetric.ed25519", EXTRA, "silos")
    path = identity_path(folder, name)
    private = files.read_private(path)
    if len(private) != 32:
        raise ValueError(f"{path.name} must be the key of a silo, 32 bytes, and is none: put the file back")
    return keys.Ed25519PrivateKey.from_private_bytes(private).sign(message)


def is_signed(member: Member, message: bytes, signature: bytes) -> bool:
    """True if the silo signed the message."""
    keys: Any = checks.extra("cryptography.hazmat.primitives.asymmetric.ed25519", EXTRA, "silos")
    errors: Any = checks.extra("cryptography.exceptions", EXTRA, "silos")
    public = keys.Ed25519PublicKey.from_public_bytes(decode_key("identity", member.identity))
    try:
        public.verify(signature, message)
    except errors.InvalidSignature:
        return False
    return True


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name or not all(c.isascii() and (c.isalnum() or c in "-_") for c in name):
        raise ValueError(f"name of a silo must be of letters, digits, '-' and '_', got {name!r}")


def decode_key(name: str, text: str) -> bytes:
    """A key of 32 bytes, in base64. Raise a ValueError for other text."""
    content = b""
    with contextlib.suppress(ValueError):
        content = base64.b64decode(text, validate=True)
    if len(content) != 32 or base64.b64encode(content).decode() != text:
        raise ValueError(f"{name} must be a key of 32 bytes in base64, got {len(content)} bytes")
    return content
