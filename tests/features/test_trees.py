"""Trees as arrays: evaluated, those of scikit-learn give its answers; damage is refused."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits

from cutlearn.errors import InputError
from cutlearn.features.columns import Columns
from cutlearn.features.trees import Trees


def grown(n=2000, f=7, seed=0, **options):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, f)).astype(np.float32)
    x[:, 2] = np.round(x[:, 2])  # ties with thresholds between equal values
    y = (x[:, 0] * x[:, 1] + x[:, 2] + rng.normal(size=n) > 0).astype(int)
    model = HistGradientBoostingClassifier(random_state=seed, early_stopping=False, **options)
    with threadpool_limits(1):
        return model.fit(x, y), x


def of_sklearn(model):
    """Extract a fitted two-class HistGradientBoostingClassifier without categories."""
    nodes = [stage[0].nodes for stage in model._predictors]
    first = np.cumsum([0] + [len(n) for n in nodes])[:-1]
    joined = np.concatenate(nodes)
    leaf = joined["is_leaf"].astype(bool)
    shift = np.repeat(first, [len(n) for n in nodes])
    exact = joined["num_threshold"].astype(np.float64)
    near = exact.astype(np.float32)
    below = np.nextafter(near, np.float32(-np.inf))
    arrays = {
        "feature": np.where(leaf, -1, joined["feature_idx"].astype(np.int64)),
        "threshold": np.where(leaf, np.float32(0), np.where(near > exact, below, near)),
        "left": np.where(leaf, 0, joined["left"] + shift),
        "right": np.where(leaf, 0, joined["right"] + shift),
        "value": np.where(leaf, joined["value"], 0.0),
        "roots": first,
        "baseline": np.asarray(model._baseline_prediction).reshape(1),
    }
    return Trees.of_arrays(arrays)


@pytest.mark.parametrize("leaves", [2, 31, 32, 33, 200])
def test_equals_scikit_learn(leaves):
    model, x = grown(max_iter=25, max_leaf_nodes=leaves, min_samples_leaf=3)
    rng = np.random.default_rng(1)
    fresh = np.vstack([x, rng.normal(0, 3, (333, x.shape[1])).astype(np.float32)])
    ours = of_sklearn(model).evaluate_rows(fresh)[0]
    np.testing.assert_allclose(ours, model.decision_function(fresh), rtol=0, atol=1e-12)


@pytest.mark.parametrize("step", [1, 2])
def test_columns_of_planes_equal_a_matrix(step):
    model, x = grown(n=8 * 13)
    trees = of_sklearn(model)
    planes = np.ascontiguousarray(x.T.reshape(-1, 8, 13))
    start = np.arange(len(planes), dtype=np.int64) * 8 * 13
    columns = Columns((8, 13), planes.ravel(), 13, start)
    np.testing.assert_array_equal(columns.rows(np.arange(8 * 13)), x)
    full = trees.evaluate_rows(x)[0].reshape(8, 13)
    np.testing.assert_array_equal(trees.evaluate(columns, step)[0], full[::step, ::step])


def test_a_long_chain_of_nodes_is_no_danger():
    depth = 300_000
    inner, leaves = np.arange(depth), np.full(depth + 1, -1)
    feature = np.concatenate([np.zeros(depth), leaves])
    left = np.concatenate([np.append(inner[1:], depth), np.zeros(depth + 1)])
    right = np.concatenate([depth + 1 + inner, np.zeros(depth + 1)])
    value = np.concatenate([np.zeros(depth), np.arange(depth + 1)])
    arrays = {"feature": feature, "threshold": np.zeros(2 * depth + 1), "left": left,
              "right": right, "value": value, "roots": [0], "baseline": [0.0]}  # fmt: skip
    trees = Trees.of_arrays({name: np.asarray(a) for name, a in arrays.items()})
    rows = np.array([[-1.0], [1.0]], np.float32)
    assert trees.evaluate_rows(rows)[0].tolist() == [0.0, 1.0]


def test_constant_trees():
    np.testing.assert_array_equal(
        Trees.constant(-1.5).evaluate_rows(np.zeros((3, 2), np.float32))[0], [-1.5] * 3
    )


@pytest.mark.parametrize(
    ("name", "value", "broken"),
    [
        ("left", 0, "T2"),
        ("right", 10**6, "T2"),
        ("feature", 99, "T3"),
        ("roots", -1, "T1"),
    ],
)
def test_lying_arrays_never_read_outside(name, value, broken):
    model, x = grown(max_iter=3)
    arrays = of_sklearn(model).arrays()
    arrays[name] = arrays[name].copy()
    arrays[name][0] = value
    with pytest.raises(ValueError, match=f"{broken} broken"):
        Trees(**arrays | {"value": arrays["value"][:, None]}).evaluate_rows(x)
    if name != "feature":  # how many columns there are is known when trees are used
        with pytest.raises(InputError, match="the nodes do not make trees"):
            Trees.of_arrays(arrays)


@pytest.mark.parametrize("shared", ["a root twice", "a child in another tree", "no first root"])
def test_trees_that_share_nodes_are_refused(shared):
    arrays = of_sklearn(grown(max_iter=3)[0]).arrays()
    assert Trees.of_arrays(arrays).roots.tolist() == arrays["roots"].tolist()
    arrays = {key: array.copy() for key, array in arrays.items()}
    if shared == "a root twice":
        arrays["roots"][1] = 0
    elif shared == "a child in another tree":
        arrays["right"][0] = arrays["roots"][1]
    else:
        arrays["roots"][0] = 1
    with pytest.raises(InputError, match="the nodes do not make trees"):
        Trees.of_arrays(arrays)


def test_columns_outside_the_buffer_are_refused():
    model, _ = grown(n=8 * 13, f=7)
    columns = Columns((8, 13), np.zeros(7 * 8 * 13, np.float32), 13, np.arange(7) * 105)
    with pytest.raises(ValueError, match="T4 broken"):
        of_sklearn(model).evaluate(columns)


def test_missing_and_infinite_arrays_are_refused():
    arrays = Trees.constant(0.0).arrays()
    with pytest.raises(InputError, match="the array 'roots' is missing"):
        Trees.of_arrays({k: v for k, v in arrays.items() if k != "roots"})
    with pytest.raises(InputError, match="not finite"):
        Trees.of_arrays(arrays | {"baseline": np.array([np.nan])})
