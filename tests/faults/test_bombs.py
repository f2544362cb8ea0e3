"""Small files that ask for much memory, time or screen are refused, shortly."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import cutlearn as cl
from cutlearn.features.boosted import Recipe
from cutlearn.features.featurizer import Featurizer
from features.worlds import world
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
