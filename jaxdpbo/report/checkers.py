"""Who can check each assumption of a guarantee, by the section of docs/assumptions.md."""

from jaxdpbo.guarantee import assumptions

CHECKERS = {
    "ideal-noise": "nobody: use exact noise in place of noise in floats",
    "key-secret": "the keeper of the key",
    "public-configuration": "the author of the configuration",
    "separable-losses": "the author of the loss",
    "separable-gains": "the author of the gain",
    "own-rows": "the people who prepare the data",
    "compiled-apart": "the author of the loss, on their own machine",
    "one-row": "the people who prepare the data",
    "row-owners": "the people who prepare the data",
    "blocks-apart": "the author of the learner",
    "predicted-apart": "the author of the estimator",
    "public-records": "the owner of the public records",
    "private-selection": "the person who runs the search",
    "stage-costs": "the author of the list of stages",
    "poisson-batches": "the author of the training",
    "foreign-draws": "the author of the training library",
    "exact-minimiser": "the author of the training library",
    "split-unseen": "the author of the split",
    "key-generator": "nobody: cryptographers have studied ChaCha20 since 2008",
    "unchecked": "the owner of the file",
    "weak-key": "the person who chose the key",
    "private-wire": "the administrator of the network or of the engine",
    "same-users": "the people who prepare the data",
    "one-id": "the people who give the ids",
    "masks-of-silos": "the silos, by comparing the hash of the roster",
    "one-silo": "the federation: compare the users of the silos",
    "same-rows": "the author of the data frame",
    "gaussian-process": "nobody",
    "computed-mean": "the person who runs the search",
    "exact-training": "the author of the training",
}


def checker(assumption: str) -> str:
    """Who can check an assumption, by its name; your own assumptions have you."""
    section = assumptions.SECTIONS.get(assumption)
    return "the author of this assumption" if section is None else CHECKERS[section]
