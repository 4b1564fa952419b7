"""DP-SGD by jax-privacy as a training for ``tune_and_train`` and ``least_epsilon``; needs the ``jax-privacy`` extra.

Batches, clipped gradients, noise and the event of the cost are those of jax-privacy.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jaxdpbo import checks, namespace
from jaxdpbo.accounting import stage
from jaxdpbo.tuning import labels, other_trainings, training
from jaxdpbo.tuning.training import Rows, Setting

__all__ = ["DPSGD", "Chosen"]
__dir__ = namespace.list_public(__name__)


class Chosen(NamedTuple):
    """A trained model, one of several: its name, and its parameters.

    >>> from jaxdpbo.tuning import jax_privacy
    >>> jax_privacy.Chosen("linear", [0.5, 1.0]).model
    'linear'
    """

    model: str
    params: Any


@dataclass(frozen=True)
class DPSGD:
    """DP-SGD of a JAX model, given by ``make_params`` and ``predict``.

    Settings have a ``learning_rate``, a mean ``batch``, ``epochs`` and a ``clip_norm``, as those of ``tuning.DPSGD``,
    and the names of a ``model`` and of an ``optimizer`` where there are several: an optimizer sees noised gradients
    alone, so each has the same cost. ``noise`` is the noise multiplier of jax-privacy: the standard deviation of the
    noise over the clipping norm.

    Formal guarantee: replace-one, by group privacy from the add-or-remove event of jax-privacy, so for about twice its
    epsilon; under the assumptions that noise in floats is ideal, that batches are Poisson, and that the draws of
    JAX, and of NumPy with a seed of 256 bits, cannot be distinguished from ideal draws.

    >>> import jax, jax.numpy as jnp
    >>> from jaxdpbo.tuning import jax_privacy
    >>> training = jax_privacy.DPSGD(lambda key: jnp.zeros(6), lambda params, row: row @ params[:5] + params[5])
    >>> setting = {"learning_rate": 0.5, "batch": 50, "epochs": 10, "clip_norm": 1.0}
    >>> round(training.cost(setting, 2.0, 5000).epsilon(1e-5), 1)
    1.3

    Attributes:
      make_params: ``key -> params``, a pytree of floats; or a dict of such functions by name.
      predict: ``(params, row (...)) -> scores``, ``()`` or ``(k,)``, of one row; JAX must be able to trace it. A dict
        with the names of ``make_params``, if there are several models: a trained one is then ``Chosen``.
      loss: "cross_entropy" for classes, or "squared" for a regression. If the model returns one score, a positive score
        predicts the second class.
      classes: see ``tuning.DPSGD``; not for a regression.
      optimizers: a dict of functions ``learning_rate -> optax.GradientTransformation`` by name, such as ``{"adam":
        optax.adam}``; None for SGD.
    """

    make_params: Callable[[jax.Array], Any] | Mapping[str, Callable[[jax.Array], Any]]
    predict: Callable[[Any, jax.Array], Any] | Mapping[str, Callable[[Any, jax.Array], Any]]
    loss: str = "cross_entropy"
    classes: Sequence[int] | None = None
    optimizers: Mapping[str, Callable[[Any], Any]] | None = None

    def __post_init__(self):
        """Raise ValueError for an unknown loss, or for wrong ``classes``, models or optimizers."""
        other_trainings.check_choices("make_params", self.make_params, self.optimizers)
        names = [sorted(given) if isinstance(given, Mapping) else None for given in (self.make_params, self.predict)]
        if names[0] != names[1]:
            raise ValueError(f"predict must have the names of make_params, {names[0]}, got {names[1]}")
        checks.one_of("loss", self.loss, other_trainings.LOSSES)
        if self.classes is not None:
            object.__setattr__(self, "classes", labels.check_classes(self.classes))

    def cost(self, setting: Setting, noise: float, records: int) -> stage.Stage:
        """Cost of the event of jax-privacy: Poisson batches with a mean of ``batch`` rows."""
        steps, batch = self._check_setting(setting, records)
        return _cost(noise, steps, batch / records)

    def total_variation(self, setting: Setting, records: int) -> float:
        """0: noise in floats is assumed to be ideal."""
        return 0.0

    def assumptions(self) -> tuple[str, ...]:
        """Ideal noise, Poisson batches and good draws."""
        return other_trainings.DRAWS

    def expect(self, rows: Rows) -> None:
        """Check shapes and dtypes by tracing ``make_params`` and ``predict``, and take a step on zeros.

        Raises:
          ValueError: a wrong shape or dtype, ``classes`` missing for numbers, or a model that cannot be trained.
          ImportError: the ``jax-privacy`` extra is not installed.
        """
        _library("jax_privacy")
        for choice in other_trainings.all_choices(self.make_params, self.optimizers):
            make_params, predict = self._functions(choice)
            params = jax.eval_shape(make_params, jax.random.key(0))
            if not all(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in jax.tree.leaves(params)):
                raise ValueError("make_params must return floats")
            row = jax.ShapeDtypeStruct(rows[0].shape[1:], jnp.float32)
            scores = jax.eval_shape(predict, params, row)
            other_trainings.expect_rows(rows, scores.shape, self._classes, regression=self._is_regression)
            with other_trainings.dry_run("predict must be differentiable in the params of make_params"):
                other_trainings.try_one_step(self, other_trainings.ONE_STEP | choice, rows, self._classes)

    def fit(self, setting: Setting, noise: float, rows: Rows, key: jax.Array) -> Any:
        """Train, and return the parameters after all steps, as NumPy arrays."""
        steps, batch = self._check_setting(setting, len(rows[1]))
        make_params, predict = self._functions(setting)
        make_optimizer = other_trainings.chosen(self.optimizers, other_trainings.OPTIMIZER, setting, optax.sgd)
        examples = other_trainings.finite_examples(rows, self._classes, regression=self._is_regression)
        selection, noising = _library("jax_privacy.batch_selection"), _library("jax_privacy.noise_addition")
        params_key, batch_key, noise_key = jax.random.split(key, 3)
        params = make_params(params_key)
        momenta = make_optimizer(setting["learning_rate"]).init(params)
        state = noising.gaussian_privatizer(stddev=noise, prng_key=noise_key).init(params)
        sampling = selection.CyclicPoissonSampling(
            sampling_prob=batch / len(examples.targets),
            iterations=steps,
            partition_type=selection.PartitionType.INDEPENDENT,
        )
        padded_size = 2 * max(8, batch)  # batches are filled up to multiples of this size, so that few shapes compile
        rng = np.random.default_rng(other_trainings.seed_words(batch_key, 8))
        rates = setting["clip_norm"], setting["learning_rate"], batch
        for indices in sampling.batch_iterator(len(examples.targets), rng=rng):
            padded = selection.pad_to_multiple_of(indices, padded_size) if len(indices) else np.full(padded_size, -1)
            chosen = jax.tree.map(lambda leaf, rows=padded: leaf[rows], examples)
            trained = params, state, momenta
            params, state, momenta = _step(
                predict, self.loss, make_optimizer, trained, chosen, padded < 0, noise, *rates
            )
        params = jax.tree.map(np.asarray, params)
        return Chosen(setting[other_trainings.MODEL], params) if isinstance(self.predict, Mapping) else params

    def losses(self, model: Any, rows: Rows) -> np.ndarray:
        """Return 1 where a row is classified wrongly; for a regression squared errors, at most 1, 1/4 for no target."""
        examples = other_trainings.finite_examples(rows, self._classes, regression=self._is_regression)
        predict, params = self.predict, model
        if isinstance(predict, Mapping):
            predict, params = predict[model.model], model.params
        scores = _predict_all(predict, params, examples.features)
        return other_trainings.row_losses(scores, examples, regression=self._is_regression)

    def _check_setting(self, setting: Setting, records: int) -> tuple[int, int]:
        choices = other_trainings.choices(self.make_params, self.optimizers)
        sizes = training.check_setting(setting, records, *choices)
        for name, given in ((other_trainings.MODEL, self.make_params), (other_trainings.OPTIMIZER, self.optimizers)):
            other_trainings.chosen(given, name, setting)
        return sizes

    def _functions(self, setting: Mapping[str, Any]) -> tuple[Any, Any]:
        """``make_params`` and ``predict`` of the chosen model."""
        functions = self.make_params, self.predict
        return tuple(other_trainings.chosen(each, other_trainings.MODEL, setting) for each in functions)

    @property
    def _is_regression(self) -> bool:
        return self.loss == "squared"

    @property
    def _classes(self) -> labels.Classes | None:
        return None if self.classes is None else tuple(self.classes)


def _library(name: str) -> Any:
    return checks.extra(name, "jax-privacy", "tuning.jax_privacy.DPSGD")


@lru_cache(maxsize=1024)
def _cost(noise: float, steps: int, rate: float) -> stage.Stage:
    event = other_trainings.poisson_event(noise, rate, steps)  # equal to the event of jax-privacy
    return stage.foreign_stage(event, "add_or_remove", "the training by jax-privacy")


@partial(jax.jit, static_argnums=(0, 1, 2))
def _step(
    predict: Any,
    loss: str,
    make_optimizer: Any,
    trained: tuple[Any, Any, Any],
    batch: other_trainings.Examples,
    padding: Any,
    noise: Any,
    clip_norm: Any,
    rate: Any,
    size: Any,
) -> tuple[Any, Any, Any]:
    """One step of the optimizer on the noised sum of clipped gradients, over the mean size of a batch."""
    clipping, noising = _library("jax_privacy.clipping"), _library("jax_privacy.noise_addition")
    params, state, momenta = trained

    def row_loss(params: Any, features: Any, target: Any, mask: Any) -> jax.Array:
        return mask * _loss(predict(params, features), target, loss)

    options = {"l2_clip_norm": clip_norm, "rescale_to_unit_norm": True, "keep_batch_dim": False}
    gradient = clipping.clipped_grad(row_loss, batch_argnums=(1, 2, 3), **options)
    total = gradient(params, *batch, is_padding_example=padding)
    privatizer = noising.gaussian_privatizer(stddev=noise, prng_key=0)  # the key that counts is in the state
    total, state = privatizer.update(total, state)
    mean = jax.tree.map(lambda old, of: (clip_norm / size * of).astype(old.dtype), params, total)
    updates, momenta = make_optimizer(rate).update(mean, momenta, params)
    return optax.apply_updates(params, updates), state, momenta


def _loss(scores: jax.Array, target: jax.Array, loss: str) -> jax.Array:
    """Loss of one row."""
    scores = jnp.reshape(scores, (-1,))
    if loss == "squared":
        return jnp.square(scores[0] - target)
    if len(scores) == 1:
        return jnp.logaddexp(0.0, scores[0]) - target * scores[0]
    return jax.nn.logsumexp(scores) - scores[target]


@partial(jax.jit, static_argnums=0)
def _predict_all(predict: Any, params: Any, features: jax.Array) -> jax.Array:
    """Scores of each row by itself."""
    return jax.vmap(predict, in_axes=(None, 0))(params, features)
