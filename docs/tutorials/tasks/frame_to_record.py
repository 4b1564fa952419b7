"""From a data frame of mixed columns to a private model, with a record to sign."""

import pickle
from pathlib import Path

import numpy as np
import pandas

from jaxdpbo import space
from jaxdpbo.integrations.sklearn import PrivateClassifier

rng = np.random.default_rng(0)


def draw(count):
    people = pandas.DataFrame(
        {
            "age": rng.integers(18, 90, count),
            "income": np.exp(rng.normal(10, 1, count)),
            "status": rng.choice(["single", "married", None], count),
        }
    )
    chance = 1 / (1 + np.exp(-(people["age"] - 50) / 5 - 2 * (people["status"] == "married")))
    return people, np.where(rng.uniform(size=count) < chance, "yes", "no")


columns = {
    "age": space.integer(0, 120),
    "income": space.real(1e3, 1e6, log=True),
    "status": space.categorical("single", "married", "widowed"),
}
model = PrivateClassifier(columns, classes=("no", "yes"), epsilon=2, delta=1e-5).fit(*draw(20_000))
print(model.setting_, model.error_)
print(model.report_.save("record.html").sentences[0])
Path("model.pickle").write_bytes(pickle.dumps(model))
print("accuracy on public people:", model.score(*draw(10_000)))
