"""Dense models and their training by loops: one example at a time, gradients by the chain rule, NumPy float64."""

import math

import numpy as np


def scores(layers, x):
    """Of one example."""
    for number, (weights, bias) in enumerate(layers):
        x = x @ weights + bias
        if number < len(layers) - 1:
            x = np.where(x > 0, x, 0.0)
    return x


def answer(score) -> int:
    """The class that is answered."""
    return int(score[0] > 0) if len(score) == 1 else int(np.argmax(score))


def loss(kind: str, score, label) -> float:
    """Of one example."""
    if kind == "softmax":
        shifted = score - score.max()
        return float(math.log(np.exp(shifted).sum()) - shifted[label])
    if kind == "squared":
        return (float(score[0]) - label) ** 2 / 2
    margin = float(score[0]) * (1 if label else -1)
    return math.log1p(math.exp(-margin)) if kind == "logistic" else max(0.0, 1 - margin)


def gradient(kind: str, layers, x, label):
    """Of one example's loss, for each layer."""
    entering = [x]
    for number, (weights, bias) in enumerate(layers):
        x = x @ weights + bias
        if number < len(layers) - 1:
            x = np.where(x > 0, x, 0.0)
        entering.append(x)
    score = entering[-1]
    if kind == "softmax":
        back = np.exp(score - score.max())
        back = back / back.sum()
        back[label] -= 1
    elif kind == "squared":
        back = score - label
    else:
        sign = 1 if label else -1
        margin = sign * float(score[0])
        slope = -1 / (1 + math.exp(margin)) if kind == "logistic" else -float(margin < 1)
        back = np.array([sign * slope])
    found = []
    for number in range(len(layers) - 1, -1, -1):
        found.append((np.outer(entering[number], back), back))
        back = (layers[number][0] @ back) * (entering[number] > 0)
    return found[::-1]


def permutation_sgd(features, labels, order, regularisation, passes, batch):
    """Wu et al. (2017), algorithm 2, without noise; records whose squares are not finite are 0, labels are 0 or 1."""
    rows = []
    for x in features:
        with np.errstate(over="ignore"):
            length = math.sqrt(np.sum(x * x))
        rows.append(x / max(1.0, length) if math.isfinite(length) else np.zeros(len(x)))
    w, t = np.zeros(features.shape[1]), 0
    for _ in range(passes):
        for start in range(0, len(rows) - len(rows) % batch, batch):
            t += 1
            gradient = regularisation * w
            for row in order[start : start + batch]:
                sign = 1 if labels[row] else -1
                gradient = gradient - sign * rows[row] / (1 + math.exp(sign * float(rows[row] @ w))) / batch
            w = w - min(1 / (1 + regularisation), 1 / (regularisation * t)) * gradient
            length = math.sqrt(float(w @ w))
            if length > 1 / regularisation:
                w = w / (regularisation * length)
    return w


def train(kind, layers, features, labels, steps, learning_rate, clip_norm, optimizer):
    """Without noise, the batch being all records."""
    layers = [[w.copy(), b.copy()] for w, b in layers]
    first = [[np.zeros_like(w), np.zeros_like(b)] for w, b in layers]
    second = [[np.zeros_like(w), np.zeros_like(b)] for w, b in layers]
    for t in range(1, steps + 1):
        mean = [[np.zeros_like(w), np.zeros_like(b)] for w, b in layers]
        for x, y in zip(features, labels, strict=True):
            parts = gradient(kind, layers, x, y)
            size = math.sqrt(sum((w**2).sum() + (b**2).sum() for w, b in parts))
            share = min(1.0, clip_norm / size) if size > 0 else 1.0
            for total, part in zip(mean, parts, strict=True):
                for i in (0, 1):
                    total[i] += share * part[i] / len(labels)
        for layer, one, two, change in zip(layers, first, second, mean, strict=True):
            for i in (0, 1):
                one[i] = 0.9 * one[i] + 0.1 * change[i]
                two[i] = 0.999 * two[i] + 0.001 * change[i] ** 2
                if optimizer == "adam":
                    change[i] = one[i] / (1 - 0.9**t) / (np.sqrt(two[i] / (1 - 0.999**t)) + 1e-8)
                layer[i] -= learning_rate * change[i]
    return layers
