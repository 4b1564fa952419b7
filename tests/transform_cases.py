"""One config of every transform, of two dimensions: a new transform is one more row."""

import numpy as np

from jaxdpbo import transforms

PUBLIC = {"centre": np.zeros(2), "scale": 1.0, "epsilon": 2.0}
KINDS = {
    "planar_laplace": transforms.planar_laplace(**PUBLIC),
    "product_laplace": transforms.product_laplace(**PUBLIC),
    "gaussian": transforms.gaussian(**PUBLIC, delta=1e-5, radius=4.0),
    "private_projection": transforms.private_projection(**PUBLIC, delta=1e-5, projected=1),
    "randomised_response": transforms.randomised_response(**PUBLIC, cells=[[-1.0, 0.0], [1.0, 0.0]]),
    "random_projection": transforms.random_projection(dimension=2, projected=3, epsilon=2.0, delta=1e-5),
}
SOUND = ["planar_laplace", "product_laplace", "gaussian", "private_projection"]
CENTRE = np.array([1.0, -2.0])


def soundly(epsilon=1.0, radius=None, scale=1.0, centre=CENTRE, noise="float"):
    """Every sound transform that adds noise, at the same claim."""
    common = {"centre": centre, "scale": scale, "radius": radius, "noise": noise}
    wide = common | {"centre": np.append(centre, 0.0)}
    return {
        "planar_laplace": transforms.planar_laplace(epsilon=epsilon, **common),
        "product_laplace": transforms.product_laplace(epsilon=epsilon, **common),
        "gaussian": transforms.gaussian(epsilon=epsilon, delta=1e-5, **common),
        "private_projection": transforms.private_projection(epsilon=epsilon, delta=1e-5, projected=2, **wide),
    }


def published(projected=5, epsilon=3.0, dimension=2):
    return transforms.random_projection(dimension=dimension, projected=projected, epsilon=epsilon, delta=1e-5)


def curate(key, chosen, inputs):
    return transforms.curate(key, chosen, inputs, insecure_key=True).z
