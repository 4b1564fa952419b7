"""Design the points to evaluate to learn a gradient: structured starts, then a short polish.

The starts are a regular simplex, pairs ``+-h e_i`` and one-sided steps around ``theta``, each along the directions in
which the gradient is least known and at several radii; the best is polished by a few steps of the analytic gradient.
For a squared-exponential kernel without earlier points the best pairs lie near ``h = (1.5 s)^(1/6)`` lengthscales,
``s`` the noise relative to the prior variance: minimise ``1 - 2 u e^-u / (1 - e^-2u + s)`` over ``u = h^2``. The
scanned radii are multiples of this ``h``. Any kernel works: the scale of a coordinate is computed from the prior,
``sqrt(k(theta, theta) / (grad k grad^T)_ii)``, one lengthscale for the squared exponential.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo.surrogate import box_search, gp, gradient

RADII = tuple(2.0 ** np.linspace(-3.5, 1.5, 6))
FINER = (0.5**0.5, 2.0**0.5)  # factors on the best radius
LARGE, NEAREST = 1024, 512  # above LARGE rows, the search uses the NEAREST
STEP_SHARE = 0.2  # initial step of the polish, as a share of the winning radius


def directions(count: int, batch: int, dimension: int) -> np.ndarray:
    """Three unit designs of ``count`` points, padded to ``batch`` rows: ``(3, batch, dimension)``.

    Pairs, simplex, one-sided steps, along the leading axes first. Points beyond ``2 d`` repeat at twice the radius.
    """
    axes = np.eye(dimension)
    pairs = np.zeros((count, dimension))
    sides = np.zeros((count, dimension))
    for row in range(count):
        lap, place = divmod(row, 2 * dimension)
        pairs[row] = (1 + lap) * (-1) ** place * axes[place // 2]
        sides[row] = (1 + lap) * (-1) ** (place // dimension) * axes[place % dimension]
    corners = min(count, dimension + 1)
    simplex = pairs.copy()
    if corners > 1:
        vertices = _helmert(corners).T * np.sqrt(corners / (corners - 1))  # rows of norm 1 summing to 0
        simplex[:corners] = 0.0
        simplex[:corners, : corners - 1] = vertices
    padding = ((0, batch - count), (0, 0))
    return np.stack([np.pad(design, padding) for design in (pairs, simplex, sides)])


def _helmert(order: int) -> np.ndarray:
    """Orthonormal rows ``(order - 1, order)`` with sum 0, as ``scipy.linalg.helmert``, which is slow to import."""
    places = np.arange(1, order)
    rows = np.tril(np.ones((order, order)), -1) - np.diag(np.arange(order))
    return rows[1:] / np.sqrt(places * (places + 1))[:, None]


def propose_points(
    model: gp.GPModel,
    factorization: gp.Factorization,
    theta: jax.Array,
    bounds: jax.Array,
    designs: jax.Array,
    mask: jax.Array,
    *,
    polish_steps: int,
) -> tuple[jax.Array, jax.Array]:
    """Propose a batch of low ``Tr(grad k_{D u z}(theta, theta) grad^T)`` inside the box.

    Args:
      model: the process before any evaluation.
      factorization: the evaluated points.
      theta: ``(d,)``, where to learn the gradient.
      bounds: ``(2, d)``, lower and upper; infinite sides are allowed.
      designs: ``(s, b, d)`` unit designs, see ``directions``.
      mask: ``(b,)``, True for the points that count.
      polish_steps: static; 0 for the best structured start.

    Returns:
      The points ``(b, d)`` (``theta`` at masked rows) and the trace after evaluating them.
    """
    searched = _near_points(model, factorization, theta)
    posterior = gradient.gradient_posterior(model, searched, theta)
    variance = model.kernel(model.params, theta, theta)
    scale = jnp.sqrt(variance / jnp.diagonal(gradient.prior_covariance(model, theta)))
    unknown = gradient.gradient_covariance(model, factorization, theta)
    axes = _eigenvectors(scale[:, None] * unknown * scale[None, :])[:, ::-1].T  # rows, least known first
    largest = jnp.take_along_axis(axes, jnp.argmax(jnp.abs(axes), axis=1)[:, None], axis=1)
    axes *= jnp.sign(largest)  # eigh leaves the sign open, and so the query
    relative = gp.noise(model, theta[None])[0] / variance
    radii = (1.5 * relative) ** (1 / 6) * jnp.asarray(RADII, theta.dtype)

    def into_box(points):
        return jnp.clip(points, bounds[:1], bounds[1:])

    def place(offsets):
        """Place points at ``theta + scale * offsets``; shift them as a whole into the box (keeps their shape); clip."""
        points = jnp.where(mask[:, None], theta[None] + scale[None] * offsets, theta[None])
        points += jnp.maximum(bounds[0] - jnp.min(points, axis=0), 0.0)[None]
        points += jnp.minimum(bounds[1] - jnp.max(points, axis=0), 0.0)[None]
        return jnp.where(mask[:, None], into_box(points), theta[None])

    turned = gp.matmul(jnp.asarray(designs, theta.dtype), axes)  # (s, b, d)
    finer = jnp.asarray(np.resize((1.0, *FINER), len(designs)), theta.dtype)

    def pick_best(gains):
        """Radius and design of the best of all designs at all radii."""
        best, _ = box_search.first_of_largest(gains.ravel())
        return radii[best // len(designs)], turned[best % len(designs)]

    def look(gains, turn):
        """Score all designs at one radius, or in the last turn the best design at finer radii: one program for both."""
        radius, design = pick_best(gains[:-1])
        coarse = radii[jnp.minimum(turn, len(RADII) - 1)] * turned
        offsets = jnp.where(turn < len(RADII), coarse, (radius * finer)[:, None, None] * design[None])
        new_gains = jax.vmap(
            lambda design_offsets: gradient.information_gain(model, posterior, place(design_offsets), mask)
        )(offsets)
        return gains.at[turn].set(new_gains), None

    nothing = jnp.full((len(RADII) + 1, len(designs)), -jnp.inf, theta.dtype)
    gains, _ = jax.lax.scan(look, nothing, jnp.arange(len(RADII) + 1))
    radius, design = pick_best(gains[:-1])
    best, gain = box_search.first_of_largest(gains[-1])
    radius *= finer[best]
    points = place(radius * design)
    if polish_steps:
        points, gain = box_search.ascend(
            lambda points: gradient.information_gain_and_gradient(model, posterior, points, mask),
            into_box,
            points,
            steps=polish_steps,
            step_size=STEP_SHARE * radius * scale[None],
        )
    if searched is not factorization:
        gain = gradient.information_gain(model, gradient.gradient_posterior(model, factorization, theta), points, mask)
    return points, jnp.trace(unknown) - gain


@jax.custom_jvp
def _eigenvectors(matrix: jax.Array) -> jax.Array:
    """Eigenvectors of a symmetric matrix ``(d, d)`` in columns, by growing eigenvalue."""
    return jnp.linalg.eigh(matrix, symmetrize_input=True)[1]


@_eigenvectors.defjvp
def _(primals, tangents):
    """Equal eigenvalues, as before any evaluation, have no eigenvectors to differentiate: these stay where they are."""
    values, vectors = jnp.linalg.eigh(primals[0], symmetrize_input=True)
    gaps = values[None, :] - values[:, None]
    apart = jnp.abs(gaps) > values.shape[0] * jnp.finfo(values.dtype).eps * jnp.max(jnp.abs(values))
    turned = gp.matmul(vectors.T, gp.matmul(tangents[0], vectors))
    return vectors, gp.matmul(vectors, jnp.where(apart, turned / jnp.where(apart, gaps, 1.0), 0.0))


def _near_points(model: gp.GPModel, factorization: gp.Factorization, theta: jax.Array) -> gp.Factorization:
    """Return the points used by the search: all, or from a large buffer those most correlated with ``theta``.

    A gain costs ``O(m^2 b)``; a search computes 21 gains and 17 gradients. Directions and the returned trace use all
    points.
    """
    if factorization.points.shape[0] <= LARGE:
        return factorization
    rows = gp.nearest(model, factorization.points, factorization.mask, theta, NEAREST)
    return gp.condition(model, factorization.points[rows], factorization.mask[rows])


def propose_batch(
    model: gp.GPModel,
    factorization: gp.Factorization,
    theta: jax.Array,
    bounds: jax.Array,
    *,
    batch: int,
    polish_steps: int,
) -> tuple[jax.Array, jax.Array]:
    """Propose ``batch`` points by ``propose``: the points ``(b, d)`` and a mask ``(b,)``, True throughout."""
    mask = jnp.ones(batch, bool)
    designs = jnp.asarray(directions(batch, batch, theta.shape[0]))
    return propose_points(model, factorization, theta, bounds, designs, mask, polish_steps=polish_steps)[0], mask


def propose_fewest(
    model: gp.GPModel,
    factorization: gp.Factorization,
    theta: jax.Array,
    bounds: jax.Array,
    tolerance: jax.Array,
    *,
    batch: int,
    polish_steps: int,
) -> tuple[jax.Array, jax.Array]:
    """Propose the fewest points with best trace under ``tolerance``, possibly none (Sopa et al. 2025, Algorithm 2).

    Returns:
      The points ``(b, d)`` and the mask ``(b,)`` of the leading points to evaluate: all where the cap ``batch`` binds.
    """
    counts = range(1, batch + 1)
    tables = jnp.stack([jnp.asarray(directions(count, batch, theta.shape[0])) for count in counts])

    def mask(count):
        return jnp.arange(batch, dtype=jnp.int32) < count

    def is_above_tolerance(carry):
        count, _, trace = carry
        return ~(trace <= tolerance) & (count < batch)

    def one_more(carry):
        count = carry[0] + 1
        designs = tables[count - 1]
        return count, *propose_points(
            model, factorization, theta, bounds, designs, mask(count), polish_steps=polish_steps
        )

    initial_trace = gradient.gradient_information(model, factorization, theta)
    nothing = jnp.zeros((), jnp.int32), jnp.broadcast_to(theta, (batch, *theta.shape)), initial_trace
    count, points, _ = jax.lax.while_loop(is_above_tolerance, one_more, nothing)
    return points, mask(count)
