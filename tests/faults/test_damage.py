"""Models and checkpoints, damaged in every way: refused, or the same answer. Never another one."""

import contextlib

import numpy as np
import pytest

import cutlearn as cl
from cutlearn.run.checkpoint import load_checkpoint
from features.worlds import world
from mutations import WAYS

IMAGES, MASKS = world(3, shape=(14, 17))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Sound files, with the way to read them."""
    root = tmp_path_factory.mktemp("sound")
    shapes = cl.BoltzmannSegmenter(shape=(8, 8), hidden=(8, 8), words=(8, 8), epochs=(5, 5),
                                   calibration=None, n_jobs=1)  # fmt: skip
    for name, model in (("linear", cl.Segmenter(features="linear", C=10.0, n_jobs=1)),
                        ("shapes", shapes)):  # fmt: skip
        model.fit(IMAGES, MASKS, checkpoint=root / f"{name}.part").save(root / name)

    def model_of(path):
        model = cl.load(path)
        q = model.predict_proba(IMAGES[:1])[0]
        return model.predict(IMAGES[:1])[0].tobytes(), q.tobytes(), model.get_params()

    def state_of(kind):
        def read(path):
            values, arrays = load_checkpoint(path, kind)
            return values, {n: (a.dtype, a.shape, a.tobytes()) for n, a in arrays.items()}

        return read

    return [
        (root / "linear", model_of),
        (root / "shapes", model_of),
        (root / "linear.part" / "features.safetensors", state_of("features")),
        (root / "shapes.part" / "shape.safetensors", state_of("shape")),
    ]


@pytest.mark.parametrize("way", dict.fromkeys(WAYS), ids=lambda way: way.__name__)
def test_damage_never_gives_another_answer(files, tmp_path, way):
    rng = np.random.default_rng(7)
    victim = tmp_path / "victim"
    refused = 0
    for path, read in files:
        right, data = read(path), path.read_bytes()
        for k in range(12):
            victim.write_bytes(way(data, rng))
            with contextlib.suppress(cl.InputError):
                refused += 1
                assert read(victim) == right, (path.name, k)
                refused -= 1
    assert refused, "no damage at all was seen"
