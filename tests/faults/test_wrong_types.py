"""Every public name with values of a wrong kind: an InputError, never a bare TypeError."""

import numpy as np
import pytest

import cutlearn as cl
from cutlearn import images as ci

WRONG = {
    "None": None,
    "text": "x",
    "bytes": b"x",
    "an object": object(),
    "a ragged list": [[1.0], [1.0, 2.0]],
    "complex numbers": np.ones(3, complex),
    "objects": np.array([object(), None], object),
    "nan": float("nan"),
    "inf": float("inf"),
    "minus one": -1,
    "a half": 0.5,
    "a huge number": 10**30,
    "a table": {},
    "a set": {1, 2},
    "no pixels": np.zeros((2, 0, 3)),
    "words": np.array(["a", "b"]),
    "days": np.array(["2020-01-01"], "M8[D]"),
    "records": np.zeros(2, [("a", int)]),
    "a generator": (i for i in range(3)),
    "30 dimensions": np.zeros((1,) * 30),
    "huge integers": [2**70, 1],
    "a class": int,
}

RNG = np.random.default_rng(0)
IMAGES = [RNG.random((12, 14)) for _ in range(3)]
MASKS = [(image > 0.5).astype(np.uint8) for image in IMAGES]
STEPS = np.abs(np.subtract.outer(np.arange(3), np.arange(3))).astype(float)
PAIRS = [[0, 1], [1, 2]]


def problem():
    chain = [[i, i + 1] for i in range(5)]
    return cl.Problem(RNG.normal(size=(6, 2)), chain, RNG.random((5, 1)))


PROBLEMS, LABELS = [problem() for _ in range(3)], [np.array([0, 1, 0, 1, 1, 0])] * 3
ENERGY = cl.Energy([1.0, -2.0, 0.5], PAIRS, [1.0, 1.0])
ORDERED = cl.OrderedEnergy(RNG.random((4, 3)), PAIRS, STEPS)
MACHINE = cl.Boltzmann(RNG.normal(size=(4, 2)), [0.1, 0.2], np.zeros(4))
WEIGHTS = [0.1, 0.2, 0.3]


def fit(**options):
    return cl.Segmenter(**{"features": "linear", "C": 10.0, "tol": 0.1, "n_jobs": 1} | options)


def energy(**given):
    return cl.Energy(**given).minimize()


def grid(**given):
    return cl.Energy.grid(**given).minimize()


# What is called, with values that are right: each is replaced in turn by what is wrong.
CALLS = {
    "Energy": (energy, {"unary": [1.0, -2.0, 0.5], "edges": PAIRS, "weights": [1.0, 1.0],
                           "envelopes": ()}),
    "Energy.grid": (grid, {"unary": np.zeros((4, 5)), "weights": 1.0, "connectivity": 4,
                                     "envelopes": ()}),
    "Energy.of": (cl.Energy.of, {"problem": PROBLEMS[0], "w": WEIGHTS}),
    "Energy.value": (ENERGY.value, {"labels": [0, 1, 1]}),
    "Energy.minimize": (ENERGY.minimize, {"fixed": [-1, 0, 1]}),
    "Envelope": (cl.Envelope, {"members": [0, 1], "slopes": [2.0, 1.0], "intercepts": [0.0, 1.0],
                               "weights": None}),
    "EnvelopeSpec": (cl.EnvelopeSpec, {"lines": 10, "form": "curvatures", "per": "region"}),
    "OrderedEnergy": (cl.OrderedEnergy, {"unary": RNG.random((4, 3)), "edges": PAIRS,
                                         "tables": STEPS}),
    "OrderedEnergy.grid": (cl.OrderedEnergy.grid, {"unary": RNG.random((3, 4, 3)), "tables": STEPS,
                                                   "connectivity": 4}),
    "OrderedEnergy.of": (cl.OrderedEnergy.of, {"problem": PROBLEMS[0], "w": np.zeros(15)}),
    "OrderedEnergy.minimize": (ORDERED.minimize, {"fixed": [-1, 0, 1, 2]}),
    "expand": (cl.expand, {"unary": RNG.random((4, 3)), "edges": PAIRS, "tables": STEPS,
                           "envelopes": (), "start": None, "fixed": None}),
    "probabilities": (cl.probabilities, {"problem": PROBLEMS[0], "w": WEIGHTS}),
    "likelihood": (cl.likelihood, {"problems": PROBLEMS, "labels": LABELS, "w": WEIGHTS}),
    "Problem": (cl.Problem, {"node_features": RNG.normal(size=(6, 2)), "edges": [[0, 1]],
                             "edge_features": [[0.5]], "regions": (), "fixed": None}),
    "grid_edges": (cl.grid_edges, {"shape": (3, 4), "connectivity": 4}),
    "direction_features": (cl.direction_features, {"shape": (3, 4), "connectivity": 4}),
    "train": (cl.train, {"problems": PROBLEMS, "labels": LABELS, "loss": "hamming",
                         "learner": "bundle", "C": 1.0, "tol": 0.1, "normalize": "pixels",
                         "constraints": None, "groups": None, "max_steps": 20, "n_jobs": None,
                         "model": None, "callback": None}),
    "Model": (cl.Model, {"potentials": [cl.Unary()], "labels": "ordered", "n_labels": None}),
    "Hamming": (cl.Hamming, {"label_weights": None}),
    "Count": (cl.Count, {"side": "both", "tolerance": 0}),
    "LabelCount": (cl.LabelCount, {"labels": 1}),
    "CountFunction": (cl.CountFunction, {"function": np.abs}),
    "Boltzmann": (cl.Boltzmann, {"W": RNG.normal(size=(4, 2)), "c": [0.1, 0.2], "b": np.zeros(4)}),
    "Boltzmann.icm": (MACHINE.icm, {"starts": 2, "random_state": 0}),
    "superpixels": (cl.superpixels, {"image": IMAGES[0], "kind": "slic", "size": 20}),
    "Sample": (cl.Sample, {"image": IMAGES[0], "box": None, "seeds": None, "extra": None}),
    "load": (cl.load, {"path": "none"}),
    "Segmenter.fit": (lambda **given: fit().fit(**given),
                      {"images": IMAGES, "masks": MASKS, "groups": None, "checkpoint": None}),
    "Segmenter.area": (lambda **given: fit().fit(IMAGES, MASKS).area(IMAGES[:1], **given),
                       {"label": 1, "level": 0.95}),
    "Featurizer.fit": (cl.Featurizer("linear").fit, {"images": IMAGES, "masks": MASKS,
                                                     "groups": None}),
    "as_image": (ci.as_image, {"image": IMAGES[0]}),
    "read_image": (ci.read_image, {"source": b"x", "max_bytes": 100, "max_pixels": 100}),
    "read_folder": (ci.read_folder, {"images": "none", "masks": "none", "object_value": None,
                                     "void_value": None, "n_labels": None}),
    "write_mask": (ci.write_mask, {"path": "none/a.png", "labels": [[0, 1]], "object_value": None}),
    "write_probability": (ci.write_probability, {"path": "none/a.png", "probability": [[0.5]]}),
}  # fmt: skip


# What is right by chance, everywhere else wrong: None for what may be left out; 0.5, -1 (all
# threads) and 10**30 where such a number makes sense; hashables as groups; text and bytes as paths.
RIGHT = {
    ("Energy", "weights"): {"a half"},
    ("Energy.grid", "weights"): {"a half"},
    ("Energy.minimize", "fixed"): {"None"},
    ("Envelope", "members"): {"no pixels"},
    ("Envelope", "weights"): {"None"},
    ("OrderedEnergy", "edges"): {"None"},
    ("OrderedEnergy.minimize", "fixed"): {"None"},
    ("expand", "edges"): {"None"},
    ("expand", "start"): {"None"},
    ("expand", "fixed"): {"None"},
    ("Problem", "edge_features"): {"None"},
    ("Problem", "fixed"): {"None"},
    ("train", "C"): {"a half", "a huge number"},
    ("train", "tol"): {"a half", "a huge number"},
    ("train", "constraints"): {"None"},
    ("train", "groups"): {"None"},
    ("train", "max_steps"): {"a huge number"},
    ("train", "n_jobs"): {"None", "minus one"},
    ("train", "model"): {"None"},
    ("train", "callback"): {"None"},
    ("Model", "n_labels"): {"None"},
    ("Hamming", "label_weights"): {"None"},
    ("Count", "tolerance"): {"a half", "a huge number"},
    ("CountFunction", "function"): {"a class"},
    ("Boltzmann.icm", "random_state"): {"None"},
    ("Sample", "box"): {"None"},
    ("Sample", "seeds"): {"None"},
    ("Sample", "extra"): {"None"},
    ("Segmenter.fit", "groups"): {"None", "complex numbers"},
    ("Segmenter.fit", "checkpoint"): {"None", "text", "bytes"},
    ("Segmenter.area", "level"): {"a half"},
    ("Featurizer.fit", "groups"): {"None", "complex numbers"},
}


def outcome(call, given):
    try:
        call(**given)
    except cl.InputError:
        return "refused"
    except Exception as error:
        return repr(error)
    return "accepted"


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore")
def test_a_wrong_value_is_an_input_error(name, tmp_path, monkeypatch):
    call, right = CALLS[name]
    monkeypatch.chdir(tmp_path)  # some words are names of files to write
    for part in right:
        # What a function of the user raises is not ours.
        tried = {k: v for k, v in WRONG.items() if not (part == "callback" and callable(v))}
        found = {kind: outcome(call, {**right, part: wrong}) for kind, wrong in tried.items()}
        chance = RIGHT.get((name, part), set())
        wanted = {kind: "accepted" if kind in chance else "refused" for kind in tried}
        assert found == wanted, part


@pytest.mark.parametrize("wrong", [w for w in WRONG if w not in ("None", "minus one", "a class")])
def test_wrong_parameters_of_the_estimators_are_input_errors(wrong):
    # What is right by chance: an infinite C is refused by its learner, a half is a tolerance.
    fine = {"a half": ("tol", "C"), "text": (), "a huge number": ("tol", "C")}.get(wrong, ())
    for part in ("potentials", "labels", "loss", "learner", "C", "tol", "features", "connectivity",
                 "calibration", "n_jobs", "random_state"):  # fmt: skip
        if part not in fine:
            with pytest.raises(cl.InputError):
                fit(**{part: WRONG[wrong]}).fit(IMAGES, MASKS)
