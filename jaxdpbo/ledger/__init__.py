"""A ledger of privacy budgets, in a file or a database: create it, charge it before each release, read what is left."""

from jaxdpbo import namespace
from jaxdpbo.ledger.ledger_file import (
    USERS,
    Account,
    Budget,
    BudgetExceeded,
    Charge,
    DamagedLedgerError,
    Event,
    LedgerError,
    MovedLedgerError,
    Spend,
    account,
    adopt,
    charge,
    create,
    describe,
    head,
    store_release,
)

__all__ = [
    "USERS",
    "Account",
    "Budget",
    "BudgetExceeded",
    "Charge",
    "DamagedLedgerError",
    "Event",
    "LedgerError",
    "MovedLedgerError",
    "Spend",
    "account",
    "adopt",
    "charge",
    "create",
    "describe",
    "head",
    "store_release",
]
__dir__ = namespace.list_public(__name__)
