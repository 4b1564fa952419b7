"""One config of every transform, of two dimensions: a new transform is one more row."""

import numpy as np

from jaxdpbo.privacy import transforms

PUBLIC = {"centre": np.zeros(2), "scale": 1.0, "epsilon": 2.0}
KINDS = {
    "planar_laplace": transforms.planar_laplace(**PUBLIC),
    "product_laplace": transforms.product_laplace(**PUBLIC),
    "gaussian": transforms.gaussian(**PUBLIC, delta=1e-5, radius=4.0),
    "private_projection": transforms.private_projection(**PUBLIC, delta=1e-5, projected=1),
    "randomised_response": transforms.randomised_response(**PUBLIC, cells=[[-1.0, 0.0], [1.0, 0.0]]),
    "random_projection": transforms.random_projection(dimension=2, projected=3, epsilon=2.0, delta=1e-5),
}
