"""DP-SGD and DP-Adam: clipped sums without per-example gradients, batches, exact step counts, noise, one program."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import training as oracle
from scipy.stats import chi2_contingency, chisquare, kstest, norm

from jaxdpbo import mechanisms
from jaxdpbo.training import dp_optim, models, permutation_sgd, sampling

RNG = np.random.default_rng(0)
FEATURES, CLASSES = 5, 3
X = RNG.normal(size=(60, FEATURES))
LABELS = RNG.integers(0, CLASSES, 60)
MODELS = {
    "logistic": models.logistic_regression(FEATURES),
    "hinge": models.linear_svm(FEATURES),
    "softmax": models.mlp(FEATURES, (7, 4), CLASSES),
    "squared": models.regression(FEATURES, (4,)),
}


def labels_of(name):
    return jnp.asarray({"softmax": LABELS, "squared": LABELS + 0.5}.get(name, LABELS % 2))


def parameters(model, seed=0):
    """Away from the start, where a linear model's gradients are alike."""
    start = models.init_params(jax.random.key(seed), model)
    leaves, form = jax.tree.flatten(start)
    keys = jax.random.split(jax.random.key(seed + 1), len(leaves))
    return form.unflatten([leaf + 0.3 * jax.random.normal(k, leaf.shape) for k, leaf in zip(keys, leaves, strict=True)])


def norm_of(tree):
    return np.sqrt(sum(float(np.sum(np.square(leaf))) for leaf in jax.tree.leaves(tree)))


@partial(jax.jit, static_argnums=0)
def clipped_sum(model, params, features, labels, mask, clip_norm):
    return models.gradient_sum(model, params, models.examples(features, labels), mask, clip_norm)


@partial(jax.jit, static_argnums=0)
def per_example_gradients(model, params, x, y):
    def one(x, y):
        return jax.grad(lambda params: models.losses(model, params, x[None], y[None])[0])(params)

    return jax.vmap(one)(x, y)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("clip_norm", [0.05, 1.0, 1e6])
def test_the_clipped_sum_is_that_of_per_example_gradients(name, clip_norm):
    model, params = MODELS[name], parameters(MODELS[name])
    mask = jnp.arange(60) % 3 > 0
    total, norms = clipped_sum(model, params, jnp.asarray(X), labels_of(name), mask, jnp.asarray(clip_norm))

    gradients = per_example_gradients(model, params, jnp.asarray(X), labels_of(name))
    squared = sum(jnp.sum(jnp.square(leaf), axis=tuple(range(1, leaf.ndim))) for leaf in jax.tree.leaves(gradients))
    np.testing.assert_allclose(norms, jnp.sqrt(squared), rtol=1e-10, atol=1e-12)
    share = jnp.where(mask, jnp.minimum(1.0, clip_norm / jnp.maximum(jnp.sqrt(squared), 1e-300)), 0.0)
    for found, leaf in zip(jax.tree.leaves(total), jax.tree.leaves(gradients), strict=True):
        np.testing.assert_allclose(found, jnp.tensordot(share, leaf, axes=1), rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize("name", MODELS)
def test_losses_and_scores_are_the_oracles(name):
    model, params = MODELS[name], parameters(MODELS[name])
    layers = [(np.asarray(layer.weights), np.asarray(layer.bias)) for layer in params]
    expected = [oracle.loss(name, oracle.scores(layers, x), y) for x, y in zip(X, labels_of(name), strict=True)]
    np.testing.assert_allclose(models.losses(model, params, jnp.asarray(X), labels_of(name)), expected, rtol=1e-12)
    predicted = np.array([oracle.answer(oracle.scores(layers, x)) for x in X])
    assert models.accuracy(params, jnp.asarray(X), labels_of(name)) == pytest.approx(
        np.mean(predicted == np.asarray(labels_of(name)))
    )


@pytest.mark.parametrize("junk", [np.nan, np.inf, 1e200])
def test_an_example_that_is_no_number_counts_as_zero(junk):
    for name, model in MODELS.items():
        params, mask = parameters(model), jnp.ones(60, bool)
        spoiled = X.copy()
        spoiled[4, 2] = junk
        total, _ = clipped_sum(model, params, jnp.asarray(spoiled), labels_of(name), mask, jnp.asarray(0.5))
        without, _ = clipped_sum(
            model, params, jnp.asarray(X), labels_of(name), mask.at[4].set(False), jnp.asarray(0.5)
        )
        for found, expected in zip(jax.tree.leaves(total), jax.tree.leaves(without), strict=True):
            assert np.all(np.isfinite(found))
            if junk != 1e200:
                np.testing.assert_allclose(found, expected, atol=1e-12)


def test_neighbours_move_the_sum_by_at_most_twice_the_clip_norm():
    model = MODELS["softmax"]
    for seed in range(20):
        rng = np.random.default_rng(seed)
        other, labels = X.copy(), np.array(LABELS)
        other[0], labels[0] = 10 ** rng.uniform(-3, 3) * rng.normal(size=FEATURES), rng.integers(0, CLASSES)
        clip, mask = jnp.asarray(0.3), jnp.ones(60, bool)
        first, _ = clipped_sum(model, parameters(model, seed), jnp.asarray(X), jnp.asarray(LABELS), mask, clip)
        second, _ = clipped_sum(model, parameters(model, seed), jnp.asarray(other), jnp.asarray(labels), mask, clip)
        moved = norm_of(jax.tree.map(jnp.subtract, first, second))
        assert moved <= 0.6 * (1 + 1e-12)


def test_a_record_of_opposite_gradient_moves_the_sum_by_twice_the_clip_norm():
    """Avent et al. (2020), section 4.2, print the clip norm itself as the bound: a flipped label attains its double."""
    model, clip = MODELS["logistic"], 0.05
    labels = labels_of("logistic").at[0].set(0)
    arguments = model, parameters(model), jnp.asarray(X)
    first, norms = clipped_sum(*arguments, labels, jnp.ones(60, bool), jnp.asarray(clip))
    second, others = clipped_sum(*arguments, labels.at[0].set(1), jnp.ones(60, bool), jnp.asarray(clip))
    assert min(norms[0], others[0]) > clip  # both are clipped
    assert norm_of(jax.tree.map(jnp.subtract, first, second)) == pytest.approx(2 * clip, rel=1e-9)


TOGETHER = 500  # examples in one call of one program


def extreme_cases(rng, model, dtype):
    """Parameters, features, labels and clip norms of so many examples that mean harm, each alone."""
    info = np.finfo(dtype)
    decades = np.log10(float(info.max))
    square = np.sqrt(float(info.max))  # beyond it the square is no longer finite
    odd = np.array([0, info.smallest_subnormal, info.tiny, 1 / square, 1.0, 0.99 * square, 1.01 * square, info.max,
                    np.nan, np.inf])  # fmt: skip

    def magnitudes(*shape):
        spread = 10.0 ** rng.uniform(-decades, 0.98 * decades, shape)
        chosen = np.select([rng.uniform(size=shape) < p for p in (0.3, 0.6)], [rng.choice(odd, shape), spread], 1.0)
        return chosen * rng.choice([-1.0, 1.0], shape)

    features = magnitudes(TOGETHER, FEATURES)
    whole = rng.uniform(size=TOGETHER) < 0.5  # one magnitude for a row: the longest that counts, or any other
    features[whole] = magnitudes(np.sum(whole), 1) * rng.choice([-1.0, 1.0], (np.sum(whole), FEATURES))
    layers, reach = [], np.nan_to_num(np.max(np.abs(features), axis=1), posinf=1.0)
    for i, o in zip(model.sizes[:-1], model.sizes[1:], strict=True):
        # Scores of up to a hundred, so that slopes go down to exp(-100); now and then anything.
        size = 10.0 ** rng.uniform(0, 2, TOGETHER) / np.maximum(reach, 1e-300)
        size = np.where(rng.uniform(size=TOGETHER) < 0.2, np.abs(magnitudes(TOGETHER)), size)
        weights = rng.normal(size=(TOGETHER, i, o)) * size[:, None, None]
        layers.append(models.Layer(weights, magnitudes(TOGETHER, o) * rng.choice([0, 1], (TOGETHER, 1))))
        reach = reach * np.nan_to_num(size, posinf=1.0)
    clip_norms = 10.0 ** (rng.uniform(-0.8, 0.8, TOGETHER) * decades * rng.choice([0, 1], TOGETHER))
    labels = rng.integers(0, max(2, model.sizes[-1]), TOGETHER)
    # One in five: the longest row that counts, and a slope whose square is just above or just below the least float.
    some, last = np.arange(TOGETHER) % 5 == 0, len(layers) - 1
    margins = np.log(square) + np.linspace(-2, 2, np.sum(some))
    features[some], clip_norms[some], labels[some] = 0.95 * square / np.sqrt(FEATURES), 1.0, int(last == 0)
    for number, (weights, bias) in enumerate(layers):
        weights[some], bias[some] = 1.0 if number == last else 1 / weights.shape[1], 0.0
        if number == 0:
            weights[some] = 1 / np.sum(features[some], axis=1)[:, None, None]
    if last:
        bias[some, 0] = margins
    else:
        weights[some] *= margins[:, None, None]
    if model.loss == models.SQUARED:
        labels = np.where(some, 0.5, magnitudes(TOGETHER)).astype(dtype)
    cast = jax.tree.map(lambda leaf: leaf.astype(dtype), (tuple(layers), features, clip_norms))
    return cast[0], cast[1], labels, cast[2]


def largest_share(name, dtype, count):
    """The longest contribution of one example in units of the clip norm, by extended precision; and how many count."""

    @jax.jit
    def contributions(params, features, labels, clip_norms):
        def alone(params, x, y, clip_norm):
            batch = models.examples(x[None], y[None])
            return models.gradient_sum(MODELS[name], params, batch, jnp.ones(1, bool), clip_norm)[0]

        return jax.vmap(alone)(params, features, labels, clip_norms)

    rng, longest, nonzero = np.random.default_rng(7), 0.0, 0
    for _ in range(-(-count // TOGETHER)):
        with np.errstate(over="ignore", invalid="ignore"):
            params, features, labels, clip_norms = extreme_cases(rng, MODELS[name], dtype)
        total = contributions(params, features, labels, clip_norms)
        flat = np.concatenate([np.asarray(leaf).reshape(TOGETHER, -1) for leaf in jax.tree.leaves(total)], axis=1)
        assert flat.dtype == dtype
        norms = np.sqrt(np.sum(np.square(flat.astype(np.longdouble)), axis=1)) / clip_norms.astype(np.longdouble)
        assert np.all(np.isfinite(norms))
        longest, nonzero = max(longest, float(np.max(norms))), nonzero + np.sum(norms > 0)
    assert nonzero > 0.1 * count
    return longest


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", MODELS)
def test_no_example_moves_the_sum_by_more_than_the_clip_norm_whatever_floats_it_holds(name, dtype, trials):
    """Trap 45: subnormals, the largest floats, squares that are just finite beside slopes whose squares are not."""
    count = trials(f"contributions of extreme examples, {name}, {np.dtype(dtype)}", TOGETHER, 20 * TOGETHER, 7)
    assert 0.999 < largest_share(name, dtype, count) <= 1 + (1e-5 if dtype == np.float32 else 1e-13)


@pytest.mark.parametrize("name", ["logistic", "softmax"])
def test_the_property_sees_squares_that_underflow(name, monkeypatch):
    """1.6 and more, as the sum of squares of the slopes gave; by a logarithm, or the compiler takes the root itself."""

    def unscaled(vectors):
        return jnp.exp(0.5 * jnp.log(jnp.sum(jnp.square(vectors), axis=1)))

    monkeypatch.setattr(models, "_norms", unscaled)
    assert largest_share(name, np.float32, TOGETHER) > 1.3


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
def test_half_precision_is_refused_before_anything_is_drawn(dtype):
    """Trap 45: noise in the dtype of the features had 128 values."""
    x, labels, name = jnp.asarray(X, dtype), labels_of("logistic"), np.dtype(dtype).name
    said = f"features must be float32 or float64, got {name}"
    made = models.Examples(x, labels, jnp.sum(jnp.square(x), axis=1))
    calls = (
        lambda: models.examples(x, labels),
        lambda: trained(jax.random.key(0), MODELS["logistic"], x, labels, settings(), 8),
        lambda: dp_optim.train(jax.random.key(0), MODELS["logistic"], made, settings(), largest=8),
        lambda: jax.eval_shape(
            lambda x: permutation_sgd.train_by_permutation(jax.random.key(0), x, labels, 1.0, 1.0), x
        ),
    )
    for call in calls:
        with pytest.raises(TypeError, match=said):
            call()
    for mechanism in (mechanisms.gaussian, mechanisms.laplace):
        with pytest.raises(TypeError, match=f"value must be float32 or float64, got {name}"):
            mechanism(jax.random.key(0), x, 1.0)
    with pytest.raises(TypeError, match=f"scores must be float32 or float64, got {name}"):
        mechanisms.exponential(jax.random.key(0), x[:, 0], 1.0, 1.0)
    with pytest.raises(TypeError, match="value must be float32 or float64, got int32"):
        mechanisms.gaussian(jax.random.key(0), jnp.zeros(3, jnp.int32), 1.0)


def test_a_clip_norm_whose_square_underflows_clips():
    model, params = MODELS["logistic"], parameters(MODELS["logistic"])
    clip = 1e-170
    total, _ = clipped_sum(model, params, jnp.asarray(X), labels_of("logistic"), jnp.arange(60) < 1, jnp.asarray(clip))
    assert norm_of(jax.tree.map(lambda leaf: leaf / clip, total)) <= 1 + 1e-12


def test_words_that_would_favour_the_first_rows_are_not_used():
    """2^32 is 16 more than a multiple of 24: the last 16 words are drawn again."""
    last = 2**32 - 1
    words = jnp.asarray([last, last - 15, last - 16, 5, 6, 7], jnp.uint32)
    words = jnp.concatenate([words, jnp.arange(8, 24, dtype=jnp.uint32)])[: sampling.draw_count(24, 3)]
    rows, mask, _ = sampling.draw_batches(jax.random.key(0), words, jnp.asarray(3), 3, sampling.empty_history(24))
    assert set(np.asarray(rows)[np.asarray(mask)].tolist()) == {(last - 16) % 24, 5, 6}


@pytest.mark.parametrize(
    ("records", "batch", "capacity", "same_words"),
    [(200, 5, 16, False), (200, 25, 25, False), (200, 25, 25, True), (12, 5, 8, False), (9, 9, 9, False)],
)
def test_lots_are_uniform_subsets_drawn_anew(records, batch, capacity, same_words):
    """Both ways to draw: every row as often, every pair as often, and batches that say nothing of the next.

    Words that are all alike hold one row: every such batch is drawn again.
    """
    count = 4000
    drawn = drawn_batches(jax.random.key(0), batch, capacity, records, count, same_words)
    assert all(len(set(rows)) == batch for rows in drawn.tolist())
    if batch == records:
        return
    times = np.bincount(drawn.ravel(), minlength=records)
    assert chisquare(times).pvalue > 1e-3
    inside = np.zeros((count, records))
    np.put_along_axis(inside, drawn, 1, axis=1)
    both = inside.T @ inside
    upper = both[np.triu_indices(records, 1)]
    assert chisquare(upper).pvalue > 1e-3
    again = np.array(
        [
            [np.sum(a * b) for a, b in ((inside[1:, 0], inside[:-1, 0]), (1 - inside[1:, 0], inside[:-1, 0]))],
            [np.sum(a * b) for a, b in ((inside[1:, 0], 1 - inside[:-1, 0]), (1 - inside[1:, 0], 1 - inside[:-1, 0]))],
        ]
    )
    assert chi2_contingency(again).pvalue > 1e-3
    shuffled = np.array(
        [np.random.default_rng(e).permutation(records) for e in range(count * batch // records)]
    ).ravel()
    epochs = shuffled[: len(shuffled) // batch * batch].reshape(-1, batch)
    planted = np.zeros((len(epochs), records))
    np.put_along_axis(planted, epochs, 1, axis=1)
    table = [
        [np.sum(planted[1:, 0] * planted[:-1, 0]), np.sum((1 - planted[1:, 0]) * planted[:-1, 0])],
        [np.sum(planted[1:, 0] * (1 - planted[:-1, 0])), np.sum((1 - planted[1:, 0]) * (1 - planted[:-1, 0]))],
    ]
    if records == 12:
        assert chi2_contingency(table).pvalue < 1e-3  # epochs of a shuffled order are not such batches


def coarse_draws(monkeypatch):
    """Twelve rows, five of them, by words of sixteen values: ties are the rule."""
    draw_words = jax.random.bits
    monkeypatch.setattr(sampling.jax.random, "bits", lambda *arguments: draw_words(*arguments) & 3)
    return drawn_batches(jax.random.key(3), 5, 8, 12, 12_000)


def coarse_batches(monkeypatch, planted=False):
    """How often each row is drawn."""
    if planted:
        monkeypatch.setattr(sampling.jax.lax, "while_loop", lambda condition, body, first: first)
    drawn = coarse_draws(monkeypatch)
    assert all(len(set(rows)) == 5 for rows in drawn.tolist())
    return np.bincount(drawn.ravel(), minlength=12)


def test_ties_among_random_words_favour_no_row(monkeypatch):
    """So the distribution of large batches is exact, however few values a word has: 2^64 are enough."""
    assert chisquare(coarse_batches(monkeypatch)).pvalue > 1e-3


def coarse_orders(monkeypatch, planted=False):
    """Of the batches with the first row and the last: how often either came first."""
    smallest = sampling._smallest

    def in_order(key, batch, records):
        inside = jnp.arange(records, dtype=jnp.int32) < batch
        return jnp.sort(jnp.where(inside, smallest(key, batch, records), records))

    if planted:
        monkeypatch.setattr(sampling, "_smallest", in_order)
    drawn = coarse_draws(monkeypatch)
    both = drawn[np.any(drawn == 0, axis=1) & np.any(drawn == 11, axis=1)]
    first = np.sum(np.argmax(both == 0, axis=1) < np.argmax(both == 11, axis=1))
    return [first, len(both) - first]


def test_no_row_comes_before_another_more_often(monkeypatch):
    """What a row adds depends on its place by its rounding, so that two rows must be as likely in each."""
    assert chisquare(coarse_orders(monkeypatch)).pvalue > 1e-3


def test_batches_in_the_order_of_their_rows_are_found(monkeypatch):
    assert chisquare(coarse_orders(monkeypatch, planted=True)).pvalue < 1e-9


def test_batches_that_keep_ties_are_found(monkeypatch):
    assert chisquare(coarse_batches(monkeypatch, planted=True)).pvalue < 1e-9


def drawn_batches(key, batch, capacity, records, count, same_words=False):
    """The rows of so many batches."""

    def one(history, keys):
        words = sampling.random_words(keys[0], records, capacity) * np.uint32(not same_words)
        rows, mask, history = sampling.draw_batches(keys[1], words, jnp.asarray(batch), capacity, history)
        return history, (rows, mask)

    keys = jax.random.split(key, (count, 2))
    empty = sampling.empty_history(records)
    rows, mask = map(np.asarray, jax.jit(lambda keys: jax.lax.scan(one, empty, keys))(keys)[1])
    assert np.all(mask.sum(axis=1) == batch)
    return rows[mask].reshape(count, batch)


def settings(**changes):
    chosen = {"steps": 7, "batch": 6, "learning_rate": 0.1, "noise_multiplier": 0.0, "clip_norm": 0.5}
    return dp_optim.settings(**(chosen | changes))


@pytest.mark.daily("softmax-adam", "logistic-sgd")
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("name", ["logistic", "softmax"])
def test_the_whole_training_is_the_oracles(optimizer, name):
    """With batches of all records nothing but the start is random."""
    model = MODELS[name]
    chosen = settings(batch=60, steps=9)
    found = trained(jax.random.key(3), model, jnp.asarray(X), labels_of(name), chosen, 60, optimizer, smallest=60)
    start = models.init_params(jax.random.split(jax.random.key(3))[0], model)
    layers = [[np.asarray(layer.weights), np.asarray(layer.bias)] for layer in start]
    expected = oracle.train(name, layers, X, np.asarray(labels_of(name)), 9, 0.1, 0.5, optimizer)
    for layer, (weights, bias) in zip(found, expected, strict=True):
        np.testing.assert_allclose(layer.weights, weights, atol=2e-6)
        np.testing.assert_allclose(layer.bias, bias, atol=2e-6)


@partial(jax.jit, static_argnames=("model", "largest", "optimizer", "smallest"))
def trained(key, model, x, y, chosen, largest, optimizer="sgd", smallest=dp_optim.MIN_CAPACITY):
    return dp_optim.train(
        key,
        model,
        models.examples(x, y),
        chosen,
        largest=largest,
        optimizer=optimizer,
        smallest=smallest,
        noise="float",
    )


def test_exactly_so_many_steps_are_taken_and_batches_of_any_size_are_one_compilation(compilations):
    """A loss of constant slope: every step moves the bias by the learning rate times the clipped slope."""
    model, features = models.linear_svm(1), jnp.zeros((100, 1))
    labels = jnp.ones(100, jnp.int32)
    keys = [jax.random.key(seed) for seed in range(3)]
    sizes = ((1, 1), (13, 9), (64, 17), (100, 64), (37, 8))
    cases = [settings(steps=steps, batch=batch, clip_norm=1.0, learning_rate=0.005) for steps, batch in sizes]
    trained(keys[0], model, features, labels, settings(steps=2, batch=3), 64)
    compilations.clear()
    for chosen, (steps, _) in zip(cases, sizes, strict=True):
        (layer,) = trained(keys[1], model, features, labels, chosen, 64)
        assert float(np.asarray(layer.bias)[0]) == pytest.approx(0.005 * steps)
    assert compilations["programs"] == 0


def test_the_noise_is_twice_the_clip_norm_times_the_multiplier_over_the_batch():
    """No gradient at all: what moves is the noise."""
    model, examples = models.linear_svm(1), models.examples(jnp.full((40, 1), jnp.nan), jnp.ones(40, jnp.int32))
    chosen = settings(steps=4, batch=10, learning_rate=1.0, noise_multiplier=3.0, clip_norm=0.5)
    keys = jax.random.split(jax.random.key(0), 4000)
    (layer,) = jax.lax.map(lambda key: dp_optim.train(key, model, examples, chosen, largest=16, smallest=16), keys)
    deviation = math.sqrt(4) * 2 * 0.5 * 3.0 / 10
    for sample in (np.asarray(layer.weights).ravel(), np.asarray(layer.bias).ravel()):
        assert kstest(sample, norm(scale=deviation).cdf).pvalue > 1e-3
        for wrong in (deviation / 2, deviation * 1.5):
            assert kstest(sample, norm(scale=wrong).cdf).pvalue < 1e-9
    assert abs(np.corrcoef(np.asarray(layer.weights).ravel(), np.asarray(layer.bias).ravel())[0, 1]) < 0.06


@pytest.mark.daily("1024-exact", "4096-float")
@pytest.mark.parametrize("noise", dp_optim.NOISES)
@pytest.mark.parametrize("features", [dp_optim.TOGETHER // 2, 2 * dp_optim.TOGETHER])  # one draw a block, and a step
def test_rows_without_a_gradient_leave_the_stated_noise_of_their_key_alone(noise, features):
    """In every parameter and every step, of both kinds of noise: halved, repeated or of another key it is seen."""
    model, steps = models.linear_svm(features), 4
    examples = models.examples(jnp.full((40, features), jnp.nan), jnp.ones(40, jnp.int32))
    chosen = settings(steps=steps, batch=10, learning_rate=1.0, noise_multiplier=3.0, clip_norm=0.5)
    train = jax.jit(partial(dp_optim.train, model=model, largest=16, smallest=16, noise=noise))

    def weights(seed):
        (layer,) = train(jax.random.key(seed), examples=examples, settings=chosen)
        return np.concatenate([np.ravel(layer.weights), np.ravel(layer.bias)])

    first, again, other = map(weights, (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert abs(np.corrcoef(first, other)[0, 1]) < 4 / math.sqrt(features)
    deviation = math.sqrt(steps) * 2 * 0.5 * 3.0 / 10
    for sample in (first, other):
        assert np.std(sample) == pytest.approx(deviation, rel=4 / math.sqrt(2 * features))
        assert kstest(sample, norm(scale=deviation).cdf).pvalue > 1e-3


def test_epochs_are_the_papers_steps():
    assert dp_optim.steps_of_epochs(64, 30_956, 256) == 64 * 121
    assert dp_optim.steps_of_epochs(3, 10, 100) == 3
    assert dp_optim.capacities(512, 30_956) == (8, 16, 32, 64, 128, 256, 512)
    assert dp_optim.capacities(400, 300) == (8, 16, 32, 64, 128, 256, 300)
    assert dp_optim.capacities(3, 300) == (3,)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: settings(steps=0), ValueError, "steps must be at least 1"),
        (lambda: settings(batch=1.5), TypeError, "batch must be an integer"),
        (lambda: settings(learning_rate=0.0), ValueError, "learning_rate must be positive"),
        (lambda: settings(noise_multiplier=-1.0), ValueError, "noise_multiplier must be at least zero"),
        (lambda: settings(clip_norm=np.nan), ValueError, "clip_norm must"),
        (lambda: models.mlp(3, (0,), 2), ValueError, "hidden must be at least 1"),
        (lambda: dp_optim.capacities(8, 2.5), TypeError, "records must be an integer"),
        (lambda: models.mlp(3, (), 1), ValueError, "classes must be at least 2"),
        (
            lambda: trained(jax.random.key(0), MODELS["hinge"], X, labels_of("hinge"), settings(), 9, "lbfgs"),
            ValueError, "optimizer must be one of",
        ),
    ],
)  # fmt: skip
def test_bad_settings_are_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_noise_drawn_for_many_steps_at_once_is_that_of_each_step(monkeypatch):
    """Large models draw in every step, with the same keys."""
    made = models.examples(jnp.asarray(np.random.default_rng(3).normal(size=(12, 2))), jnp.arange(12) % 2)
    chosen = dp_optim.settings(steps=5, batch=4, learning_rate=0.5, noise_multiplier=1.0, clip_norm=1.0)

    def weights():
        return dp_optim.train(jax.random.key(5), models.logistic_regression(2), made, chosen, largest=8)

    together = jax.jit(weights)()
    monkeypatch.setattr(dp_optim, "TOGETHER", 0)
    of_each = jax.jit(lambda: weights())()
    jax.tree.map(np.testing.assert_array_equal, together, of_each)
