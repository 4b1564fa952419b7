"""Models with dense layers: logistic regression, a linear support vector machine, a multilayer perceptron, regression.

All share one representation: a tuple of layers, ReLU between them, so a linear model is one layer. The gradient of one
example with respect to a layer is an outer product ``a delta^T`` of the layer's input and the backpropagated gradient,
and its norm is ``|a| |delta|``: clipped sums of per-example gradients need no per-example gradient (Goodfellow 2015,
"Efficient per-example gradient computations").

Labels are class numbers ``0 .. k - 1``, for a regression numbers. Models of two classes have a single score, and its
sign is the answer; for a regression the score is the answer.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxdpbo import checks
from jaxdpbo.types import DTypeLike

SQUARED = "squared"
LOSSES = ("logistic", "hinge", "softmax", SQUARED)


class Layer(NamedTuple):
    """Dense layer: ``weights (i, o)``, ``bias (o,)``."""

    weights: jax.Array
    bias: jax.Array


Params = tuple[Layer, ...]


class Examples(NamedTuple):
    """Training examples; made by ``examples``.

    Attributes:
      features: ``(n, d)``.
      labels: ``(n,)``.
      squares: ``(n,)``, squared norms of the features; infinite for a row that was not finite: its features are 0 and
        its gradient counts as zero.
    """

    features: jax.Array
    labels: jax.Array
    squares: jax.Array


@dataclass(frozen=True)
class Model:
    """Architecture and loss of a model; static.

    Attributes:
      sizes: number of features, width of each hidden layer, number of scores.
      loss: of ``LOSSES``.
    """

    sizes: tuple[int, ...]
    loss: str


def logistic_regression(features: int) -> Model:
    """Logistic regression: loss ``log(1 + exp(-y s))``, ``y = +-1``.

    >>> from jaxdpbo import training
    >>> type(training.logistic_regression(5)).__name__
    'Model'
    """
    return Model((checks.size("features", features), 1), "logistic")


def linear_svm(features: int) -> Model:
    """Linear SVM: loss ``max(0, 1 - y s)``, ``y = +-1``.

    >>> from jaxdpbo import training
    >>> type(training.linear_svm(5)).__name__
    'Model'
    """
    return Model((checks.size("features", features), 1), "hinge")


def mlp(features: int, hidden: Sequence[int], classes: int) -> Model:
    """ReLU layers and cross-entropy; Avent et al. (2020) use ``(1000,)`` and ``(128, 64)`` on MNIST.

    >>> from jaxdpbo import training
    >>> type(training.mlp(5, (3,), 2)).__name__
    'Model'

    Raises:
      ValueError: fewer than two classes, an empty layer.
      TypeError: ``hidden`` is not a sequence.
    """
    classes = checks.size("classes", classes, minimum=2)
    return Model((checks.size("features", features), *_widths(hidden), classes), "softmax")


def regression(features: int, hidden: Sequence[int] = ()) -> Model:
    """Regression with loss ``(s - y)^2 / 2``: linear, or with ReLU layers.

    >>> from jaxdpbo import training
    >>> type(training.regression(5)).__name__
    'Model'

    Raises:
      ValueError: an empty layer.
      TypeError: ``hidden`` is not a sequence.
    """
    return Model((checks.size("features", features), *_widths(hidden), 1), SQUARED)


def init_params(key: jax.Array, model: Model, dtype: DTypeLike | None = None) -> Params:
    """Draw Glorot's uniform weights, with zero bias; a linear model begins at 0. Default ``dtype``: JAX's float."""
    dtype = jnp.result_type(float) if dtype is None else dtype
    pairs = list(zip(model.sizes[:-1], model.sizes[1:], strict=True))
    if len(pairs) == 1:
        return (Layer(jnp.zeros(pairs[0], dtype), jnp.zeros(pairs[0][1], dtype)),)
    draw = jax.nn.initializers.glorot_uniform()
    keys = jax.random.split(key, len(pairs))
    return tuple(
        Layer(draw(one, pair, dtype), jnp.zeros(pair[1], dtype)) for one, pair in zip(keys, pairs, strict=True)
    )


def model_scores(params: Params, features: jax.Array) -> jax.Array:
    """Compute scores ``(n, k)``, or ``(n, 1)`` for two classes, of ``features (n, d)``."""
    return _forward(params, features)[-1]


def losses(model: Model, params: Params, features: jax.Array, labels: jax.Array) -> jax.Array:
    """Compute the loss of each example, ``(n,)``."""
    return jax.vmap(lambda score, label: _loss(model.loss, score, label))(model_scores(params, features), labels)


def accuracy(params: Params, features: jax.Array, labels: jax.Array) -> jax.Array:
    """Share ``()`` of examples classified correctly.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> from jaxdpbo import training
    >>> features, labels = jnp.array([[-1.0], [1.0]]), jnp.array([0, 1])
    >>> settings = training.settings(steps=5, batch=2, learning_rate=1.0, noise_multiplier=0.01, clip_norm=1.0)
    >>> params = training.train(jax.random.key(0), training.logistic_regression(1),
    ...     training.examples(features, labels), settings, largest=2)
    >>> float(training.accuracy(params, features, labels))
    1.0
    """
    outputs = model_scores(params, features)
    predicted = (outputs[:, 0] > 0).astype(labels.dtype) if outputs.shape[1] == 1 else jnp.argmax(outputs, axis=1)
    return jnp.mean(predicted == labels)


def examples(features: jax.Array, labels: jax.Array) -> Examples:
    """Prepare ``features (n, d)`` and ``labels (n,)``, once before training.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import training
    >>> training.examples(jnp.ones((4, 2)), jnp.zeros(4, int)).features.shape
    (4, 2)

    Raises:
      TypeError: ``features`` are neither float32 nor float64, at trace time: in half precision the guarantee covers
        neither sums nor noise.
    """
    checks.single_or_double("features", features)
    squares = jnp.sum(jnp.square(features), axis=1)
    usable = jnp.isfinite(squares)
    return Examples(jnp.where(usable[:, None], features, 0.0), labels, jnp.where(usable, squares, jnp.inf))


def gradient_sum(
    model: Model, params: Params, batch: Examples, mask: jax.Array, clip_norm: jax.Array
) -> tuple[Params, jax.Array]:
    """Sum gradients clipped to norm ``B`` over examples where ``mask (m,)``; the norm is over all layers together.

    An example moves the sum by at most ``B``, up to rounding, for any floats. An example counts as zero if its
    gradient, or the input of a layer, or the square of the norm of either, is not finite; all do where ``1 / B`` is no
    normal number.

    Returns:
      The sum, in the shapes of ``params``, and the raw norms ``(m,)`` of the gradients.
    """
    entering, back = passes(model, params, batch.features, batch.labels)
    sizes = [batch.squares, *(jnp.sum(jnp.square(a), axis=1) for a in entering[1:])]
    squared = squared_norms(sizes, back, clip_norm)
    usable = mask & jnp.isfinite(squared) & (1 / clip_norm >= jnp.finfo(squared.dtype).tiny)
    share = jnp.where(usable, jax.lax.rsqrt(jnp.maximum(squared, 1.0)), 0.0)
    inputs = [batch.features, *(jnp.where(usable[:, None], a, 0.0) for a in entering[1:])]
    total = []
    for a, delta in zip(inputs, back, strict=True):
        kept = jnp.where(usable[:, None], delta, 0.0) * share[:, None]
        kept = jnp.where(jnp.abs(kept) < jnp.finfo(kept.dtype).tiny, 0.0, kept)  # subnormals may be rounded up
        # Transposed: on CPU a product with a tall matrix from the left is twice as fast as with its transpose.
        total.append(Layer(jnp.matmul(kept.T, a, precision="highest").T, jnp.sum(kept, axis=0)))
    return tuple(total), jnp.sqrt(squared) * clip_norm


def passes(
    model: Model, params: Params, features: jax.Array, labels: jax.Array
) -> tuple[list[jax.Array], list[jax.Array]]:
    """Return each layer's input ``(m, i)`` and gradient ``(m, o)``; the weights' gradient is their outer product."""
    entering = _forward(params, features)
    back = [jax.vmap(jax.grad(lambda score, label: _loss(model.loss, score, label)))(entering[-1], labels)]
    for layer, after in zip(params[:0:-1], entering[-2:0:-1], strict=True):
        back.append(jnp.matmul(back[-1], layer.weights.T, precision="highest") * (after > 0).astype(after.dtype))
    back.reverse()
    return jax.lax.optimization_barrier((entering[:-1], back))  # asks for one computation: CPUs ignore it


def squared_norms(sizes: list[jax.Array], back: list[jax.Array], clip_norm: jax.Array) -> jax.Array:
    """Squared norms ``(m,)`` of each example's whole gradient, over ``B^2``; ``sizes`` are those of the inputs."""
    of_layers = [  # in units of the clip norm: its own square could underflow
        jnp.square(jnp.sqrt(size + 1.0) * (_norms(delta) / clip_norm)) for size, delta in zip(sizes, back, strict=True)
    ]
    return functools.reduce(jnp.add, of_layers)


def _widths(hidden):
    if not isinstance(hidden, Sequence) or isinstance(hidden, str):
        raise TypeError(f"hidden must be a sequence of widths, got {hidden!r}")
    return tuple(checks.size("hidden", width) for width in hidden)


def _norms(vectors):
    """Norms of the rows ``(m, k)``, scaled first: squares of small gradients may underflow."""
    largest = jnp.max(jnp.abs(vectors), axis=1)
    scale = jnp.maximum(largest, jnp.finfo(vectors.dtype).tiny)
    return scale * jnp.sqrt(jnp.sum(jnp.square(vectors / scale[:, None]), axis=1))


def _forward(params, features):
    """Return each layer's input, and the scores."""
    entering = [features]
    for number, layer in enumerate(params):
        out = jnp.matmul(entering[-1], layer.weights, precision="highest") + layer.bias[None]
        entering.append(out if number == len(params) - 1 else jax.nn.relu(out))
    return entering


def _loss(kind, score, label):
    if kind == "softmax":
        return jax.nn.logsumexp(score) - score[label]
    if kind == SQUARED:
        return jnp.square(score[0] - jnp.asarray(label, score.dtype)) / 2
    margin = jnp.where(label > 0, score[0], -score[0])
    return jax.nn.softplus(-margin) if kind == "logistic" else jax.nn.relu(1.0 - margin)
