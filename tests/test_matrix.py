"""Every public name that takes arrays: types, memory orders, mask values, void, channels, sizes.

An array means the same in every type that can hold its values and in every order in memory: the
answer is the same, or there is one InputError. The tables below list what is refused.

- Indices, labels, seeds and boxes are whole numbers: floats are refused. (Masks of an estimator may
  be floats without fractions, since files hold such.) Seeds are signed, because -1 is no mark.
- Images are bool, uint8, uint16 or floats within [0, 1]. Other integers are refused: their type
  does not say what white is.
- Estimators and files read masks by the rule of `cutlearn.images.coding`: {0, 1}, {0, 255}, {1, 2},
  {3, 7} and bool are the same two labels; 255 is void unless it is the object; -1 is void.
- Everything below estimators takes labels (0, 1, .. and 255 for void, never -1). {0, 255} is
  background and void there, and labels that an energy does not have are refused; a metric takes
  2, 3 and 7 as labels of their own.
- Images without pixels are refused; one pixel is an image.
"""

import itertools
import json
from functools import cache

import numpy as np
import pytest
import tifffile
from click.testing import CliRunner
from PIL import Image

import cutlearn as cl
from cutlearn.app.cli import main
from cutlearn.report.evaluate import evaluate

pytestmark = pytest.mark.filterwarnings("ignore")

# -- arrays in all forms -------------------------------------------------------------------------

INTS = ("uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FLOATS = ("float32", "float64")
INDICES = ("bool", *FLOATS)
ALL = ("bool", *INTS, *FLOATS)
SIGNED = ("int8", "int16", "int32", "int64")


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


def strided(array):
    room = np.zeros(tuple(3 * n for n in array.shape), array.dtype)
    part = room[tuple(slice(None, None, 3) for _ in array.shape)]
    part[...] = array
    return part


def backwards(array):
    turn = (slice(None, None, -1),) * array.ndim
    return array[turn].copy()[turn]


def swapped(array):
    return array.astype(array.dtype.newbyteorder())


FORMS = {"C": np.copy, "F": np.asfortranarray, "backwards": backwards, "strided": strided,
         "swapped": swapped, "read-only": read_only}  # fmt: skip


def plain(result):
    """A result as arrays that can be compared."""
    if isinstance(result, tuple | list):
        return [plain(one) for one in result]
    return np.asarray(result, np.float64)


def outcome(call, *given):
    try:
        return plain(call(*given))
    except cl.InputError:
        return None


def same(found, wanted):
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    return found.shape == wanted.shape and np.allclose(
        found, wanted, rtol=1e-4, atol=1e-5, equal_nan=True
    )


def refused_types(call, array, types):
    """The types of an array that are refused; all others must give one result, in all forms."""
    wanted, refused = None, []
    for dtype in types:
        whole = np.asarray(array).astype(dtype)
        answers = {form: outcome(call, make(whole)) for form, make in FORMS.items()}
        if answers["C"] is None:
            assert set(map(type, answers.values())) == {type(None)}, dtype
            refused.append(dtype)
            continue
        wanted = answers["C"] if wanted is None else wanted
        for form, answer in answers.items():
            assert answer is not None, (dtype, form)
            assert same(answer, wanted), (dtype, form)
    assert wanted is not None
    return tuple(refused)


# -- energies and what learns them ---------------------------------------------------------------

PAIRS = np.array([[0, 1], [1, 2], [2, 3]])
TWO = np.array([[0, 1], [1, 0], [1, 0], [0, 1]])
THREE = np.array([[0, 1, 1], [1, 0, 1], [1, 1, 0], [0, 1, 1]])
POTTS = 1 - np.eye(3)
DIFF = np.abs(np.subtract.outer(np.arange(3), np.arange(3)))
SMALL = np.array([[-0.4, 0.2], [0.5, -0.7]])
LABELS = np.array([0, 1, 1, 0])
NODES = np.array([[1, 0], [0, 1], [0, 1], [1, 0]])
GRID = np.array([[[0, 1], [1, 0], [1, 0]], [[0, 1], [1, 0], [0, 1]]])
HALF = [-0.5, 0.7, 0.2, -0.4]
RNG = np.random.default_rng(0)
PROBLEM = cl.Problem(NODES.astype(float), PAIRS, np.ones((3, 1)))
W = np.array([1, 0, 1])


def cut(found):
    return found.labels, found.value


def solved(problem, w=(1.0, -1.0, 0.5)):
    return cut(cl.Energy.of(problem, w).minimize())


def changed(method, *given):
    solver = cl.Energy(HALF, PAIRS, 1.0).solver()
    getattr(solver, method)(*given)
    return cut(solver.minimize())


def learned(problem=PROBLEM, labels=LABELS, **options):
    return cl.train([problem, problem], [labels, labels], C=10.0, **options).w


# Name, call of an array, the array, refused types.
ARRAYS = [
    ("Energy", lambda a: cut(cl.Energy(a, PAIRS, 0.3).minimize()), TWO, ()),
    ("Energy", lambda a: cut(cl.Energy(HALF, a, 0.3).minimize()), PAIRS, FLOATS),
    ("Energy", lambda a: cut(cl.Energy(HALF, PAIRS, a).minimize()), [1, 0, 1], ()),
    ("Energy", lambda a: cl.Energy(HALF, PAIRS, 1.0).value(a), LABELS, FLOATS),
    ("Energy", lambda a: cut(cl.Energy(HALF, PAIRS, 1.0).minimize(a)), LABELS, FLOATS),
    ("Energy", lambda a: cl.Energy(HALF, PAIRS, 1.0).min_marginals(a), LABELS, FLOATS),
    ("Energy", lambda a: cut(cl.Energy.grid(a, 0.3).minimize()), GRID[..., 0], ()),
    ("Energy", lambda a: cut(cl.Energy.grid(SMALL, [a[:, :1], a[:1]]).minimize()),
     [[0, 1], [1, 1]], ()),
    ("Energy", lambda a: solved(PROBLEM, a), W, ()),
    ("Solver", lambda a: changed("set_unary", a, [1.0, -1.0]), [0, 2], FLOATS),
    ("Solver", lambda a: changed("set_unary", [0, 2], a), [1, 0], ()),
    ("Solver", lambda a: changed("set_weights", [0, 2], a), [[1, 0], [0, 1]], ()),
    ("Solver", lambda a: changed("set_fixed", [0, 2], a), [1, 0], FLOATS),
    ("Envelope", lambda a: cl.Envelope(a, [2.0, 0.0], [0.0, 1.0]).mass, [1, 2], FLOATS),
    ("Envelope", lambda a: cl.Envelope([0, 1], a, [0.0, 1.0]).value(2.0), [1, 0], ()),
    ("Envelope", lambda a: cl.Envelope([0, 1], [2, 0], [0, 1], a).mass, [1, 0], ()),
    ("Envelopes", lambda a: cut(cl.Energy(HALF, envelopes=cl.Envelopes(
        a, [[2.0, 0.0]] * 2, [[0.0, 1.0]] * 2)).minimize()), LABELS, INDICES),
    ("OrderedEnergy", lambda a: cut(cl.OrderedEnergy(a, PAIRS, 0.3 * DIFF).minimize()), THREE, ()),
    ("OrderedEnergy", lambda a: cut(cl.OrderedEnergy(0.4 * TWO, PAIRS, a).minimize()),
     DIFF[:2, :2], ()),
    ("OrderedEnergy", lambda a: cut(cl.OrderedEnergy(THREE, a, DIFF).minimize()), PAIRS, FLOATS),
    ("expand", lambda a: cut(cl.expand(a, PAIRS, 0.3 * POTTS)), THREE, ()),
    ("expand", lambda a: cut(cl.expand(THREE, PAIRS, a)), POTTS, ()),
    ("expand", lambda a: cut(cl.expand(THREE, PAIRS, POTTS, start=a)), LABELS, FLOATS),
    ("expand", lambda a: cut(cl.expand(THREE, PAIRS, POTTS, fixed=a)), LABELS, FLOATS),
    ("swap", lambda a: cut(cl.swap(a, PAIRS, 0.3 * POTTS)), THREE, ()),
    ("max_flow", lambda a: cl.max_flow(a, [3, 2, 1], 0, 3).value, PAIRS, FLOATS),
    ("max_flow", lambda a: cl.max_flow(PAIRS, a, 0, 3).value, [1, 1, 1], ()),
    ("Problem", lambda a: solved(cl.Problem(a, PAIRS)), NODES, ()),
    ("Problem", lambda a: solved(cl.Problem(NODES, a)), PAIRS, FLOATS),
    ("Problem", lambda a: solved(cl.Problem(NODES, PAIRS, a)), [[1], [0], [1]], ()),
    ("Problem", lambda a: solved(cl.Problem(NODES, PAIRS, fixed=a)), LABELS, ()),
    ("Problem", lambda a: cl.Problem(NODES, regions=a).regions[0].members, LABELS, INDICES),
    ("train", lambda a: learned(labels=a), LABELS, ()),
    ("train", lambda a: learned(constraints=(a, [0.0])), [[1, 0, 1]], ()),
    ("likelihood", lambda a: cl.likelihood([PROBLEM], [a], [1.0, 0.0, 0.5]), LABELS, ()),
    ("likelihood", lambda a: cl.likelihood([PROBLEM], [LABELS], a), W, ()),
    ("probabilities", lambda a: cl.probabilities(PROBLEM, a), W, ()),
    ("Hamming", lambda a: learned(loss=cl.Hamming(a)), [1, 1], ()),
    ("Hamming", lambda a: learned(loss=cl.Hamming(None, [a, a])), [1, 0, 1, 1], ()),
    ("Absolute", lambda a: learned(loss=cl.Absolute([a, a])), [1, 0, 1, 1], ()),
    ("Count", lambda a: learned(loss=cl.Count([a, a])), [1, 0, 1, 1], ()),
    ("LabelCount", lambda a: learned(loss=cl.LabelCount(a)), [1], INDICES),
    ("Boltzmann", lambda a: cl.Boltzmann(a, [0.5], np.zeros(2)).icm(2, 0), [[1], [0]], ()),
]  # fmt: skip


@pytest.mark.parametrize("row", range(len(ARRAYS)), ids=lambda k: f"{k}-{ARRAYS[k][0]}")
def test_an_array_means_the_same_in_every_type_and_order(row):
    _, call, array, refused = ARRAYS[row]
    array = np.asarray(array)
    types = ALL if array.max() <= 1 else ALL[1:]  # bool holds 0 and 1 only
    assert refused_types(call, array, types) == refused


# -- images, seeds and masks ---------------------------------------------------------------------

SHAPE = (9, 12)
TRUTH = [np.zeros(SHAPE, np.uint8) for _ in range(3)]
for i, truth in enumerate(TRUTH):
    truth[2 : 5 + i, 3:8] = 1
# Levels that uint8, uint16 and floats hold alike, and black and white for bool.
LEVELS = [np.where(truth == 1, 204, 51) + 51 * RNG.integers(0, 2, SHAPE) for truth in TRUTH]
PHOTOS = [level / 255 for level in LEVELS]
MARKS = np.full(SHAPE, -1)
MARKS[0, 0], MARKS[3, 4] = 0, 1
LOGITS = np.where(TRUTH[0] == 1, 2.0, -1.0)


def model(**options):
    given = {"features": cl.Featurizer("linear", position=False), "C": 10.0, "n_jobs": 1}
    return cl.Segmenter(**(given | options))


@cache
def fitted():
    return model().fit(PHOTOS, TRUTH)


@cache
def shapes():
    small = {"shape": (9, 12), "hidden": (4, 4), "epochs": (3, 3), "cycles": 1, "words": (8, 4)}
    return cl.BoltzmannSegmenter(**small, calibration=None, n_jobs=1).fit(PHOTOS, TRUTH)


def marked(image, seeds, box=None, model=None):
    session = cl.Session(model)
    session.set_image(image)
    return session.segment(box, seeds).labels


def written(image):
    """The values of an image as a type that can hold them."""
    return {
        "uint8": np.rint(255 * image).astype(np.uint8),
        "uint16": np.rint(65535 * image).astype(np.uint16),
        "float32": image.astype(np.float32),
        "float64": image,
    }


# Name, call of an image.
IMAGES = [
    ("as_image", cl.images.as_image),
    ("as_sample", lambda a: cl.images.as_sample(a).image),
    ("Sample", lambda a: cl.Sample(a).image),
    ("Volume", lambda a: cl.Volume(a[None]).image),
    ("TrainingSet", lambda a: cl.images.TrainingSet.of_lists([a], TRUTH[:1]).samples[0].image),
    ("superpixels", lambda a: cl.superpixels(a, size=9)),
    ("refine", lambda a: cl.refine(LOGITS, a)),
    ("Session", lambda a: marked(a, MARKS)),
    ("Session", lambda a: marked(a, MARKS, (0, 0, 8, 11), fitted())),
    ("Featurizer", lambda a: cl.Featurizer("linear").fit([a, a], TRUTH[:2]).transform([a])[0]),
    ("Segmenter", lambda a: fitted().predict([a])),
    ("Segmenter", lambda a: fitted().predict_proba([a])),
    ("Segmenter", lambda a: fitted().area([a])),
    ("Segmenter", lambda a: fitted().rank([a, a])[0].score),
    ("Segmenter", lambda a: fitted().score([a], TRUTH[:1])),
    ("Segmenter", lambda a: model(calibration=None).fit([a, PHOTOS[1]], TRUTH[:2]).w_),
    ("BoltzmannSegmenter", lambda a: shapes().predict([a])),
]


@pytest.mark.parametrize("row", range(len(IMAGES)), ids=lambda k: f"{k}-{IMAGES[k][0]}")
def test_an_image_means_the_same_in_every_type_order_and_number_of_channels(row):
    call = IMAGES[row][1]
    wanted = plain(call(PHOTOS[0]))
    for dtype in ("uint8", "uint16", "float32", "float64"):
        image = written(PHOTOS[0])[dtype]
        for form, make in FORMS.items():
            assert same(plain(call(make(image))), wanted), (dtype, form)
        assert same(plain(call(image[..., None])), wanted), dtype
    high = written(PHOTOS[0])["uint8"]
    color = np.dstack([high, high, high])
    clear = np.dstack([color, np.full(SHAPE, 255, np.uint8)])
    assert same(plain(call(clear)), plain(call(color)))
    white = np.rint(PHOTOS[0]).astype(np.uint8)
    assert same(plain(call(white > 0)), plain(call(255 * white)))
    for dtype in ("int8", "int16", "int32", "uint32", "int64", "uint64"):
        assert outcome(call, white.astype(dtype)) is None, dtype
    for empty in ((0, 12), (9, 0), (9, 12, 2), (9, 12, 5), (9,), (1, 9, 12, 3)):
        assert outcome(call, np.zeros(empty)) is None, empty
    assert outcome(call, PHOTOS[0] * 2) is None


SEEDS = [
    ("Sample", lambda a: cl.Sample(PHOTOS[0], seeds=a).seeds),
    ("Volume", lambda a: cl.Volume(PHOTOS[0][None], seeds=a[None]).seeds),
    ("Session", lambda a: marked(PHOTOS[0], a)),
    ("Session", lambda a: marked(PHOTOS[0], a, None, fitted())),
    ("Segmenter", lambda a: fitted().predict([cl.Sample(PHOTOS[0], seeds=a)])),
]


@pytest.mark.parametrize("row", range(len(SEEDS)), ids=lambda k: f"{k}-{SEEDS[k][0]}")
def test_seeds_mean_the_same_in_every_type_and_order(row):
    assert refused_types(SEEDS[row][1], MARKS, (*SIGNED, *FLOATS)) == FLOATS
    for dtype in ("bool", "uint8", "uint16"):
        assert outcome(SEEDS[row][1], MARKS.astype(dtype)) is None, dtype


NUMBERS = [
    ("refine", lambda a: cl.refine(a, PHOTOS[0]), 2 * np.int8(TRUTH[0]) - 1, SIGNED),
    ("refine", lambda a: cl.refine(a, PHOTOS[0]), np.dstack([1 - TRUTH[0], TRUTH[0]]), INTS),
    ("Sample", lambda a: cl.Sample(PHOTOS[0], extra=a).extra, TRUTH[0], ALL),
    ("Volume", lambda a: cl.Volume(PHOTOS[0][None], extra=a[None]).extra, TRUTH[0], ALL),
    ("Sample", lambda a: cl.Sample(PHOTOS[0], a).fixed(), np.array([1, 2, 8, 9]), INTS),
]


@pytest.mark.parametrize("row", range(len(NUMBERS)), ids=lambda k: f"{k}-{NUMBERS[k][0]}")
def test_logits_channels_and_boxes_mean_the_same_in_every_type(row):
    _, call, array, types = NUMBERS[row]
    assert refused_types(call, array, (*types, *FLOATS)) == ()


# -- masks by their values -----------------------------------------------------------------------

CODES = {"0 1": (0, 1), "0 255": (0, 255), "1 2": (1, 2), "3 7": (3, 7), "bool": (False, True)}


def coded(values, void, dtype=None, truth=TRUTH):
    """The masks with other values for the labels, void ones in their first row."""
    made = [np.asarray(values)[mask] for mask in truth]
    if void is not None:
        made = [mask.astype(np.int64) for mask in made]
        for mask in made:
            mask[0] = void
    return made if dtype is None else [mask.astype(dtype) for mask in made]


def scored(masks):
    learned = model(calibration=None).fit(PHOTOS, masks)
    return learned.w_, learned.score(PHOTOS, masks), learned.score(PHOTOS[:1], masks[:1])


MASKS = [
    ("Segmenter", scored),
    ("Segmenter", lambda m: model().fit(PHOTOS, m).calibrate(PHOTOS, m).predict_proba(PHOTOS[:1])),
    ("BoltzmannSegmenter", lambda m: cl.BoltzmannSegmenter(
        layers=0, cycles=1, shape=SHAPE, words=(8, 4), calibration=None, refine=False, n_jobs=1
    ).fit(PHOTOS, m).score(PHOTOS, m)),
]  # fmt: skip


@pytest.mark.parametrize("row", range(len(MASKS)), ids=lambda k: f"{k}-{MASKS[k][0]}")
def test_masks_mean_the_same_with_all_values_of_two_labels(row):
    call = MASKS[row][1]
    clean, holed = plain(call(coded((0, 1), None))), plain(call(coded((0, 1), 255)))
    for name, values in CODES.items():
        assert same(plain(call(coded(values, None))), clean), name
        assert same(plain(call(coded(values, -1))), holed), name
        if values != (0, 255):
            assert same(plain(call(coded(values, 255))), holed), name
    for dtype, make in zip(ALL, itertools.cycle(FORMS.values())):
        assert same(plain(call(list(map(make, coded((0, 1), None, dtype))))), clean), dtype
        if dtype != "bool":
            assert same(plain(call(list(map(make, coded((3, 7), 255, dtype))))), holed), dtype
    for wrong in (np.nan, np.inf, 0.5):
        assert outcome(call, [np.where(TRUTH[0] == 1, wrong, 0.0), *TRUTH[1:]]) is None
    flat = [mask[..., None] for mask in TRUTH]
    for masks in (flat, TRUTH[:2], [mask.T for mask in TRUTH], [np.zeros((0, 0))] * 3):
        assert outcome(call, masks) is None


# -- labels, below the estimators ----------------------------------------------------------------

GUESS = TRUTH[1]
BELIEF = np.dstack([1 - LOGITS / 4, LOGITS / 4 + 0.5]) / 2
FLAT = TRUTH[0].ravel()
GRID_PROBLEM = cl.Problem(
    np.dstack([PHOTOS[0], np.ones(SHAPE)]),
    edge_features=np.ones((sum(len(part) for part in cl.grid_edges(SHAPE, 4)), 1)),
    shape=SHAPE, connectivity=4,
)  # fmt: skip
METRICS = {
    "beliefs": lambda a: list(vars(cl.metrics.beliefs(a, BELIEF)).values()),
    "confusion": lambda a: cl.metrics.confusion(a, GUESS).counts,
    "confusions": lambda a: cl.metrics.confusions([a], [GUESS])[0].counts,
    "count_error": lambda a: cl.metrics.count_error([a], [GUESS]),
    "iou": lambda a: cl.metrics.iou(a, GUESS),
    "mean_iou": lambda a: cl.metrics.mean_iou([a], [GUESS]),
    "pixel_error": lambda a: cl.metrics.pixel_error([a], [GUESS]),
    "pooled_iou": lambda a: cl.metrics.pooled_iou([a], [GUESS]),
}
# Numbers of images, or tables that other metrics make: no masks.
OTHER_METRICS = {"VOID", "Beliefs", "Confusion", "Figure", "Spread", "bootstrap", "entropy",
                 "calibration_error_of", "iou_of", "left_out", "mean_iou_of", "means", "ratio",
                 "stack_tables", "total"}  # fmt: skip


def figures(found):
    return [found.iou.value, found.pixel_error.value, found.count_error.value]


LABELLED = [
    *((name, call, FLOATS) for name, call in METRICS.items()),
    ("evaluate", lambda a: figures(evaluate(["a"], [a], [GUESS])), FLOATS),
    ("train", lambda a: cl.train([GRID_PROBLEM], [a], C=10.0).w, ()),
    ("likelihood", lambda a: cl.likelihood([GRID_PROBLEM], [a], [1.0, 0.0, 0.5])[0], ()),
    ("Featurizer", lambda a: cl.Featurizer("linear").fit(PHOTOS[:1], [a]).transform(PHOTOS[:1])[0],
     ()),
]  # fmt: skip


@pytest.mark.parametrize("row", range(len(LABELLED)), ids=lambda k: f"{k}-{LABELLED[k][0]}")
def test_labels_mean_the_same_in_every_type_and_255_is_void(row):
    _, call, refused = LABELLED[row]
    assert refused_types(call, TRUTH[0], ALL) == refused
    void = coded((0, 1), 255)[0]
    assert refused_types(call, void, ALL[1:]) == refused
    assert outcome(call, coded((0, 1), -1)[0]) is None
    for wrong in (np.where(TRUTH[0] == 1, 0.5, 0), [[0, 1], [0]], TRUTH[0][1:], TRUTH[0].T):
        assert outcome(call, wrong) is None


@pytest.mark.parametrize("name", ["train", "likelihood", "beliefs", "Featurizer"])
@pytest.mark.parametrize("values", [(1, 2), (3, 7)])
def test_labels_that_there_are_not_are_refused(name, values):
    call = next(row[1] for row in LABELLED if row[0] == name)
    assert outcome(call, coded(values, None)[0]) is None


@pytest.mark.parametrize("name", ["confusion", "iou", "mean_iou", "pixel_error", "pooled_iou"])
def test_predictions_mean_the_same_in_every_type_and_order(name):
    call = getattr(cl.metrics, name)
    many = name in ("mean_iou", "pixel_error", "pooled_iou")

    def of(guess):
        found = call([TRUTH[0]], [guess]) if many else call(TRUTH[0], guess)
        return found.counts if name == "confusion" else found

    assert refused_types(of, GUESS, ALL) == FLOATS
    for wrong in (coded((0, 1), 255)[1], coded((0, 1), -1)[1]):  # predictions have no void
        assert outcome(of, wrong) is None
    if many:
        with pytest.raises(cl.InputError):
            call([], [])


# -- one pixel -----------------------------------------------------------------------------------


def test_one_pixel_is_an_image():
    for image in (np.full((1, 1), 0.8), np.full((1, 1, 3), 204, np.uint8), np.full((1, 7), 0.8)):
        shape = image.shape[:2]
        assert [mask.shape for mask in fitted().predict([image])] == [shape]
        assert fitted().predict_proba([image])[0].shape == (*shape, 2)
        assert fitted().score([image], [np.ones(shape, int)]) in (0.0, 1.0)
        assert shapes().predict([image])[0].shape == shape
        assert cl.superpixels(image).shape == shape
        assert cl.refine(np.ones(shape), image).shape == shape
        assert marked(image, np.zeros(shape, int)).shape == shape
        assert cl.metrics.mean_iou([np.ones(shape, int)], [np.ones(shape, int)]) == 1.0
    assert cl.Energy([-1.0]).minimize().labels.tolist() == [1]
    assert cl.Energy.grid([[-1.0]], 1.0).minimize().labels.tolist() == [[1]]
    with pytest.raises(cl.InputError):
        model().fit([np.full((1, 1), 0.5)], [np.ones((1, 1), int)])  # one label only
    ones = [np.full((1, 1), level) for level in (0.1, 0.9, 0.2, 0.8)]
    labels = [np.full((1, 1), k) for k in (0, 1, 0, 1)]
    assert model(calibration=None).fit(ones, labels).predict(ones)[1].tolist() == [[1]]


# -- files ---------------------------------------------------------------------------------------

FILES = [
    *(("png", dtype, np.copy) for dtype in ("uint8", "uint16")),
    *(("tif", dtype, np.copy) for dtype in ("uint8", "int16", "uint16", "int32", "float32")),
    ("tif", "uint16", swapped),
    *(("npy", dtype, make) for dtype, make in zip(ALL[1:], itertools.cycle(FORMS.values()))),
    ("npz", "int64", swapped),
]


def save(path, array):
    path.parent.mkdir(exist_ok=True)
    if path.suffix == ".png":
        Image.fromarray(array).save(path)
    elif path.suffix == ".tif":
        tifffile.imwrite(path, array, byteorder=">" if array.dtype.byteorder == ">" else None)
    else:
        (np.save if path.suffix == ".npy" else np.savez)(path, array)


@pytest.mark.parametrize(("ending", "dtype", "make"), FILES)
def test_mask_files_mean_the_same_in_every_format(ending, dtype, make, tmp_path):
    high = [np.rint(255 * photo).astype(np.uint8) for photo in PHOTOS]
    for i, photo in enumerate(high):
        save(tmp_path / "images" / f"{i}.png", photo)

    def read(masks, **options):
        for i, mask in enumerate(masks):
            save(tmp_path / "masks" / f"{i}.{ending}", make(mask.astype(dtype)))
        return cl.images.read_folder(tmp_path / "images", tmp_path / "masks", **options).load()[1]

    for name, values in CODES.items():
        assert all(map(np.array_equal, read(coded(values, None)), TRUTH)), name
        if values != (0, 255):
            assert all(map(np.array_equal, read(coded(values, 255)), coded((0, 1), 255))), name
        if np.dtype(dtype).kind == "i":
            void = read(coded(values, -1), void_value=-1)
            assert all(map(np.array_equal, void, coded((0, 1), 255))), name
            with pytest.raises(cl.InputError):  # of files it must be stated
                read(coded(values, -1))


@pytest.mark.parametrize("dtype", ALL)
def test_what_is_written_means_the_same_in_every_type(dtype, tmp_path):
    path = tmp_path / "a.png"

    def mask(labels):
        cl.images.write_mask(path, labels, 255)
        return cl.images.read_values(path)

    def probability(q):
        cl.images.write_probability(path, q)
        return cl.images.read_image(path)

    assert refused_types(mask, TRUTH[0], [dtype, "uint8"]) == ((dtype,) if dtype in FLOATS else ())
    assert refused_types(probability, TRUTH[0], [dtype, "uint8"]) == ()


def run(*arguments):
    done = CliRunner().invoke(main, list(map(str, arguments)))
    assert done.exit_code == 0, done.stderr
    return done.stdout


def test_commands_read_images_and_masks_as_python_does(tmp_path):
    high = [np.rint(255 * photo).astype(np.uint8) for photo in PHOTOS]
    scores = []
    for values in CODES.values():
        for i, mask in enumerate(coded(values, None)):
            save(tmp_path / "images" / f"{i}.png", high[i])
            save(tmp_path / "masks" / f"{i}.png", mask.astype(np.uint8))
        given = tmp_path / "images", tmp_path / "masks"
        run("fit", *given, "-o", tmp_path / "m", "--features", "linear", "--force")
        scores.append(json.loads(run("evaluate", tmp_path / "m", *given, "--json"))["mean_iou"])
    assert scores == [scores[0]] * len(CODES)
    learned = cl.load(tmp_path / "m")
    wanted = learned.predict(high[:1])[0]
    assert scores[0] == learned.score(high, TRUTH)
    color = np.dstack([high[0]] * 3)
    clear = np.dstack([color, np.full(SHAPE, 255, np.uint8)])
    images = {
        "grey.png": high[0], "grey.tif": high[0], "fine.png": 257 * high[0].astype(np.uint16),
        "big.tif": swapped(257 * high[0].astype(np.uint16)), "grey.npy": np.asfortranarray(high[0]),
        "swapped.npy": swapped(257 * high[0].astype(np.uint16)), "one.npy": high[0][..., None],
        "float.npy": PHOTOS[0], "float.tif": PHOTOS[0].astype(np.float32),
        "color.png": color, "clear.png": clear, "color.npy": color,
    }  # fmt: skip
    cuts = set()
    for name, image in images.items():
        save(tmp_path / "more" / name, image)
        run("cut", tmp_path / "more" / name, "--box", 2, 1, 9, 8, "-o", tmp_path / "cut.png")
        cuts.add(cl.images.read_values(tmp_path / "cut.png").tobytes())
    assert len(cuts) <= 2  # grey, and the same levels as a colour
    for name in images:
        path = tmp_path / "more" / name
        run("predict", tmp_path / "m", path, "-o", tmp_path / "out")
        (found,) = (tmp_path / "out").glob("*.png")
        assert np.array_equal(cl.images.read_values(found) > 0, wanted), name
        found.unlink()


# -- nothing is left out -------------------------------------------------------------------------

# What takes no array of the user: errors, results, settings, potentials, and shapes of grids.
OTHERS = {"Contrast", "ConvergenceWarning", "CountFunction", "Cut", "EnvelopeSpec", "Enveloped",
          "InputError", "MaxFlow", "Model", "Moved", "Potential", "Summands", "Unary",
          "__version__", "direction_features", "grid_edges", "load"}  # fmt: skip
# Makers of images; read_image, read_values and the writers are in the tests of files.
OTHER_IMAGES = {"Cells", "Checkerboard", "Coding", "Folder", "Pasture", "cells", "checkerboard",
                "pasture", "read_folder", "read_image", "read_values", "write_mask",
                "write_probability"}  # fmt: skip


def test_every_public_name_is_in_a_table():
    rows = {row[0] for row in (*ARRAYS, *IMAGES, *SEEDS, *NUMBERS, *MASKS, *LABELLED)}
    assert set(cl.__all__) == OTHERS | (rows & set(cl.__all__))
    assert not OTHERS & rows
    assert set(cl.metrics.__all__) == OTHER_METRICS | METRICS.keys()
    assert set(cl.images.__all__) == OTHER_IMAGES | (rows & set(cl.images.__all__))
