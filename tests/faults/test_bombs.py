"""Small files that ask for much memory, time or screen are refused, shortly."""

import contextlib
import io
import json
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import tifffile

import cutlearn as cl
from cutlearn.errors import InputError
from cutlearn.features.featurizer import Featurizer
from cutlearn.features.trees import Recipe
from cutlearn.images import read_image, read_values
from features.worlds import world
from hostile_images import bombs, scans
from hostile_models import BOLTZMANN, SEGMENTER, changed, nested, parts

TESTS = Path(__file__).parent.parent
IMAGES, MASKS = world(3, shape=(14, 17))
# Far more than a message needs, far less than what the files bring along.
MOST_WORDS = 900

# Loads every file under a limit of memory: what it has already, and 700 MB.
CHILD = """
import json, resource, sys
import cutlearn as cl
cl.load(sys.argv[1])
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 700 * 2**20,) * 2)
for path in sys.argv[2:]:
    try:
        cl.load(path)
        said = "loaded"
    except cl.InputError as error:
        said = "refused: " + str(error)
    except BaseException as error:
        said = "raised: " + repr(error)[:300]
    sys.stdout.write(json.dumps([path, said]) + "\\n")
    sys.stdout.flush()
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    small = Featurizer(recipe=Recipe(trees=2, rows=300, folds=2, min_leaf=5, leaves=4))
    cl.Segmenter(features=small, C=10.0, n_jobs=1).fit(IMAGES, MASKS).save(root / "Segmenter")
    shapes = cl.BoltzmannSegmenter(shape=(8, 8), hidden=(8, 8), words=(8, 8), epochs=(5, 5),
                                   calibration=None, n_jobs=1)  # fmt: skip
    shapes.fit(IMAGES, MASKS).save(root / "BoltzmannSegmenter")
    return root


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="asks Linux for its memory")
@pytest.mark.parametrize(("kind", "lies"), [("Segmenter", SEGMENTER),
                                            ("BoltzmannSegmenter", BOLTZMANN)])  # fmt: skip
def test_a_model_that_asks_for_much_is_refused(models, tmp_path, kind, lies):
    good = models / kind
    names = {str(changed(good, tmp_path / f"{k}.m", lie)): name
             for k, (name, lie) in enumerate(lies.items())}  # fmt: skip
    command = [sys.executable, "-c", CHILD, str(good), *names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    told = {names[path]: said for path, said in rows}
    assert told.keys() == lies.keys(), done.stderr[-500:]
    for name, said in told.items():
        assert said.startswith("refused: "), (name, said)
        assert len(said) < MOST_WORDS, name
        assert said.isprintable(), name


def test_a_card_is_checked_before_it_is_written(models, tmp_path):
    model = cl.load(models / "Segmenter")
    model.card_["intended_use"] = "by a person"
    model.save(tmp_path / "m")
    assert cl.load(tmp_path / "m").card_["intended_use"] == "by a person"
    for wrong in (nested(30), "x" * 50_000, float("nan"), 10**30, {1: 2}, object()):
        model.card_["intended_use"] = wrong
        with pytest.raises(cl.InputError, match="card: "):
            model.save(tmp_path / "m")
    header, _ = parts(tmp_path / "m")
    assert header["card"]["intended_use"] == "by a person"


SMALL_BOMBS = {name: data for name, data in bombs(64 * 2**20).items() if "scans" not in name}


@pytest.mark.parametrize("name", SMALL_BOMBS)
def test_an_image_that_inflates_is_read_in_little_memory(name):
    tracemalloc.start()
    try:
        with contextlib.suppress(InputError):
            assert read_image(SMALL_BOMBS[name], "a.png").shape[:2] == (8, 8)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Texts of a PNG may take Pillow's own limit of 64 MiB, a few bytes at a time.
    assert peak < (100 if name == "png texts" else 20) * 2**20


def test_a_jpeg_of_very_many_scans_is_refused():
    with pytest.raises(InputError, match=r"the JPEG has 20\d scans, but at most 100"):
        read_image(scans(200, side=16), "a.jpg")
    assert read_image(scans(5, side=16), "a.jpg").shape == (16, 16)
    # What a telephone puts behind the picture is no scan of it.
    assert read_image(scans(5, side=16) + b"\xff\xda\x00\x02" * 200, "a.jpg").shape == (16, 16)


def test_sound_deflated_files_of_every_layout_are_read():
    values = np.random.default_rng(0).integers(0, 2**16, (50, 70), np.uint16)
    for options in ({}, {"rowsperstrip": 7}, {"tile": (32, 48)}, {"predictor": 2}):
        file = io.BytesIO()
        tifffile.imwrite(file, values, compression="zlib", **options)
        assert np.array_equal(read_values(file.getvalue()), values), options
