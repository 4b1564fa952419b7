"""What both sides of ``scripts/bench dp_sgd`` train: logistic regression on records of Adult's size. NumPy only."""

import numpy as np

RECORDS, FEATURES, LARGEST, REPEATS = 30_956, 123, 512, 10
LEARNING_RATE, NOISE_MULTIPLIER, CLIP_NORM = 0.5, 1.0, 1.0  # beside the peer


PIXELS, CLASSES, IMAGES = 784, 10, 5_000


def images() -> tuple[np.ndarray, np.ndarray]:
    """Of MNIST's size: a pattern for each class and noise, a fifth of the pixels on."""
    rng = np.random.default_rng(1)
    labels = rng.integers(0, CLASSES, IMAGES)
    patterns = rng.uniform(size=(CLASSES, PIXELS)) < 0.2
    mask = rng.uniform(size=(IMAGES, PIXELS)) < 0.8
    return (patterns[labels] & mask).astype(np.float32), labels.astype(np.int32)


def records() -> tuple[np.ndarray, np.ndarray]:
    """Binary features of which 14 are on, as in a1a, and labels."""
    rng = np.random.default_rng(0)
    features = np.zeros((RECORDS, FEATURES), np.float32)
    np.put_along_axis(features, rng.integers(0, FEATURES, (RECORDS, 14)), 1.0, axis=1)
    weights = rng.normal(size=FEATURES)
    return features, (features @ weights > 0).astype(np.int32)
