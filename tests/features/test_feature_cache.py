"""Features that are interrupted again and again: the same bits, and nothing is done twice."""

import numpy as np
import pytest
import safetensors.numpy

from cutlearn.errors import InputError, InputWarning
from cutlearn.features.describe import Bank
from cutlearn.features.featurizer import Featurizer
from cutlearn.features.net.learn import NetRecipe
from cutlearn.features.net.train import NetTrainer
from cutlearn.features.trees import MultiTargetTrees, Recipe
from cutlearn.images import Sample
from cutlearn.images.sample import Volume
from features.worlds import world

SMALL = Recipe(trees=2, rows=300, folds=2, min_leaf=5, leaves=4)
NET = NetRecipe(steps=20, crops=1, folds=2, restore=10)
# So many steps between two interrupts.
MODES = {"trees": 1, "net": 2, "stacked": 6, "both": 7, "auto": 3, "linear": 1}
IMAGES, MASKS = world(3, (14, 18))
# Three questions, each with its own trees.
SEVERAL = [np.stack([mask, 1 - mask, mask], axis=-1) for mask in MASKS]


def made(mode, jobs=1, **more):
    # An endless budget: "auto" compares, whatever the images cost.
    return Featurizer(mode, recipe=SMALL, net=NET, budget=1e9, n_jobs=jobs, **more)


def bits(featurizer, nodes):
    arrays, told = featurizer.to_arrays()
    return [a.tobytes() for a in nodes], {n: a.tobytes() for n, a in arrays.items()}, told


class Work:
    """Counts what features are made of."""

    def __init__(self, monkeypatch):
        self.counts = {"trees": 0, "steps": 0, "columns": 0}
        grow, advance, raw, linear = (
            MultiTargetTrees.grow,
            NetTrainer.advance,
            Bank.raw,
            Bank.linear,
        )

        def counted_advance(trainer, steps):
            self.counts["steps"] += steps
            advance(trainer, steps)

        monkeypatch.setattr(MultiTargetTrees, "grow", self._counted("trees", grow))
        monkeypatch.setattr(NetTrainer, "advance", counted_advance)
        for name, plain in (("raw", raw), ("linear", linear)):
            monkeypatch.setitem(
                __import__("cutlearn.features.nodes", fromlist=["CHANNELS"]).CHANNELS,
                name,
                self._counted("columns", plain),
            )

    def _counted(self, what, plain):
        def one(*given):
            self.counts[what] += 1
            return plain(*given)

        return one

    def take(self):
        found, self.counts = self.counts, dict.fromkeys(self.counts, 0)
        return found


class Stop:
    """A progress that interrupts after `every` further steps, until all are done."""

    def __init__(self, every):
        self.every, self.reached, self.stops = every, 0, 0

    def __call__(self, done, total, what):
        if done >= self.reached + self.every and done < total:
            self.reached, self.stops = done, self.stops + 1
            raise KeyboardInterrupt


def finished(make, masks, file, stop):
    """Interrupt and go on until all is done."""
    for _ in range(200):
        featurizer = make()
        try:
            return featurizer, featurizer.fit_transform(
                IMAGES, masks, checkpoint=file, progress=stop
            )
        except KeyboardInterrupt:
            assert not file.exists()
    raise AssertionError("no end")


@pytest.mark.parametrize("mode", MODES)
def test_interrupted_features_are_uninterrupted_ones(monkeypatch, tmp_path, mode):
    work, plain = Work(monkeypatch), made(mode)
    whole = bits(plain, plain.fit_transform(IMAGES, MASKS))
    once, stop, file = work.take(), Stop(MODES[mode]), tmp_path / "features.safetensors"
    again = bits(*finished(lambda: made(mode), MASKS, file, stop))
    assert again == whole
    assert stop.stops >= len(IMAGES) - 1
    assert work.take() == once, "nothing is done twice"
    assert [f.name for f in tmp_path.iterdir()] == [file.name]


def test_several_questions_in_threads(tmp_path):
    plain = made("stacked")
    whole = bits(plain, plain.fit_transform(IMAGES, SEVERAL))
    stop, file = Stop(9), tmp_path / "features.safetensors"
    assert bits(*finished(lambda: made("stacked", 2), SEVERAL, file, stop)) == whole
    assert stop.stops >= 3


def test_a_memory_keeps_parts_of_its_own(tmp_path):
    def stop(done, total, what):
        if done == 6:
            raise KeyboardInterrupt

    for images in (IMAGES, IMAGES[::-1]):
        with pytest.raises(KeyboardInterrupt):
            made("trees", memory=tmp_path).fit(images, MASKS, progress=stop)
    marks = {f.name.split("-")[1] for f in tmp_path.iterdir()}
    assert len(marks) == 2
    made("trees", memory=tmp_path).fit(IMAGES, MASKS)
    left = [f.name for f in tmp_path.iterdir()]
    parts = [name for name in left if "-rows" in name or "-stage" in name]
    assert parts, "the others' are still there"
    assert len(left) == len(parts) + 1


def test_parts_of_other_images_or_settings_are_refused(tmp_path):
    def stop(*_):
        raise KeyboardInterrupt

    file = tmp_path / "features.safetensors"
    with pytest.raises(KeyboardInterrupt):
        made("trees").fit_transform(IMAGES, MASKS, checkpoint=file, progress=stop)
    (part,) = tmp_path.iterdir()
    for other, images in ((made("net"), IMAGES), (made("trees"), IMAGES[::-1])):
        with pytest.raises(InputError, match=r"features of other images or settings.*start anew"):
            other.fit_transform(images, MASKS, checkpoint=file)
    foreign = safetensors.numpy.save({"a": np.zeros(3)})
    part.write_bytes(foreign)
    with pytest.raises(InputError, match=r"something else.*Remove it to start anew"):
        made("trees").fit_transform(IMAGES, MASKS, checkpoint=file)
    assert part.read_bytes() == foreign


def test_a_damaged_part_is_made_again(tmp_path):
    file, whole = tmp_path / "features.safetensors", made("trees")
    whole = bits(whole, whole.fit_transform(IMAGES, MASKS))
    with pytest.raises(KeyboardInterrupt):
        made("trees").fit_transform(IMAGES, MASKS, checkpoint=file, progress=Stop(2))
    part = sorted(tmp_path.iterdir())[0]
    data = bytearray(part.read_bytes())
    data[-5] ^= 1
    part.write_bytes(bytes(data))
    again = made("trees")
    with pytest.warns(InputWarning, match="damaged, so it is made again"):
        nodes = again.fit_transform(IMAGES, MASKS, checkpoint=file)
    assert bits(again, nodes) == whole


def test_parts_that_a_kill_left_go_when_the_whole_is_there(tmp_path):
    file = tmp_path / "features.safetensors"
    first = made("trees")
    nodes = first.fit_transform(IMAGES, MASKS, checkpoint=file, progress=None)
    whole = bits(first, nodes)
    data = file.read_bytes()
    file.unlink()
    with pytest.raises(KeyboardInterrupt):
        made("trees").fit_transform(IMAGES, MASKS, checkpoint=file, progress=Stop(3))
    file.write_bytes(data)  # as if killed between the whole and the removal of its parts
    again = made("trees")
    assert bits(again, again.fit_transform(IMAGES, MASKS, checkpoint=file)) == whole
    assert [f.name for f in tmp_path.iterdir()] == [file.name]


def test_other_images_without_masks_are_other_features(tmp_path):
    def fitted(unannotated, **more):
        return made("net", memory=tmp_path, **more).fit(IMAGES, MASKS, unannotated=unannotated)

    others = world(3, (16, 20), seed=5)[0]
    names = []
    for given in ((), others[:2], others, others[::-1], others):
        fitted(given)
        names.append(sorted(path.name for path in tmp_path.iterdir()))
    assert [len(found) for found in names] == [1, 2, 3, 4, 4]


def test_images_without_masks_are_refused_in_words():
    featurizer = made("net")
    for others, said in (
        ([np.full((4, 4, 3), 2.0, np.float32)], r"unannotated\[0\]: the floats run from 2 to 2"),
        ([Volume(np.zeros((2, 4, 4), np.float32))], r"unannotated\[0\] is a volume"),
        ([Sample(IMAGES[0], extra=np.zeros((14, 18)))], "extra array of 1 channels, but .* have 0"),
        (7, "unannotated must be a list"),
    ):
        with pytest.raises(InputError, match=said):
            featurizer.fit(IMAGES, MASKS, unannotated=others)
