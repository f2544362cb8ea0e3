"""A real cluster whose workers and scheduler are killed: the same bits as one thread, or a word."""

import copy
import json
import math
import pickle
import warnings

import numpy as np
import pytest
from click.testing import CliRunner

import cutlearn as cl
from clusters import Processes
from cutlearn.app.answers import answers
from cutlearn.app.cli import main
from cutlearn.features.featurizer import Featurizer
from cutlearn.features.net.learn import NetRecipe
from cutlearn.features.trees import Recipe
from cutlearn.images import cells, read_folder
from cutlearn.learn import likelihood as likelihood_run
from cutlearn.loaded import Loaded
from cutlearn.model import base
from cutlearn.run import cluster as remote
from cutlearn.run.executor import executor_of
from cutlearn.run.process import Interrupted
from small_folders import content, make_folders

pytest.importorskip("distributed", reason="the extra `cluster` is not installed")

WORLDS = [cells(seed, (32, 40)) for seed in range(5)]
IMAGES, MASKS = [w.image for w in WORLDS], [w.labels for w in WORLDS]
SMALL = {"features": "trees", "recipe": Recipe(trees=8, rows=600, folds=2), "random_state": 0}
SHAPE = {"shape": (16, 16), "hidden": (4, 4), "epochs": (2, 2), "cycles": 1, "words": (4, 4),
         "refine": False}  # fmt: skip


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    made = Processes(tmp_path_factory.mktemp("cluster"))
    yield made
    remote.leave_clusters()
    made.end()


@pytest.fixture
def cluster(processes):
    """Two workers, whatever the test before has killed."""
    return healed(processes)


def healed(processes):
    processes.heal()
    place = executor_of(processes.address)
    place.client.wait_for_workers(2, timeout=60)
    return place


class Killer:
    """Kills a worker the n-th time that it is called."""

    def __init__(self, processes, turn):
        self.processes, self.turn, self.heard = processes, turn, 0

    def __call__(self, *_):
        self.heard += 1
        if self.heard == self.turn:
            self.processes.kill_worker()


@pytest.fixture(scope="module")
def problems():
    rng = np.random.default_rng(0)
    made = []
    for mask in MASKS:
        nodes = np.stack([np.ones(mask.size), mask.ravel() + rng.normal(0, 1, mask.size)], axis=1)
        made.append(cl.Problem(nodes, shape=mask.shape, connectivity=4))
    return made


@pytest.fixture(scope="module")
def model():
    return cl.Segmenter(features="linear", C=10.0, n_jobs=1).fit(IMAGES[:3], MASKS[:3])


def trained(problems, learner, **where):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cl.ConvergenceWarning)  # a few steps are enough here
        return cl.train(problems, MASKS, learner=learner, C=10.0, tol=0.01, max_steps=8, **where)


def test_killed_during_features(processes, cluster):
    alone = Featurizer(**SMALL, n_jobs=1).fit_transform(IMAGES, MASKS)
    killer = Killer(processes, 3)
    spread = Featurizer(**SMALL, n_jobs=cluster).fit_transform(IMAGES, MASKS, progress=killer)
    assert killer.heard > killer.turn
    assert all(np.array_equal(a, b) for a, b in zip(alone, spread))


def test_more_than_the_driver_can_hold(processes, cluster, monkeypatch):
    """Features on the driver's disk, and a worker that dies while they are made."""
    net = NetRecipe(steps=2, crops=2, folds=2)
    found = []
    for place, fits in ((1, True), (cluster, False)):
        monkeypatch.setattr(base, "fits", lambda *_, fits=fits: fits)
        features = Featurizer(**SMALL | {"features": "both", "net": net})
        model = cl.Segmenter(features=features, C=10.0, calibration=None, n_jobs=place)
        told = None if fits else Killer(processes, 3)
        images = Loaded(len(IMAGES), IMAGES.__getitem__)
        found.append(model.fit(images, MASKS, progress=told).w_)
    assert told.heard > told.turn
    assert np.array_equal(*found)


@pytest.mark.parametrize("features", ["linear", "trees", "stacked"])
def test_workers_read_images_where_they_live(processes, cluster, tmp_path, features):
    """Paths are sent instead of pixels; a worker that dies costs a reading."""
    images, masks = read_folder(*make_folders(tmp_path, 5, (96, 80))).lazy()
    net = NetRecipe(steps=2, crops=2, folds=2)
    how = Featurizer(**SMALL | {"features": features, "net": net})
    found, sent = [], []
    for place, many in ((1, False), (cluster, False), (cluster, True)):
        model = cl.Segmenter(features=how, C=10.0, n_jobs=place)
        given = (list(images), list(masks)) if many else (images, masks)
        told = Killer(processes, 3) if place is cluster and not many else None
        before = cluster.sent
        model.fit(*given, checkpoint=tmp_path / f"run{len(found)}", progress=told)
        found.append(model.w_)
        sent.append(cluster.sent - before)
        if told is not None:
            assert told.heard > told.turn
            healed(processes)
    assert all(np.array_equal(found[0], w) for w in found)
    assert sent[0] == 0
    # Nets travel too, to and fro.
    assert sent[1] < sent[2] / (1 if features == "stacked" else 3)


def test_another_file_under_the_same_path_is_refused(tmp_path):
    """What a worker does with what it was sent."""
    images, masks = read_folder(*make_folders(tmp_path, 2)).lazy()
    for values, kind in ((images, "images"), (masks, "masks")):
        sent = pickle.dumps(values.origin(0))
        assert len(sent) < 2000
        assert np.array_equal(pickle.loads(sent), values[0])
        file = tmp_path / kind / "cell0.png"
        content, other = file.read_bytes(), (tmp_path / kind / "cell1.png").read_bytes()
        for wrong in (other, b"no image", None):
            file.unlink() if wrong is None else file.write_bytes(wrong)
            with pytest.raises(cl.InputError, match=r"cell0.png: .* is another one"):
                pickle.loads(sent)
            assert not remote.can_make(sent)
        file.write_bytes(content)
        assert remote.can_make(sent)


def test_a_part_of_another_run_is_refused(tmp_path):
    from cutlearn.features.nodes import COLUMNS
    from cutlearn.run.cache import Cache

    whole = tmp_path / "features.safetensors"
    cache = Cache(whole, "one run", spills=True)
    kept = cache.spilled([(np.ones((4, 2), np.float32), ["a", "b"])], COLUMNS)
    sent = pickle.dumps(kept.origin(0))
    assert pickle.loads(sent)[1] == ["a", "b"]
    cache.clear()
    with pytest.raises(cl.InputError, match="not there"):
        pickle.loads(sent)
    Cache(whole, "another", spills=True).spilled([(np.zeros((4, 2), np.float32), ["a"])], COLUMNS)
    with pytest.raises(cl.InputError, match="a part of another run"):
        pickle.loads(sent)


@pytest.mark.parametrize("learner", ["bundle", "likelihood"])
def test_killed_during_training(processes, cluster, problems, learner, monkeypatch):
    monkeypatch.setattr(likelihood_run, "TWO", likelihood_run.Pace(30, (0.0, 1.0), 8, ((2, 2),)))
    monkeypatch.setattr(likelihood_run, "START_STEPS", 4)
    alone = trained(problems, learner)
    killer = Killer(processes, 2)
    spread = trained(problems, learner, n_jobs=cluster, callback=killer)
    assert killer.heard > killer.turn
    assert np.array_equal(alone.w, spread.w)
    assert [s.objective for s in alone.steps] == [s.objective for s in spread.steps]


def test_a_step_moves_a_few_times_the_size_of_w(cluster, problems):
    moved = []
    trained(problems, "bundle", n_jobs=cluster,
            callback=lambda step: moved.append(cluster.sent + cluster.received))  # fmt: skip
    size, data = pickle.dumps(np.zeros(problems[0].n_node_features + 1), 5), pickle.dumps(problems)
    steps = np.diff(moved)
    assert len(steps) > 2
    # A question for each batch of images, and a plane of each image.
    assert steps.max() < 12 * len(problems) * len(size) < len(data) / 10


def test_killed_during_shape_training(processes, cluster):
    some = IMAGES[:3], MASKS[:3]
    alone = cl.BoltzmannSegmenter(1, **SHAPE, n_jobs=1).fit(*some)
    killer = Killer(processes, 2)
    spread = cl.BoltzmannSegmenter(1, **SHAPE, n_jobs=cluster)
    spread.fit(*some, progress=killer)
    assert killer.heard >= killer.turn
    assert all(np.array_equal(alone.w_[name], spread.w_[name]) for name in alone.w_)
    assert alone.validation_ == spread.validation_


@pytest.mark.parametrize("seen", [True, False])
def test_killed_during_prediction(processes, cluster, tmp_path, model, seen):
    folder = read_folder(make_folders(tmp_path, 6, (32, 40))[0])
    wanted = [one.mask for one in answers(model, folder, False)]
    if not seen:  # as if the workers saw other files of these names
        facts = tuple(one._replace(digest="other") for one in folder.facts)
        folder = type(folder)(**(vars(folder) | {"facts": facts}))
    killer, found = Killer(processes, 1 + seen), []
    for one in answers(model, folder, False, place=cluster):
        killer()
        found.append(one.mask)
    assert killer.heard == 6
    assert all(np.array_equal(a, b) for a, b in zip(wanted, found))


def test_what_is_held_is_sent_once_and_made_again_elsewhere(processes, cluster):
    values = [np.full(50_000, k) for k in range(4)]
    before = cluster.sent
    held = cluster.hold(values)
    size = cluster.sent - before
    assert cluster.map(np.sum, held) == [50_000 * k for k in range(4)]
    again = cluster.hold(values)
    processes.kill_worker()
    assert cluster.map(np.max, again) == [0, 1, 2, 3]
    assert size > 4 * 50_000 * 8
    assert cluster.sent - before < size + 20_000


def test_what_cannot_travel_is_told(cluster):
    with pytest.raises(cl.InputError, match="cannot be sent to a"):
        cluster.map(lambda x: x, [1])


def test_a_failure_on_a_worker_is_the_same_failure(cluster):
    with pytest.raises(ValueError, match="math domain"):
        cluster.map(math.sqrt, [1, 2, -1])


def test_other_versions_are_refused(cluster, monkeypatch):
    other = remote.versions() | {"numpy": "1.0"}
    monkeypatch.setattr(cluster, "_tag", other)
    with pytest.raises(cl.InputError, match=r"numpy .* instead of 1\.0"):
        cluster.map(abs, [1])
    with pytest.raises(cl.InputError, match=r"the worker tcp://127.* instead of 1\.0"):
        remote._check_workers(cluster.client, cluster.name, other)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("local:0", "'n_jobs' parameter"),
        ("host:8786", "'n_jobs' parameter"),
        ("tcp://127.0.0.1:1", "no scheduler of a cluster answers"),
    ],
)
def test_what_is_no_cluster_is_refused(monkeypatch, given, words):
    monkeypatch.setattr(remote, "CONNECT", 0.5)
    with pytest.raises(cl.InputError, match=words):
        executor_of(given)


def test_models_name_no_cluster(tmp_path, cluster, model):
    away = copy.copy(model).set_params(n_jobs=cluster)
    away.save(tmp_path / "m")
    assert cl.load(tmp_path / "m").n_jobs is None
    hostile = copy.copy(model)
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patch:
        patch.setattr("cutlearn.model.model_files.is_cluster", lambda _: False)
        hostile.set_params(n_jobs="tcp://127.0.0.1:1").save(tmp_path / "h")
    with pytest.raises(cl.InputError, match="the address of a cluster, which no file of ours"):
        cl.load(tmp_path / "h")


def test_the_scheduler_dies(tmp_path, problems):
    """Last, for it ends the cluster: the command leaves a checkpoint, a sentence and its code."""
    alone = trained(problems, "bundle")
    (tmp_path / "c").mkdir()
    processes = Processes(tmp_path / "c", 1)
    try:
        place = executor_of(processes.address)
        file = tmp_path / "run.safetensors"

        def kill(step):
            if step.number == 3:
                processes.scheduler.kill()

        words = "scheduler does not answer any more. Training: interrupted after . steps; they are"
        with pytest.raises(Interrupted, match=words):
            trained(problems, "bundle", n_jobs=place, checkpoint=file, callback=kill)
        place.close()
    finally:
        processes.end()
    again = trained(problems, "bundle", checkpoint=file)
    assert np.array_equal(alone.w, again.w)


def test_on_the_command_line(tmp_path, cluster):
    images, masks = make_folders(tmp_path, 3)
    a, b = str(tmp_path / "a"), str(tmp_path / "b")

    def said(*words, code=0):
        done = CliRunner().invoke(main, [*words, "-q"])
        assert done.exit_code == code, done.output
        return done.stdout if code == 0 else done.output

    fit = ["fit", images, masks, "--features", "linear", "--C", "10", "-o"]
    away, here = ["--cluster", cluster.name], ["--jobs", "1"]
    said(*fit, a, *here)
    before = cluster.sent
    said(*fit, b, *away)
    assert content(a)[1] == content(b)[1]
    # The columns alone are more: workers have read images and columns themselves.
    assert cluster.sent - before < 3 * 40 * 48 * 14 * 4
    (tmp_path / "new").mkdir()
    bare, _ = make_folders(tmp_path / "new", 3, (36, 40))
    for words in (["evaluate", a, images, masks], ["rank", a, bare]):
        found = [json.loads(said(*words, "--json", *where)) for where in (here, away)]
        assert found[0] | {"seconds": 0} == found[1] | {"seconds": 0}
    both = said("predict", a, images, *here, *away, code=2)
    assert "--jobs and --cluster are both given" in both
