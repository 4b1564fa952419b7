"""A torch module, tuned and trained by Opacus under one epsilon, with a record."""

import numpy as np
import torch

from jaxdpbo import tuning
from jaxdpbo.tuning import opacus

rng = np.random.default_rng(0)
X = rng.normal(size=(8000, 5))
y = X[:, 0] + X[:, 1] ** 2 > 1
training = opacus.DPSGD(lambda: torch.nn.Sequential(torch.nn.Linear(5, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)))
settings = [{"learning_rate": rate, "batch": 128, "epochs": 10, "clip_norm": 1.0} for rate in (0.1, 0.3, 1.0)]
tuned = tuning.tune_and_train(training, (X, y), settings, epsilon=2, delta=1e-5)
print(tuned.setting, tuned.error)
print(tuned.report("record.html").sentences)
torch.save(tuned.model.state_dict(), "model.pt")
