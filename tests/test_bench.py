"""The benchmark's instances and solvers: all find the minimum that enumeration finds."""

import importlib.util
import itertools
from pathlib import Path

import numpy as np
import pytest

import cutlearn as cl


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parent.parent / "benchmarks")
    return importlib.import_module("instances"), importlib.import_module("peers")


TINY = {
    "seg": ("grid", "2d8", (3, 4), "seg", 1),
    "real": ("grid", "2d4", (3, 4), "real", 1),
    "volume": ("grid", "3d6", (2, 3, 2), "seg", 2),
    "regions": ("superpixels", (3, 4), (1, 2), 3),
    "count": ("count", (3, 4), (1, 1), 1.0, 0.0, 4),
    "count-3-lines": ("count", (3, 4), (1, 1), 1.0, 0.1, 5),
}


@pytest.mark.parametrize("name", TINY)
def test_every_solver_finds_the_minimum(bench, name):
    instances, peers = bench
    function, *arguments = TINY[name]
    instance = getattr(instances, function)(*arguments)
    n = instance.unary.size
    least = min(instance.value(y) for y in itertools.product((0, 1), repeat=n))
    for peer, solver in peers.PEERS.items():
        if importlib.util.find_spec(peers.MODULES[peer]) is None:
            continue
        if name == "real" and peer in peers.WHOLE_ONLY:
            continue
        value, labels = solver()["cut"](instance)[0]()
        room = 1e-12 * abs(least) if name == "real" else 0.0
        assert abs(value - least) <= room, peer
        assert abs(instance.value(labels) - least) <= room, peer


def test_resolves_agree_with_a_solve_from_nothing(bench):
    instances, peers = bench
    instance = instances.grid("2d4", (9, 11), "blur", 6)
    tasks = peers.cutlearn()
    found = [call()[0] for call in tasks["10 %"](instance)]
    changed = instances.grid("2d4", (9, 11), "blur", 6)
    for (at, added), value in zip(instances.changes(instance, 0.1), found, strict=True):
        changed.unary.ravel()[at] += added
        assert tasks["cut"](changed)[0]()[0] == value
    there, back = (call()[0] for call in tasks["new w"](instance)[:2])
    assert back == tasks["cut"](instance)[0]()[0]
    instance.unary, instance.weights = (
        np.rint(1.1 * instance.unary),
        [np.rint(0.9 * w) for w in instance.weights],
    )
    assert there == tasks["cut"](instance)[0]()[0]


@pytest.fixture
def rows_bench(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parent.parent / "benchmarks")
    return {name: importlib.import_module(name) for name in ("answers", "rows", "curves", "active")}


def tiny_split():
    splits = importlib.import_module("splits")
    worlds = [cl.images.cells(seed, (32, 40)) for seed in range(5)]
    pairs = [((255 * w.image).astype(np.uint8), w.labels) for w in worlds]
    return splits.Split(pairs[:3], None, pairs[3:])


def test_a_row_has_the_figures_of_masks_probabilities_and_areas(rows_bench):
    answers = rows_bench["answers"]
    truth = [np.array([[1, 1, 0, 255]]), np.array([[0, 1, 0, 0]])]
    q = [np.stack([1 - p, p], axis=-1) for p in np.array([[[0.9, 0.9, 0.1, 0.5]], [[0.1] * 4]])]
    answer = answers.Answer(
        plain=[np.array([[1, 0, 0, 0]]), np.array([[0, 1, 1, 0]])],
        cut=[np.array([[1, 1, 0, 1]]), np.array([[0, 1, 0, 0]])],
        q=q, intervals=[(1.5, 2.5), (1.5, 2.5)], seconds={"features": 1.0, "cut": 1.0},
    )  # fmt: skip
    row = answers.row_of(answer, truth)
    assert row["plain"][0] == pytest.approx(50)
    assert row["cut"][0] == pytest.approx(100)
    assert row["gain"][0] == pytest.approx(50)
    assert row["covered"] == [1, 2]
    # Bins: two pixels at .9, both ones; five at .1, one of them one.
    assert row["calibration"][0] == pytest.approx(100 * (0.2 + 0.5) / 7)


def test_perfect_probabilities_stray_by_images_not_by_pixels(rows_bench):
    floor = rows_bench["answers"].calibration_floor
    rng = np.random.default_rng(0)
    pixels, bins = 1000, np.zeros((2, 200, 3, 15))
    bins[:, :, 0, 7], bins[:, :, 1, 7] = pixels, pixels / 2
    bins[0, :, 2, 7] = rng.binomial(pixels, 0.5, 200)  # every pixel for itself
    bins[1, :, 2, 7] = pixels * rng.integers(0, 2, 200)  # all pixels of an image alike
    single, together = floor(bins[0]), floor(bins[1])
    assert together == pytest.approx((2 / np.pi / 200) ** 0.5 / 2, rel=0.15)
    assert single < together / 20


@pytest.mark.filterwarnings("ignore:area. areas have no intervals")
def test_rows_of_ours_and_of_the_forest_become_a_page(rows_bench, tmp_path, monkeypatch):
    answers, rows = rows_bench["answers"], rows_bench["rows"]
    rivals, given = importlib.import_module("rivals"), tiny_split()
    monkeypatch.setattr(rivals, "TREES", 3)
    truth, found = [mask for _, mask in given.test], []
    for source, answer in {
        "linear": answers.ours(given, 0, "linear"), "forest": rivals.forest(given, 0),
    }.items():  # fmt: skip
        row = {"set": "cells, tiny", "seed": 0, "source": source, "train": 3, "test": 2}
        found.append(row | answers.row_of(answer, truth))
    page = tmp_path / "page.md"
    page.write_text(
        "before\n<!-- a: made by a benchmark -->\nFormer figures.\n<!-- a: end -->\nafter\n"
    )
    rows.into_page(page, "a", rows.page_of(found, ("linear", "forest")))
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "Former" not in text
    assert "| cells, tiny (3 / 2) |" in text
    lines = [line for line in text.splitlines() if line.startswith(("| linear |", "| forest |"))]
    assert len(lines) == 2
    assert {line.count("|") for line in lines} == {rows.HEAD.count("|") // 2}


def test_a_row_that_is_there_is_not_measured_again(rows_bench, tmp_path):
    rows = rows_bench["rows"]
    given = rows.parser_of("Words.", "x").parse_args(["--json", str(tmp_path), "--here"])
    for _ in range(2):
        rows.measured("script", given, ("a set, small", 1), {}, lambda f: f.open("x").close())
    assert [file.name for file in tmp_path.iterdir()] == ["aset-small-1.json"]


def test_learning_curves_tell_how_many_images_a_rival_needs(rows_bench):
    curves = rows_bench["curves"]
    assert curves.needed([1, 2, 4, 8], [10, 20, 30, 40], 25) == pytest.approx(2**1.5)
    assert curves.needed([1, 2], [10, 20], 30) == np.inf
    row = {"set": "nuclei", "draw": 0, "test": 7}
    made = [row | {"source": s, "n": n, "cut": [v + n, 1.0], "plain": [v, 1.0]}
            for s, v in (("auto", 60.0), ("forest", 58.0)) for n in (1, 2, 4)]  # fmt: skip
    text = curves.tables(made)
    assert "| cutlearn, auto (1) | 61.0 | 62.0 | 64.0 |" in text
    assert "| images that the forest + tuned cut needs for ours | 3 | 4 | > 4 |" in text


def test_active_curves_are_compared_seed_by_seed(rows_bench):
    active = rows_bench["active"]
    row = {"set": "penn_fudan", "features": "net"}
    made = []
    for seed in range(3):
        for way, later in (("random", 20.0), ("rank", 21.0)):
            made.append(row | {"seed": seed, "way": way, "iou": [10.0] + [later + seed] * 3})
    text = active.tables(made + [row | {"seed": 9, "way": "rank", "iou": [99.0] * 4}])
    assert "+1.00 ± 0.00 | 3 of 3" in text
