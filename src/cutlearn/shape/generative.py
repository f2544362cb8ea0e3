"""Generative models of shapes: the likelihood of masks, samples, and training.

    p(y) = sum_h1,h2 exp(-E(y, h1, h2)) / Z        E as in `boltzmann`, W shared by patches

An RBM is the machine with one patch and no second hidden layer. Given h1, the labels and h2 are
independent and their sums are known, so both kinds are summed over h1.

Layers are trained by persistent contrastive divergence. Of a layer with labels y and units h,
joined by the W of `Patches`, the gradient of the log-likelihood is  <y h'>_data - <y h'>_model. The
second term is taken from Gibbs chains that persist between batches.
"""

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from cutlearn.arrays import AnyArray, Float32
from cutlearn.errors import InputError
from cutlearn.shape.boltzmann import Boltzmann, sigmoid, softplus
from cutlearn.shape.frame import Patches
from cutlearn.shape.journal import Journal, Progress, State

MAX_ENUMERATED = 20  # hidden units of the first layer
BATCH = 100
# The first step of the mean gradient of a mini-batch. Where a unit sees more than 100 labels it is
# at most NOISE / labels: the noise of the chains adds up over them, and an RBM of 1024 labels ends
# in one single shape at 0.02.
RATE, NOISE = 0.02, 2.0
MOMENTUM, DECAY = 0.9, 1e-4


@dataclass
class Shapes:
    """A generative model of masks; made by `fit_shapes`.

    Parameters
    ----------
    patches : Patches
    W : (labels of a patch, units of a patch) float32
    c : (m,) float32
        Of all units of the first hidden layer, patch by patch.
    b : (n,) float32
    W2, c2 : (m, m2), (m2,) float32
        Empty, m2 = 0, without a second hidden layer.
    """

    patches: Patches
    W: Float32
    c: Float32
    b: Float32
    W2: Float32
    c2: Float32
    _wide: Float32 = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._wide = self.patches.expand(self.W)

    def machine(self) -> Boltzmann:
        """Return the same numbers as a `Boltzmann`."""
        return Boltzmann.of(self._wide, self.c, self.b, self.W2, self.c2)

    # -- masks ---------------------------------------------------------------------------------

    def sample(self, count: int, sweeps: int = 1000, random_state: int = 0) -> Float32:
        """Draw masks by Gibbs sampling, each from its own chain; p(y = 1 | h1) of the last state.

        Returns
        -------
        (count, rows, columns) float32
        """
        rng = np.random.default_rng(random_state)
        h = draw(np.full((count, self.c.size), 0.5, np.float32), rng)
        for _ in range(sweeps):
            h = self._sweep(h, draw(self._labels(h), rng), rng)
        return self._labels(h).reshape(count, *self.patches.shape)

    def complete(
        self, masks: ArrayLike, known: ArrayLike, sweeps: int = 200, random_state: int = 0
    ) -> Float32:
        """Complete masks of which only the known pixels are given.

        Parameters
        ----------
        masks : (k, rows, columns) of 0 and 1
        known : (rows, columns) or (k, rows, columns) of bool

        Returns
        -------
        (k, rows, columns) float32
            p(y = 1) averaged over the second half of the sweeps; the known pixels as given.
        """
        rng = np.random.default_rng(random_state)
        given = self._rows(masks)
        held = np.broadcast_to(np.asarray(known, bool), np.shape(masks)).reshape(given.shape)
        h = draw(np.full((len(given), self.c.size), 0.5, np.float32), rng)
        total = np.zeros_like(given)
        for sweep in range(sweeps):
            chance = np.where(held, given, self._labels(h))
            if sweep >= sweeps // 2:
                total += chance
            h = self._sweep(h, draw(chance, rng), rng)
        total /= np.float32(sweeps - sweeps // 2)
        return total.reshape(len(given), *self.patches.shape)

    def reconstruct(self, masks: ArrayLike, sweeps: int = 5) -> Float32:
        """Return p(y = 1) given the expected hidden layers of masks, by mean-field."""
        h = self.hidden(masks, sweeps)
        return self._labels(h).reshape(len(h), *self.patches.shape)

    def hidden(self, masks: ArrayLike, sweeps: int = 5) -> Float32:
        """Return p(h1 = 1) of every mask, (k, m); for two hidden layers by mean-field."""
        fed = self._rows(masks) @ self._wide + self.c
        h = sigmoid(fed)
        for _ in range(sweeps if self.c2.size else 0):
            h = sigmoid(fed + sigmoid(h @ self.W2 + self.c2) @ self.W2.T)
        return np.asarray(h)

    # -- likelihood ----------------------------------------------------------------------------

    def free_energy(self, masks: ArrayLike) -> AnyArray:
        """Return F(y) of every mask, for one hidden layer: p(y) = exp(-F(y)) / Z."""
        if self.c2.size:
            raise InputError(
                "The free energy is known for one hidden layer, but these shapes have two. Use "
                "annealed."
            )
        return -self._weights_exactly(self._rows(masks).astype(np.float64))

    def log_likelihood(self, masks: ArrayLike) -> AnyArray:
        """Return the exact log p(y) of every mask by enumeration of at most 20 hidden units."""
        y = self._rows(masks).astype(np.float64)
        states = self._states()
        total = states @ self.c.astype(np.float64)
        total += softplus(states @ self._wide.T.astype(np.float64) + self.b).sum(axis=1)
        total += self._second(states, 1.0)
        weights: AnyArray = self._weights_exactly(y) - logsumexp(total)
        return weights

    def annealed(
        self, masks: ArrayLike, betas: int = 2000, chains: int = 50, random_state: int = 0
    ) -> AnyArray:
        """Estimate log p(y) of every mask by annealed importance sampling.

        Z is estimated by chains that are led from independent units to the model. The weight of a
        mask is known for one hidden layer; for two it is estimated in the same way, with the
        mask held.
        """
        rng = np.random.default_rng(random_state)
        y = self._rows(masks)
        first = np.full((chains, self.c.size), 0.5, np.float32)
        rows = np.repeat(self.c[None], chains, axis=0)
        log_z = _mean_weight(self._anneal(draw(first, rng), rows, True, betas, rng)[None])[0]
        if not self.c2.size:
            return np.asarray(self._weights_exactly(y.astype(np.float64)) - log_z)
        few = min(chains, 10)
        rows = np.repeat(y @ self._wide + self.c, few, axis=0)
        h = draw(np.full(rows.shape, 0.5, np.float32), rng)
        logs = self._anneal(h, rows, False, betas, rng).reshape(len(y), few)
        weights: AnyArray = y.astype(np.float64) @ self.b + _mean_weight(logs) - log_z
        return weights

    def _anneal(
        self, h: Float32, c: Float32, free: bool, betas: int, rng: np.random.Generator
    ) -> AnyArray:
        """Return the log weights of chains on h1 with biases c, with free labels or without any.

        f_k(h1) = exp(k c'h1) prod_i (1 + exp((1-k) b_i + k (b + W h1)_i)) prod_l (1 + exp(k ...))
        from k = 0, whose sum over all h1 is known, to k = 1.
        """

        def level(k: float, h: Float32) -> AnyArray:
            value: AnyArray = k * (h * c).sum(axis=1, dtype=np.float64) + self._second(h, k)
            if free:
                value += softplus(k * (h @ self._wide.T) + self.b).sum(axis=1, dtype=np.float64)
            return value

        log_weight = np.full(len(h), (self.c.size + self.c2.size) * np.log(2.0))
        if free:
            log_weight += softplus(self.b.astype(np.float64)).sum()
        steps = np.linspace(0, 1, betas + 1)
        for before, k in itertools.pairwise(steps):
            log_weight += level(k, h) - level(before, h)
            fed = c + draw(sigmoid(np.float32(k) * (h @ self.W2 + self.c2)), rng) @ self.W2.T
            if free:
                y = draw(sigmoid(np.float32(k) * (h @ self._wide.T) + self.b), rng)
                fed += y @ self._wide
            h = draw(sigmoid(np.float32(k) * fed), rng)
        return log_weight

    def _second(self, h: AnyArray, k: float) -> AnyArray:
        """Return the log of the sum over h2, at temperature 1 / k."""
        return np.asarray(softplus(k * (h @ self.W2 + self.c2)).sum(axis=1, dtype=np.float64))

    def _weights_exactly(self, y: AnyArray) -> AnyArray:
        """Return log sum_h exp(-E(y, h)) of every row."""
        fed = y @ self._wide + self.c
        if not self.c2.size:
            return np.asarray(y @ self.b + softplus(fed).sum(axis=1))
        states = self._states()
        inner = fed @ states.T + self._second(states, 1.0)
        return np.asarray(y @ self.b + logsumexp(inner, axis=1))

    def _states(self) -> AnyArray:
        m = self.c.size
        if m > MAX_ENUMERATED:
            raise InputError(
                "log_likelihood enumerates the states of at most "
                f"{MAX_ENUMERATED} hidden units, but there are {m}. Use annealed."
            )
        return ((np.arange(2**m)[:, None] >> np.arange(m)) & 1).astype(np.float64)

    def _labels(self, h: Float32) -> Float32:
        return np.asarray(sigmoid(h @ self._wide.T + self.b))

    def _sweep(self, h: Float32, y: Float32, rng: np.random.Generator) -> Float32:
        """Draw h1 given the labels and an h2 that is drawn given the old h1."""
        h2 = draw(sigmoid(h @ self.W2 + self.c2), rng)
        return draw(sigmoid(y @ self._wide + self.c + h2 @ self.W2.T), rng)

    def _rows(self, masks: ArrayLike) -> Float32:
        given = np.asarray(masks, np.float32)
        if given.ndim != 3 or given.shape[1:] != self.patches.shape:
            raise InputError(
                f"masks have shape {given.shape}, but the shapes were learned from masks of "
                f"{self.patches.shape}. Give an array (k, {self.patches.shape[0]}, "
                f"{self.patches.shape[1]})."
            )
        return given.reshape(len(given), -1)


def _mean_weight(logs: AnyArray) -> AnyArray:
    """Return the log of the mean weight of each row of chains."""
    return np.asarray(logsumexp(logs, axis=1) - np.log(logs.shape[1]))


@dataclass(frozen=True)
class Layer:
    """One layer of a machine in training by persistent contrastive divergence.

    Parameters
    ----------
    patches : Patches
    units : int
        Hidden units of a patch.
    gain : (up, down)
        Factors of W on the way up and down. In a stack of two layers the units between them will
        have inputs from both; while one layer is trained alone, a factor of 2 stands for both.
    """

    patches: Patches
    units: int
    gain: tuple[float, float] = (1.0, 1.0)

    def start(self, data: Float32, rng: np.random.Generator) -> State:
        """Return small random weights, biases of labels by how often they are 1, and chains."""
        labels = self.patches.size[0] * self.patches.size[1]
        often = np.clip(data.mean(axis=0), 0.02, 0.98)
        state: State = {
            "W": (0.01 * rng.standard_normal((labels, self.units), np.float32)),
            "b": np.log(often / (1 - often)).astype(np.float32),
            "c": np.zeros(self.units * len(self.patches.corners), np.float32),
        }
        state |= {f"{name}.speed": np.zeros_like(state[name]) for name in ("W", "b", "c")}
        first = rng.integers(0, len(data), BATCH)
        state["chains"] = np.asarray(data[first] > 0.5, np.float32)
        return state

    def epoch(
        self, data: Float32, total: int, state: State, rng: np.random.Generator, done: int
    ) -> None:
        """Make one pass over the data in mini-batches, in place.

        The rate falls linearly to 0, so that the noise of the chains dies away.
        """
        order = rng.permutation(len(data))
        rate = np.float32(min(RATE, NOISE / len(state["W"])) * (1 - done / total))
        for start in range(0, len(data), BATCH):
            self._update(state, data[order[start : start + BATCH]], rng, rate)

    def hidden(self, state: State, y: Float32) -> Float32:
        """Return p(h = 1 | y) of every row."""
        fed = self.patches.up(y, state["W"])
        return np.asarray(sigmoid(np.float32(self.gain[0]) * fed + state["c"]))

    def labels(self, state: State, h: Float32) -> Float32:
        """Return p(y = 1 | h) of every row."""
        fed = self.patches.down(h, state["W"])
        return np.asarray(sigmoid(np.float32(self.gain[1]) * fed + state["b"]))

    def _update(self, state: State, y: Float32, rng: np.random.Generator, rate: np.float32) -> None:
        h = self.hidden(state, y)
        # One step of Gibbs sampling of the chains.
        h_model = self.hidden(state, state["chains"])
        y_model = draw(self.labels(state, draw(h_model, rng)), rng)
        h_model = self.hidden(state, y_model)
        state["chains"] = y_model
        rows, seen = np.float32(1 / len(y)), np.float32(1 / len(y_model))
        outer = self.patches.outer
        gradient = {
            "W": outer(y, h, self.units) * rows - outer(y_model, h_model, self.units) * seen,
            "b": y.mean(axis=0) - y_model.mean(axis=0),
            "c": h.mean(axis=0) - h_model.mean(axis=0),
        }
        gradient["W"] -= np.float32(DECAY) * state["W"]
        for name, slope in gradient.items():
            speed = state[f"{name}.speed"]
            speed *= np.float32(MOMENTUM)
            speed += rate * slope
            state[name] += speed


def draw(chance: Float32, rng: np.random.Generator) -> Float32:
    """Draw binary units with these probabilities, as float32."""
    return (rng.random(chance.shape, np.float32) < chance).astype(np.float32)


def train_layers(
    masks: ArrayLike,
    hidden: Sequence[int],
    epochs: Sequence[int],
    journal: Journal,
    patches: Patches | None = None,
) -> Shapes:
    """Train an RBM, hidden = (m,), or a ShapeBM, hidden = (m, m2), layer by layer, bottom up.

    The first of two layers is shared by four patches, each with a quarter of its units, and a
    single layer sees the whole mask, unless other patches are given. Without any layer, labels
    are independent.
    """
    given = np.asarray(masks, np.float32)
    shape, data = given.shape[1:], given.reshape(len(given), -1)
    if not hidden:
        n = data.shape[1]
        zeros = [np.zeros(size, np.float32) for size in ((n, 0), 0, n, (0, 0), 0)]
        return Shapes(Patches.whole(shape), *zeros)
    if patches is None:
        patches = Patches.whole(shape) if len(hidden) == 1 else Patches.layout(shape)
    count = len(patches.corners)
    gain = (1.0, 1.0) if len(hidden) == 1 else (2.0, 1.0)
    layers = [Layer(patches, hidden[0] // count, gain)]
    if len(hidden) == 2:
        whole = Patches.whole((hidden[0] // count * count, 1))
        layers.append(Layer(whole, hidden[1], gain=(1.0, 2.0)))
    states = []
    for number, (layer, total) in enumerate(zip(layers, epochs), 1):
        step = functools.partial(layer.epoch, data, total)
        name = f"shapes, layer {number}"
        states.append(journal.run(name, total, functools.partial(layer.start, data), step))
        data = layer.hidden(states[-1], data)
    first = states[0]
    if len(layers) == 1:
        none = np.zeros((first["c"].size, 0), np.float32)
        return Shapes(patches, first["W"], first["c"], first["b"], none, none[0])
    # The input of units between two layers was 2 y'W + c in the one and 2 W2 h2 + c' in the other;
    # the mean of both is y'W + W2 h2 + (c + c') / 2.
    top = states[1]
    c = np.asarray((first["c"] + top["b"]) / 2, np.float32)
    return Shapes(patches, first["W"], c, first["b"], top["W"], top["c"])


def fit_shapes(
    masks: ArrayLike,
    hidden: Sequence[int] = (500,),
    epochs: Sequence[int] = (2000,),
    random_state: int = 0,
    progress: Progress | None = None,
) -> Shapes:
    """Train a model of shapes: an RBM, hidden = (m,), or a ShapeBM, hidden = (m, m2).

    Parameters
    ----------
    masks : (k, rows, columns) of 0 and 1
    hidden, epochs : ints of each layer
    progress : callable (done, total, what), optional
    """
    return train_layers(masks, hidden, epochs, Journal(random_state, progress=progress))
