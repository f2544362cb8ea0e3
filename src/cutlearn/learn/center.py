"""The centre master (ACCPM): the next weights are the analytic centre of the localisation set.

The localisation set holds (w, xi) with xi_g >= b_p + a_p . w, xi_g >= 0, G w >= h and
lambda/2 |w|^2 + sum_g xi_g <= t, t the best objective so far: every plane is a deep cut, and again
a deeper one when t falls. At lambda = 0 a box |w_j| <= B closes it. With the slacks s_i of these m
rows but the one of t, and s_0 = t - objective, the centre minimises -nu log s_0 - sum_i log s_i:
    s_i z_i = mu,   s_0 = nu mu,   lambda w = A' z,   sum_{p in g} z_p + z_g = 1,
A the rows in w. It is the point of the model's central path whose mu fits t, and its z are
multipliers of the model: they prove the bound objective - m mu at no cost; at lambda = 0 only
within the box, and for every w if the multipliers of the box can be corrected away. The exact
minimum of the model is found only when the centre shows that it could end the run.

Slacks differ by ten and more powers of ten when the gap is small, so nothing here is measured on
one scale for all rows: w is counted from where Newton starts, and an equation holds when it does
to a share of its own terms.
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from threadpoolctl import ThreadpoolController

from cutlearn.arrays import Matrix, Vector
from cutlearn.learn.bundle import EPS, Master, Program, sizes_of, units_of

# nu for each variable: how much the level counts against the planes.
LEVEL = 3.0
# The oracle is asked where known planes promise this share of the gap.
HOPE = 0.5
# Planes kept for each variable.
KEPT = 3
# The first reach of the box at lambda = 0, in units of the objective, and how it grows.
BOX = 1e3
GROW = 10.0
# At lambda = 0 a deep cut through a wide box can take over a hundred iterations; giving up would
# leave only the model's minimum to ask at, from which such runs hardly move on.
MAX_NEWTON = 200
# The centre is found when its equations hold to this share of their size.
CENTRED = 0.1
# No gap relative to the level is taken to be smaller.
SMALLEST = 1e-12
# Added to the unit diagonal of the normal equations, against rounding.
RIDGE = 1e-13
# Share of a step to the boundary of s > 0, z > 0 that is taken.
NEARLY = 0.95


class Center(Master):
    """The analytic centre master; as `Master`, with a box that grows at lambda = 0."""

    needs_interior = True

    def __init__(
        self, n_weights: int, n_groups: int, lam: float, rows: Matrix, rhs: Vector
    ) -> None:
        super().__init__(n_weights, n_groups, lam, rows, rhs)
        self.kept = np.zeros(0, bool)
        # At lambda = 0 the box ends where planes have fallen by `reach`. No weights in it have a
        # lower objective than `within`: this steers, and proves nothing about weights outside.
        self.reach, self.within = 0.0, 0.0

    def add(self, b: Vector, a: Matrix, new: NDArray[np.bool_]) -> None:
        """Add a plane for every group where `new` is true."""
        super().add(b, a, new)
        self.kept = np.append(self.kept, np.ones(int(new.sum()), bool))

    def state(self) -> dict[str, NDArray[Any]]:
        """Return what a checkpoint must hold besides the planes."""
        inside = np.array([self.reach, self.within])
        return {**super().state(), "kept": self.kept, "at": self.at, "inside": inside}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Take back a state; the planes must have been added before."""
        super().restore(state)
        self.kept, self.at = state["kept"].astype(bool), state["at"]
        self.reach, self.within = state["inside"].tolist()

    def box(self) -> Vector:
        """Return the box |w_j| <= box_j of lambda = 0."""
        return units_of(self.program(), self.reach)

    def planes_agree(self, known: float, best: float, target_gap: float) -> bool:
        """Whether known planes promise enough at a centre; all of it before the first step."""
        steered = max(self.lower_bound, self.within)
        if best == np.inf:
            return known - steered <= target_gap
        return known <= best - HOPE * (best - steered)

    def solve(self, best: float, target_gap: float, no_new_plane: bool = False) -> Vector | None:
        """Return the centre of the localisation set, and raise the lower bound.

        After a step without a new plane, return the model's minimum: if it gives none either, the
        run ends. None when rounding leaves no weights at which the model is below the
        best, or hides whether there are any.
        """
        self.reach = max(self.reach, BOX * best)
        if no_new_plane:
            w = self.minimum(best)
            if w is not None and (self.lam > 0 or (np.abs(w) <= self.box()).all()):
                return w
        while True:
            at = np.flatnonzero(self.kept)
            gap = best - max(self.lower_bound, self.within, 0.0)
            # Matrices this small cost several times more on threads of the linear algebra.
            with _libraries().limit(limits=1):
                centre = find_centre(self.program().subset(at), best, gap, self.at, self.box())
            if centre is None:
                # The set is numerically empty: the minimum of the model serves as well, if inside.
                w = self.minimum(best)
                return w if w is not None and self.value(w) < best else None
            # Planes that were left out come back where they cut the centre off.
            over = self.b + self.a @ centre.w > centre.xi[self.group]
            if not (over & ~self.kept).any():
                break
            self.kept |= over
        self.at = centre.w
        open_end = self._bound(centre, at, best, target_gap)
        most = KEPT * (self.a.shape[1] + self.n_groups)
        if len(at) > most:
            self.kept[at[np.argsort(-centre.alpha, kind="stable")[most:]]] = False
        return centre.w if open_end else None

    def _bound(
        self, centre: "Centre", at: NDArray[np.intp], best: float, target_gap: float
    ) -> bool:
        """Raise the lower bound by the centre's multipliers, and exactly when that could end it.

        The model's minimum is at most its value at the centre, so an exact bound is of no use while
        that value is further than `target_gap` below the best. Return whether the run can go on.
        """
        alpha = np.zeros(len(self.b))
        alpha[at] = centre.alpha
        if self.lam > 0:
            self.prove(alpha, centre.mu)
        else:
            boxed = self.program().dual_value(alpha, centre.mu, self.box())
            self.within = max(self.within, boxed)
            if best - self.within <= HOPE * (best - self.lower_bound):
                self.prove(alpha, centre.mu)
        if best - self.value(centre.w) > target_gap or best - self.lower_bound <= target_gap:
            return True
        self.minimum(best)
        if self.lam > 0 or best - self.within > target_gap or best - self.lower_bound <= target_gap:
            return True
        # Only the box keeps better weights away, or rounding the proof that there are none.
        self.reach, self.within = GROW * self.reach, 0.0
        return bool(self.rounding[1:] @ self.box() + EPS * self.reach <= target_gap)


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()


class Centre(NamedTuple):
    """An analytic centre: w, the slacks xi, and clean multipliers of planes and constraints."""

    w: Vector
    xi: Vector
    alpha: Vector
    mu: Vector


def find_centre(
    program: Program, level: float, gap: float, start: Vector, box: Vector
) -> Centre | None:
    """Find the centre of {model <= level} from any w; None when its interior is numerically empty.

    The model's value at the centre is below the level as it is computed, not only by the formula.

    Parameters
    ----------
    program : Program
    level : float > 0
    gap : float > 0
        About how far the model falls below the level.
    start : (d,) float64
    box : (d,) float64
        Used at lambda = 0.
    """
    units = units_of(program, level)
    if program.lam > 0:
        units = np.minimum(units, np.sqrt(level / program.lam))
    else:
        start = np.clip(start, -0.9 * box, 0.9 * box)
    rows = _Rows(program, level, units, start, box)
    found = _newton(rows, max(gap / level, SMALLEST))
    if found is None:
        return None
    w = start + found.w * units
    if not program.value(w) < level:
        return None
    p, k, r = len(program.b), program.n_groups, len(program.rhs)
    mu = found.z[p + k : p + k + r] * (level / rows.sizes)
    return Centre(w, found.xi * level, program.clean(found.z[:p]), mu)


class _Rows:
    """The rows of a program, w from `start` in `units`, xi in `level`: s = A w + (its xi) - c.

    They come in the order planes, zero planes, constraints, box. Near the optimum b and a . w are
    large and cancel: counted from a w that is near, c is small and rounded once.
    """

    def __init__(
        self, program: Program, level: float, units: Vector, start: Vector, box: Vector
    ) -> None:
        d, k, p = program.a.shape[1], program.n_groups, len(program.b)
        self.d, self.k, self.p, self.group = d, k, p, program.group
        self.lam = program.lam * units**2 / level
        self.start = start / units
        self.sizes = sizes_of(program.rows, units)
        self.ends = slice(0, d if program.lam == 0 else 0)  # the weights with a box
        self.planes = program.a * (-units / level)
        self.walls = program.rows * units / self.sizes[:, None]
        here = program.at(start)
        self.b = here.b / level
        low, high = ((-box - start) / units)[self.ends], ((start - box) / units)[self.ends]
        self.c = np.concatenate([here.rhs / self.sizes, low, high])
        self.member = np.zeros((k, p))
        self.member[program.group, np.arange(p)] = 1.0
        self.m = p + k + len(self.c)

    def times(self, w: Vector, xi: Vector) -> Vector:
        """Return all rows times (w, xi)."""
        end = w[self.ends]
        return np.concatenate([self.planes @ w + xi[self.group], xi, self.walls @ w, end, -end])

    def slack(self, w: Vector, xi: Vector) -> Vector:
        """Return s."""
        out: Vector = self.times(w, xi) - np.concatenate([self.b, np.zeros(self.k), self.c])
        return out

    def back(self, z: Vector) -> tuple[Vector, Vector]:
        """Return z times all rows, in w and in xi."""
        p, k = self.p, self.k
        of_walls, of_ends = np.split(z[p + k :], [len(self.walls)])
        in_w = z[:p] @ self.planes + of_walls @ self.walls
        in_w[self.ends] += np.subtract(*of_ends.reshape(2, -1))
        return in_w, self.member @ z[:p] + z[p : p + k]

    def terms(self, z: Vector) -> Vector:
        """Return the sizes of what `back` adds up in w."""
        of_walls, of_ends = np.split(z[self.p + self.k :], [len(self.walls)])
        out: Vector = z[: self.p] @ np.abs(self.planes) + of_walls @ np.abs(self.walls)
        out[self.ends] += np.add(*of_ends.reshape(2, -1))
        return out

    def normal(self, q: Vector, in_w: Vector, in_xi: Vector) -> tuple[Vector, Vector]:
        """Solve (H + rows' diag(q) rows) (dw, dxi) = (in_w, in_xi), H the regulariser.

        A row touches one xi at most, so the xi are eliminated first: what is left in w is, for
        each group, the scatter of its planes (the zero plane among them) around their mean. As a
        sum of squares it keeps its sign under rounding.
        """
        d, k, p = self.d, self.k, self.p
        weight = self.member @ q[:p] + q[p : p + k]
        mean = self.member @ (self.planes * q[:p, None]) / weight[:, None]
        centred = np.concatenate([self.planes - mean[self.group], mean, self.walls])
        centred *= np.sqrt(q[: len(centred), None])
        full = centred.T @ centred
        diagonal = self.lam.copy()
        diagonal[self.ends] += q[len(centred) :].reshape(2, -1).sum(axis=0)
        full[range(d), range(d)] += diagonal
        size = np.sqrt(full.diagonal())
        full /= size[:, None] * size
        full[range(d), range(d)] += RIDGE
        right = (in_w - in_xi @ mean) / size
        dw = cho_solve(cho_factor(full, check_finite=False), right, check_finite=False) / size
        return dw, in_xi / weight - mean @ dw


class _Point(NamedTuple):
    """Where Newton is: weights, slacks of groups, and s > 0 and z > 0 of the rows."""

    w: Vector
    xi: Vector
    s: Vector
    z: Vector


class _Residues(NamedTuple):
    """How far the centre's equations are from holding; s z should all be `now`, its mean."""

    off: Vector  # of the rows: A w + xi - c - s
    in_w: Vector  # A' z - lambda w
    in_xi: Vector  # the sums of z - 1
    below: float  # s_0, by the objective
    now: float


def _residues(rows: _Rows, x: _Point) -> _Residues:
    in_w, in_xi = rows.back(x.z)
    w = rows.start + x.w
    below = 1.0 - 0.5 * float(rows.lam @ w**2) - float(x.xi.sum())
    now = float(x.s @ x.z) / rows.m
    return _Residues(rows.slack(x.w, x.xi) - x.s, in_w - rows.lam * w, in_xi - 1.0, below, now)


def _first(rows: _Rows, gap: float) -> _Point:
    """Return a point over the start whose slacks and multipliers fit how far the start is off.

    Where the start is much further from the level, or from a constraint, than the gap, slacks of
    the size of the gap would leave Newton no way to move.
    """
    highest = (rows.member * rows.b).max(axis=1, initial=0.0)
    below = 1.0 - 0.5 * float(rows.lam @ rows.start**2) - float(highest.sum())
    size = max(gap, abs(below), rows.c.max(initial=0.0))
    w, xi = np.zeros(rows.d), highest + 0.1 * size / rows.k
    s = np.maximum(rows.slack(w, xi), 0.01 * size / rows.k)
    return _Point(w, xi, s, 0.1 * size / (rows.m * s))


def _is_centre(rows: _Rows, x: _Point, off: _Residues, full: bool) -> bool:
    """Return whether the equations hold, each to a share of its own terms, after a full step.

    What is left of A' z = lambda w is paid for by the bound; a full step leaves only rounding.
    """
    nu = LEVEL * (rows.d + rows.k)
    terms = rows.terms(x.z) + rows.lam * np.abs(rows.start + x.w)
    return bool(
        full
        and abs(off.below - nu * off.now) <= CENTRED * nu * off.now
        and np.abs(x.s * x.z - off.now).max() <= CENTRED * off.now
        and (np.abs(off.off) <= CENTRED * x.s).all()
        and np.abs(off.in_xi).max() <= CENTRED
        and (np.abs(off.in_w) <= CENTRED * terms).all()
    )


def _newton(rows: _Rows, gap: float) -> _Point | None:
    """Solve the centre's equations; s and z stay positive, all else may start off."""
    nu = LEVEL * (rows.d + rows.k)
    # The objective on the central path falls by d + k to m times mu: the middle serves.
    pace = 0.5 * (rows.d + rows.k + rows.m)
    x, step = _first(rows, gap), 1.0
    for _ in range(MAX_NEWTON):
        off = _residues(rows, x)
        if _is_centre(rows, x, off, step == 1.0):
            return x
        # After a short step mu falls less: the way is free again from nearer to the path.
        lowest = (1.0 - 0.9 * step) * off.now
        mu = min(max((off.below + pace * off.now) / (nu + pace), lowest), 10.0 * off.now)
        q = x.z / x.s
        push_w, push_xi = rows.back(mu / x.s - x.z - q * off.off)
        try:
            dw, dxi = rows.normal(q, push_w + off.in_w, push_xi + off.in_xi)
        except np.linalg.LinAlgError:
            return None
        ds = rows.times(dw, dxi) + off.off
        dz = mu / x.s - x.z - q * ds
        step = min(1.0, NEARLY / max((-ds / x.s).max(), (-dz / x.z).max(), 1e-300))
        x = _Point(x.w + step * dw, x.xi + step * dxi, x.s + step * ds, x.z + step * dz)
        if not np.isfinite(x.z).all():
            return None
    return None
