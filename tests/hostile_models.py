"""Small model files that ask for much: sound by their digest, hostile by their numbers."""

import copy
import json

import numpy as np

from cutlearn.model.model_files import KEY
from cutlearn.store import load_sealed, sealed_bytes


def parts(path):
    """The header and the arrays of a model file."""
    header, arrays, _ = load_sealed(path, KEY)
    return header, arrays


def changed(good, path, change):
    """Write a sealed model file with a change in its header or arrays."""
    header, arrays = parts(good)
    header, arrays = copy.deepcopy(header), dict(arrays)
    change(header, arrays)
    path.write_bytes(sealed_bytes(KEY, json.dumps(header), arrays))
    return path


def nested(depth):
    value = {"a": 1}
    for _ in range(depth):
        value = {"a": value}
    return value


def chain(arrays, nodes=3000, roots=100_000):
    """Every root walks a long way: the trees are small, the walk is not."""
    start = "features.stage0."
    at = np.arange(nodes, dtype=np.int32)
    leaf = at == nodes - 1
    arrays[f"{start}feature"] = np.where(leaf, -1, 0).astype(np.int32)
    arrays[f"{start}threshold"] = np.zeros(nodes, np.float32)
    arrays[f"{start}left"] = arrays[f"{start}right"] = np.where(leaf, 0, at + 1).astype(np.int32)
    arrays[f"{start}value"] = np.zeros(nodes)
    arrays[f"{start}roots"] = np.zeros(roots, np.int32)


def _features(**values):
    return lambda h, a: h["features"].update(values)


def _recipe(**values):
    return lambda h, a: h["features"]["recipe"].update(values)


def _parameters(**values):
    return lambda h, a: h["parameters"].update(values)


LONG = "\x1b[2J" * 125_000

# Each of these is refused when the file is read.
SEGMENTER = {
    "extra channels": _features(n_extra=2**31),
    "extra channels below zero": _features(n_extra=-1),
    "a large scale": lambda h, a: h["features"]["bank"].update(scale=10**6),
    "a huge scale": lambda h, a: h["features"]["bank"].update(scale=10**400),
    "a large step": _recipe(step=10**9),
    "no step": _recipe(step=0),
    "many trees": _recipe(trees=10**12),
    "many rows": _recipe(rows=10**18),
    "rows that are none": _recipe(rows="many"),
    "a rate that is none": _recipe(rate=-1.0),
    "many copies": _recipe(copies=10**9),
    "many stages": _features(stages=10**9),
    "many questions": _features(questions=10**9),
    "small superpixels": _features(superpixels=[["slic", 1e-300]]),
    "huge superpixels": _features(superpixels=[["slic", 1e308]]),
    "many superpixels": _features(superpixels=[["slic", 256]] * 200_000),
    "superpixels that are none": _features(superpixels=[LONG]),
    "a long name of superpixels": _features(superpixels=[[LONG, 256]]),
    "a seed below zero": _features(random_state=-1),
    "a large seed": _parameters(random_state=10**400),
    "many threads": _parameters(n_jobs=10**9),
    "a tolerance that is none": _parameters(tol=-1),
    "a long loss": _parameters(loss=LONG),
    "a long learner": _parameters(learner=LONG),
    "many potentials": _parameters(potentials=[LONG]),
    "many groups": lambda h, a: h["calibration"].update(n_groups=10**400, n_images=10**400),
    "a deep card": lambda h, a: h["card"].update(extra=nested(400)),
    "a wide card": lambda h, a: h["card"].update(extra=[[]] * 300_000),
    "a long card": lambda h, a: h["card"].update(intended_use=LONG),
    "a card of large numbers": lambda h, a: h["card"].update(intended_use=10**4000),
    "a card of another kind": lambda h, a: h.update(card=LONG),
    "long names": lambda h, a: h.update(names=[LONG] * len(h["names"])),
    "many names": lambda h, a: h["features"].update(names=["a"] * 1_000_000),
    "many labels": lambda h, a: h.update(names=[f"label {10**12} {n}" for n in h["names"]]),
    "a long version": lambda h, a: h.update(version=LONG),
    "a long estimator": lambda h, a: h.update(estimator=LONG),
    "a long format of the features": _features(format=LONG),
    "a long kind": lambda h, a: h["features"]["bank"].update(kind=LONG),
    "a long strength": lambda h, a: h["fitted"].update(C=LONG),
    "trees that never end": lambda h, a: chain(a),
    "steps without end": lambda h, a: a.update(steps=np.full((100_000, 11), 1e300)),
}

BOLTZMANN = {
    "a large mask": _parameters(shape=[100_000, 100_000]),
    "a long mask": _parameters(shape=[4, 10**9]),
    "many starts": _parameters(starts=10**6),
    "many units": _parameters(hidden=[10**9, 10**9]),
    "many words": _parameters(words=[10**12, 10**12]),
    "many epochs": _parameters(epochs=[10**18, 10**18]),
    "many cycles": _parameters(cycles=10**18),
    "a long margin": _parameters(margin=LONG),
    "a deep card": lambda h, a: h["card"].update(extra=nested(400)),
    "many violations": lambda h, a: h["fitted"].update(violated=[0.5] * 1_000_001),
}
