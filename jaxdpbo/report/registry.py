"""A record as an entry of a registry of deployments of differential privacy, in YAML.

The fields are those of the registry of Ghazi, Nanayakkara and Vadhan, at tier 3.
"""

import math
from collections.abc import Mapping
from typing import Any

from jaxdpbo import checks, notes
from jaxdpbo.guarantee import assumptions as _assumptions

REQUIRED = (
    "name", "data_curators", "intended_use", "data_product_region", "publication_date", "registry_authors",
)  # fmt: skip
OPTIONAL = (
    "description", "data_product_type", "data_product_sector", "data_domain", "actors", "release_type",
    "preprocessing_and_hyperparameter_tuning", "justification", "sources", "notes",
)  # fmt: skip
ACCOUNTS = "created", "copies"  # details, also as "LEDGER: created", that name accounts: the page alone shows them
LISTS = ("data_curators", "registry_authors")
ACTORS = (
    "The curator holds the records and runs the search. Everybody else may see the release, and nothing else. "
    "An attacker may know all but one record and the random draws."
)
ACTORS_OF_SILOS = (
    "Each silo holds the records of its own people, and sends sums alone, with noise and under a mask. A server adds "
    "up the sums. Everybody may see the release. The guarantee holds against the server together with as many "
    "colluding silos as the details say."
)
TUNED = (
    "No privacy loss before the release: hyper-parameters were tuned inside of the mechanism, and the privacy "
    "parameters include the tuning. Ranges, categories and candidates were chosen without the protected data."
)
PROPOSED = " Candidates were proposed with other records, which are not protected."
TEXT = "tag:yaml.org,2002:str"
RESERVED = "The epsilon is the most that a release could cost, before the release was known"
JUSTIFICATION = "The assumptions of the guarantee, with who can check each, are listed in the record of the release."


def registry(facts: dict[str, Any], entry: Mapping[str, Any]) -> str:
    """The entry of a record; see ``Report.registry``."""
    missing = [name for name in REQUIRED if name not in entry]
    unknown = [name for name in entry if name not in (*REQUIRED, *OPTIONAL)]
    if missing or unknown:
        wrong = [f"{', '.join(missing)} must be given"] * bool(missing) + [
            f"{', '.join(unknown)} must be among {', '.join((*REQUIRED, *OPTIONAL))}"
        ] * bool(unknown)
        raise ValueError("; ".join(wrong))
    for name, value in entry.items():
        if not (_is_texts(value) if name in LISTS else isinstance(value, str)):
            raise TypeError(f"{name} must be {'a list of text' if name in LISTS else 'text'}, got {value!r}")
    convertible = [guarantee for guarantee in facts["guarantees"] if "epsilon" in guarantee]
    if not convertible:
        raise ValueError("guarantees must include one with an epsilon, for an entry of a registry")
    largest = max(convertible, key=lambda guarantee: float(guarantee["epsilon before the release"]))
    plain = {name: list(map(str, value)) if name in LISTS else str(value) for name, value in entry.items()}
    return _write(_entry(facts, largest, plain))


def _entry(facts: dict[str, Any], guarantee: dict[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    claims = [row["claim"] for row in facts["guarantees"]]
    assumptions = [f"{row['assumption']} ({row['checked by']})" for row in guarantee["assumptions"]]
    proposed = _assumptions.PUBLIC_RECORDS in {row["assumption"] for row in guarantee["assumptions"]}
    tuning = entry.get("preprocessing_and_hyperparameter_tuning", TUNED + PROPOSED * proposed)
    epsilon = guarantee["epsilon before the release"]
    slug = "-".join("".join(letter if letter.isalnum() else " " for letter in entry["name"].lower()).split())
    versions = ", ".join(" ".join(pair) for pair in facts["versions"].items())
    delta, trained = guarantee["delta"], bool({"model", "fit"} & set(facts["title"].replace(",", " ").split()))
    basic = {
        "name": entry["name"],
        "data_curators": list(entry["data_curators"]),
        "description": entry.get("description", facts["title"]),
        "intended_use": entry["intended_use"],
        "data_product_type": entry.get(
            "data_product_type", "Machine learning model" if trained else "Summary statistics"
        ),
        "data_product_region": entry["data_product_region"],
        "publication_date": entry["publication_date"],
    }
    sector = {"data_product_sector": entry["data_product_sector"]} if "data_product_sector" in entry else {}
    return {
        "url_slug": slug,
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": basic | sector,
            "dp_variant": {
                "variant_name": "Approximate DP" if delta else "Pure DP",
                "data_domain": entry.get(
                    "data_domain", f"Tables of as many rows as there are users: {guarantee['protects']}"
                ),
                "unprotected_quantities": guarantee["does not protect"] or "The number of users, and the configuration",
            },
            "privacy_loss": {
                "privacy_unit": guarantee["protects"],
                "privacy_unit_details": f"Adjacent data sets differ in {guarantee['neighbours']}; their size is fixed",
                "privacy_parameters": {"epsilon": float(epsilon)} | ({"delta": delta} if delta else {}),
                "privacy_parameters_details": "; ".join([RESERVED] * (epsilon != guarantee["epsilon"]) + claims),
            },
            "deployment_model": {
                **_trust(guarantee, entry),
                "release_type": entry.get("release_type", "One release"),
                "data_source_type": "Static",
                "access_type": "Non-interactive",
            },
            "accounting": {
                "post_processing": "None",
                "composition": f"Stages of the mechanism were composed by their profiles: {guarantee['claim']}",
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": "; ".join([tuning, *_details(facts)]),
                "mechanisms": f"{versions}. Assumptions: {'; '.join(assumptions) or 'none'}",
                "justification": entry.get("justification", JUSTIFICATION),
            },
            "administrative": {name: entry[name] for name in ("sources", "notes") if name in entry}
            | {"registry_authors": list(entry["registry_authors"])},
        },
    }


def _details(facts: dict[str, Any]) -> list[str]:
    """The details and notes of the record, without accounts."""
    named = [f"{name}: {text}" for name, text in facts["details"].items() if name.rpartition(": ")[2] not in ACCOUNTS]
    return named + [notes.hide_accounts(note["text"]) for note in facts["notes"]]


def _trust(guarantee: dict[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """Who is trusted with records: one curator, or silos that share none."""
    among_silos = _assumptions.ONE_SILO in {row["assumption"] for row in guarantee["assumptions"]}
    model, actors = ("Federated", ACTORS_OF_SILOS) if among_silos else ("Central", ACTORS)
    return {"model_name": model, "actors": entry.get("actors", actors)}


def _is_texts(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and all(isinstance(entry, str) for entry in value)


def _write(content: dict[str, Any]) -> str:
    """YAML in ASCII, with all text in quotes: versions of YAML disagree about plain text such as 1e5."""
    yaml = checks.extra("yaml", "registry", "an entry of a registry")
    dumper = type("Quoting", (yaml.SafeDumper,), {})
    dumper.add_representer(str, lambda dumper, text: dumper.represent_scalar(TEXT, text, style='"'))
    return yaml.dump(content, Dumper=dumper, sort_keys=False, width=math.inf)
