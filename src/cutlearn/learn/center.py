"""The centre master (ACCPM): ask at the analytic centre of where the optimum can still be.

The localisation set holds (w, xi) with xi_g >= b_p + a_p . w, xi_g >= 0, G w >= h and
lambda/2 |w|^2 + sum_g xi_g <= t, t the best objective so far: every plane is a deep cut, and again
a deeper one when t falls. At lambda = 0 a box |w_j| <= B closes it. With the slacks s_i of these m
rows but the one of t, and s_0 = t - objective, the centre minimises -nu log s_0 - sum_i log s_i:
    s_i z_i = mu,   s_0 = nu mu,   lambda w = A' z,   sum_{p in g} z_p + z_g = 1,
A the rows in w. It is the point of the model's central path whose mu fits t, and its z are
multipliers of the model: they prove the bound objective - m mu at no cost. The exact minimum of
the model is found only when the centre shows that it could end the run.
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from threadpoolctl import ThreadpoolController

from cutlearn.learn.master import Master
from cutlearn.learn.programs import Program, sizes_of, units_of

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

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
MOST_NEWTON = 200
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

    needs_room = True

    def __init__(
        self, n_weights: int, n_groups: int, lam: float, rows: Matrix, least: Vector
    ) -> None:
        super().__init__(n_weights, n_groups, lam, rows, least)
        self.kept = np.zeros(0, bool)
        self.at = np.zeros(n_weights)

    def add(self, b: Vector, a: Matrix, new: NDArray[np.bool_]) -> None:
        """Add a plane for every group where `new` is true."""
        super().add(b, a, new)
        self.kept = np.append(self.kept, np.ones(int(new.sum()), bool))

    def state(self) -> dict[str, NDArray[Any]]:
        """Give what a checkpoint must hold beside the planes."""
        return {**super().state(), "kept": self.kept, "at": self.at}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Take back a state; the planes must have been added before."""
        super().restore(state)
        self.kept, self.at = state["kept"].astype(bool), state["at"]

    def settled(self, known: float, best: float, fine: float) -> bool:
        """Whether known planes promise enough at a centre; all of it before the first step."""
        if best == np.inf:
            return known - self.lower_bound <= fine
        return known <= best - HOPE * (best - self.lower_bound)

    def solve(self, best: float, fine: float, confirmed: bool = False) -> Vector:
        """Give the centre of the localisation set, and raise the lower bound.

        When the oracle confirmed the model, give the model's minimum: if it is confirmed too, that
        ends the run.
        """
        self.reach = max(self.reach, BOX * best)
        if confirmed:
            w = self.minimum(best)
            if self.lam > 0 or (np.abs(w) <= self.box()).all():
                return w
        while True:
            at = np.flatnonzero(self.kept)
            gap = best - max(self.lower_bound, 0.0)
            # Matrices this small cost several times more on threads of the linear algebra.
            with _libraries().limit(limits=1):
                centre = find_centre(self.program().take(at), best, gap, self.at, self.box())
            if centre is None:
                # The set has hardly any inside left: its least point serves as well.
                return self.minimum(best)
            # Planes that were left out come back where they cut the centre off.
            over = self.b + self.a @ centre.w > centre.xi[self.group]
            if not (over & ~self.kept).any():
                break
            self.kept |= over
        self.at = centre.w
        self._bound(centre, at, best, fine)
        most = KEPT * (self.a.shape[1] + self.n_groups)
        if len(at) > most:
            self.kept[at[np.argsort(-centre.alpha, kind="stable")[most:]]] = False
        return centre.w

    def _bound(self, centre: "Centre", at: NDArray[np.intp], best: float, fine: float) -> None:
        """Raise the lower bound by the centre's multipliers, and exactly when that could end it.

        The model's minimum is at most its value at the centre, so an exact bound is of no use while
        that value is further than `fine` below the best.
        """
        alpha = np.zeros(len(self.b))
        alpha[at] = centre.alpha
        within = max(self.lower_bound, self.program().dual_value(alpha, centre.mu, self.box()))
        if best - self.value(centre.w) > fine:
            self.lower_bound = within
            return
        self.lower_bound = 0.0
        self.minimum(best)
        if self.lam > 0 or best - within > fine:
            self.lower_bound = max(within, self.lower_bound)
        elif best - self.lower_bound > fine:
            # Only the box keeps better weights away, and bounds found within it are void outside.
            self.reach *= GROW


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
    """Find the centre of {model <= level} from any w; None when it has no inside to speak of.

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
    rows = _Rows(program, level, units, box)
    if program.lam == 0:
        start = np.clip(start, -0.9 * box, 0.9 * box)
    x = _newton(rows, start / units, max(gap / level, SMALLEST))
    if x is None:
        x = _newton(rows, np.zeros(rows.d), 1.0)
    if x is None:
        return None
    w, xi, z = x
    p, k, r = len(program.b), program.n_groups, len(program.least)
    mu = z[p + k : p + k + r] * (level / rows.sizes)
    return Centre(w * units, xi * level, program.clean(z[:p]), mu)


class _Rows:
    """The rows of a program, w in `units` and xi in `level`: s = A w + (xi of its group) - c.

    They come in the order planes, zero planes, constraints, box.
    """

    def __init__(self, program: Program, level: float, units: Vector, box: Vector) -> None:
        d, k, p = program.a.shape[1], program.n_groups, len(program.b)
        self.d, self.k, self.p, self.group = d, k, p, program.group
        self.lam = program.lam * units**2 / level
        self.sizes = sizes_of(program.rows, units)
        self.ends = slice(0, d if program.lam == 0 else 0)  # the weights with a box
        self.planes = program.a * (-units / level)
        self.walls = program.rows * units / self.sizes[:, None]
        self.b = program.b / level
        far = -(box / units)[self.ends]
        self.c = np.concatenate([program.least / self.sizes, far, far])
        self.member = np.zeros((k, p))
        self.member[program.group, np.arange(p)] = 1.0
        self.m = p + k + len(self.c)

    def times(self, w: Vector, xi: Vector) -> Vector:
        """Give all rows times (w, xi)."""
        end = w[self.ends]
        return np.concatenate([self.planes @ w + xi @ self.member, xi, self.walls @ w, end, -end])

    def slack(self, w: Vector, xi: Vector) -> Vector:
        """Give s."""
        out: Vector = self.times(w, xi) - np.concatenate([self.b, np.zeros(self.k), self.c])
        return out

    def back(self, z: Vector) -> tuple[Vector, Vector]:
        """Give z times all rows, in w and in xi."""
        p, k = self.p, self.k
        of_walls, of_ends = np.split(z[p + k :], [len(self.walls)])
        in_w = z[:p] @ self.planes + of_walls @ self.walls
        in_w[self.ends] += np.subtract(*of_ends.reshape(2, -1))
        return in_w, self.member @ z[:p] + z[p : p + k]

    def normal(self, q: Vector, in_w: Vector, in_xi: Vector) -> tuple[Vector, Vector]:
        """Solve (H + rows' diag(q) rows) (dw, dxi) = (in_w, in_xi), H the regulariser.

        A row touches one xi at most, so the xi are eliminated first: what is left in w is, for
        each group, the spread of its planes (the zero plane among them) around their mean. As a
        sum of squares it keeps its sign under rounding.
        """
        d, k, p = self.d, self.k, self.p
        weight = self.member @ q[:p] + q[p : p + k]
        mean = self.member @ (self.planes * q[:p, None]) / weight[:, None]
        spread = np.concatenate([self.planes - mean[self.group], mean, self.walls])
        spread *= np.sqrt(q[: len(spread), None])
        full = spread.T @ spread
        diagonal = self.lam.copy()
        diagonal[self.ends] += q[len(spread) :].reshape(2, -1).sum(axis=0)
        full[range(d), range(d)] += diagonal
        size = np.sqrt(full.diagonal())
        full /= size[:, None] * size
        full[range(d), range(d)] += RIDGE
        right = (in_w - in_xi @ mean) / size
        dw = cho_solve(cho_factor(full, check_finite=False), right, check_finite=False) / size
        return dw, in_xi / weight - mean @ dw


def _newton(rows: _Rows, w: Vector, gap: float) -> tuple[Vector, Vector, Vector] | None:
    """Solve the centre's equations for w, xi, z; s and z stay positive, all else may start off."""
    d, k, m = rows.d, rows.k, rows.m
    nu = LEVEL * (d + k)
    pace = 0.5 * (d + k + m)
    heights = rows.member * (rows.b - rows.planes @ w)
    xi = heights.max(axis=1, initial=0.0) + 0.1 * gap / k
    s = np.maximum(rows.slack(w, xi), 0.01 * gap / k)
    z = 0.1 * gap / (m * s)
    steep = np.abs(rows.planes).max(initial=0.0)
    for _ in range(MOST_NEWTON):
        off = rows.slack(w, xi) - s
        in_w, in_xi = rows.back(z)
        room = 1.0 - 0.5 * float(rows.lam @ w**2) - float(xi.sum())
        now = float(s @ z) / m
        # The objective on the central path falls by d + k to m times mu: the middle serves.
        mu = (room + pace * now) / (nu + pace)
        if (
            abs(room - nu * now) <= CENTRED * nu * now
            and np.abs(s * z - now).max() <= CENTRED * now
            and np.abs(off).max() <= 1e-9
            and np.abs(1.0 - in_xi).max() <= CENTRED
            and np.abs(rows.lam * w - in_w).max() <= CENTRED * steep
        ):
            return w, xi, z
        mu = min(max(mu, 0.1 * now), 10.0 * now)
        q = z / s
        push_w, push_xi = rows.back(mu / s - z - q * off)
        try:
            dw, dxi = rows.normal(q, push_w + in_w - rows.lam * w, push_xi + in_xi - 1.0)
        except np.linalg.LinAlgError:
            return None
        ds = rows.times(dw, dxi) + off
        dz = mu / s - z - q * ds
        step = min(1.0, NEARLY / max((-ds / s).max(), (-dz / z).max(), 1e-300))
        w, xi, s, z = w + step * dw, xi + step * dxi, s + step * ds, z + step * dz
        if not np.isfinite(z).all():
            return None
    return None
