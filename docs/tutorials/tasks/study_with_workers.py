"""An Optuna study in a storage, by three processes that share one budget."""

import multiprocessing

import numpy as np
import optuna
from optuna.storages.journal import JournalFileBackend

from jaxdpbo import Recording, ledger
from jaxdpbo.integrations.optuna import GPUCBSampler, private_study


def load_study():
    records = np.random.default_rng(0).normal(0.3, 0.1, size=20_000)
    storage = optuna.storages.JournalStorage(JournalFileBackend("study.log"))
    sampler = GPUCBSampler()
    return private_study(
        optuna.create_study(study_name="march", storage=storage, sampler=sampler, load_if_exists=True),
        lambda trial: {"x": trial.suggest_float("x", 0, 1), "power": trial.suggest_categorical("power", [1, 2])},
        lambda params, records: np.minimum(np.abs(records - params["x"]) ** params["power"], 1),
        records,
        users=len(records),
        evaluations=30,
        loss_range=(0, 1),
        epsilon=1,
        delta=1e-5,
        ledger=Recording("budget.jsonl", "march"),
        rehearse=np.linspace(0, 1, 50),
    )


def work():
    load_study().optimize()


if __name__ == "__main__":
    ledger.create("budget.jsonl", epsilon=1, delta=1e-5)
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    private = load_study()
    print(private.best(), private.remaining)
    print(private.report("record.html").sentences[0])
