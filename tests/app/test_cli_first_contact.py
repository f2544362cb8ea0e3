"""A stranger at the command line: every turn is told in one line, and in its own words."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tifffile
from click.testing import CliRunner
from PIL import Image

import cutlearn as cl
from cutlearn.app.cli import main
from cutlearn.images import cells, pasture, read_image, read_values, write_mask, write_probability
from small_folders import make_folders

FAST = ["--features", "linear", "--C", "10", "--tol", "0.05", "--jobs", "1"]


def run(*args):
    return CliRunner().invoke(main, [str(a) for a in args])


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    root = tmp_path_factory.mktemp("world")
    images, masks = make_folders(root, 4, (40, 48))
    done = run("fit", images, masks, "-o", root / "m", *FAST)
    assert done.exit_code == 0, done.stderr
    others = make_folders(root / "others", 3, (40, 48), seed=50)
    return root, (images, masks), others


def test_python_m_cutlearn():
    done = subprocess.run([sys.executable, "-m", "cutlearn", "--version"], capture_output=True,
                          text=True)  # fmt: skip
    assert (done.returncode, done.stdout.split(",")[0]) == (0, "cutlearn")


def test_masks_with_a_suffix(world, tmp_path):
    _, (images, masks), _ = world
    renamed = tmp_path / "masks"
    renamed.mkdir()
    for path in Path(masks).iterdir():
        (renamed / f"{path.stem}_mask.png").write_bytes(path.read_bytes())
    done = run("fit", images, renamed, "-o", tmp_path / "m", *FAST)
    assert done.exit_code == 0, done.stderr
    assert "note: mask 'cell0_mask' belongs to image 'cell0', and so on" in done.stderr
    assert "note: mask values 0 and 255 are read as background and object" in done.stderr
    named = run("fit", images, renamed, "-o", tmp_path / "m", *FAST, "--mask-suffix", "_x")
    assert named.exit_code == 2
    named = run("fit", images, renamed, "-o", tmp_path / "n", *FAST, "--mask-suffix", "_mask")
    assert named.exit_code == 0


def test_a_model_is_not_overwritten_without_a_word(world):
    root, (images, masks), _ = world
    before = (root / "m").read_bytes()
    done = run("fit", images, masks, "-o", root / "m", *FAST)
    assert done.exit_code == 2
    assert "exists already" in done.stderr
    assert "--force" in done.stderr
    assert (root / "m").read_bytes() == before


def test_fit_tells_what_held_out_images_say(world, tmp_path):
    _, (images, masks), _ = world
    done = run("fit", images, masks, "-o", tmp_path / "m", "--features", "linear", "--jobs", "1")
    assert "pooled IoU" in done.stdout
    assert "on held-out images" in done.stdout
    held = cl.load(tmp_path / "m").validation_["held_out"]
    assert f"{100 * held['value']:.2f} % [{100 * held['low']:.1f} .. " in done.stdout


def test_fit_with_a_given_C_tells_held_out_images_too(world, tmp_path):
    _, (images, masks), _ = world
    done = run("fit", images, masks, "-o", tmp_path / "m", *FAST)
    held = cl.load(tmp_path / "m").validation_["held_out"]
    assert f"{100 * held['value']:.2f} % [{100 * held['low']:.1f} .. " in done.stdout
    pattern = "(c).*"  # one group of all images: nothing can be held out
    done = run("fit", images, masks, "-o", tmp_path / "n", "--groups", pattern, *FAST, "--json")
    assert json.loads(done.stdout)["held_out"] is None
    done = run("fit", images, masks, "-o", tmp_path / "n", "--groups", pattern, "--force", *FAST)
    assert "no held-out figure: the images cannot be divided in two parts" in done.stdout


def test_rank_tells_of_every_image(world, monkeypatch):
    root, _, (images, _) = world
    monkeypatch.setattr("cutlearn.run.progress.PAUSE", 0.0)
    done = run("rank", root / "m", images)
    n = len(list(Path(images).iterdir()))
    told = [line for line in done.stderr.splitlines() if "comparing" in line]
    assert [f"comparing, {k} of {n} images" in line for k, line in enumerate(told)] == [True] * (
        n + 1
    )


def test_evaluate_notices_training_images(world):
    root, (images, masks), others = world
    done = run("evaluate", root / "m", images, masks)
    assert "note: the model was fitted on all of these images: figures of training" in done.stderr
    assert "(4 of them training images)" in done.stdout
    said = json.loads(run("evaluate", root / "m", *others, "--json").stdout)
    assert said["training_images"] == 0
    assert "training images" not in run("evaluate", root / "m", *others).stderr


def test_score_and_evaluate_name_what_they_give(world):
    root, _, others = world
    said = json.loads(run("evaluate", root / "m", *others, "--json").stdout)
    pictures, truth = cl.images.read_folder(*others).load()
    assert said["mean_iou"] == pytest.approx(cl.load(root / "m").score(pictures, truth))
    assert said["labels"][1]["iou"] == pytest.approx(said["iou"]["value"])


def test_one_file_for_a_folder(world):
    root, _, (images, _) = world
    done = run("predict", root / "m", f"{images}/cell1.png")
    assert done.exit_code == 0, done.stderr
    assert "1 mask (0 and 255)" in done.stdout
    assert read_values(f"{images}/cell1_masks/cell1.png").max() == 255


def test_one_damaged_file_among_many(world, tmp_path):
    root, _, (images, _) = world
    for path in Path(images).glob("cell*.png"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "bad.png").write_bytes(b"\x89PNG nothing")
    done = run("predict", root / "m", tmp_path, "-o", tmp_path / "out")
    assert done.exit_code == 0
    assert "1 file of 4 that cannot be read left out" in done.stderr
    assert "3 masks" in done.stdout
    assert run("predict", root / "m", tmp_path, "-o", tmp_path / "o", "--strict").exit_code == 2


@pytest.mark.parametrize(("features", "fate"), [("linear", "left out"), ("auto", "only looked at")])
def test_images_without_masks_are_looked_at_where_that_teaches(world, tmp_path, features, fate):
    _, (images, masks), _ = world
    some = tmp_path / "some"
    some.mkdir()
    for path in sorted(Path(masks).iterdir())[1:]:
        (some / path.name).write_bytes(path.read_bytes())
    done = run("fit", images, some, "-o", tmp_path / "m", *FAST, "--features", features)
    assert done.exit_code == 0, done.stderr
    assert f"1 image of 4 without a mask {fate}: cell0" in done.stderr
    assert "learned from 3 images" in done.stdout


def test_a_second_prediction_does_not_take_masks_for_images(world, tmp_path):
    root, _, (images, _) = world
    inside = tmp_path / "set" / "deep"
    inside.mkdir(parents=True)
    (inside / "a.png").write_bytes(Path(images, "cell0.png").read_bytes())
    for _ in range(2):
        done = run("predict", root / "m", tmp_path / "set", "-o", tmp_path / "set" / "out")
        assert "1 mask (" in done.stdout


def test_other_images_than_those_of_the_fit_are_told_once(world, tmp_path):
    root, _, _ = world
    for i in range(5):
        write_probability(tmp_path / f"{i}.png", cells(i, (120, 130)).image / 16)
    done = run("predict", root / "m", tmp_path, "-o", tmp_path / "out")
    notes = [line for line in done.stderr.splitlines() if line.startswith("note")]
    assert len(notes) == 2
    assert "0, 1, 2, ... (5 in all) are of another size" in notes[0]
    assert "130 x 120 pixels here, a shorter side of 40 there" in notes[0]
    assert "with --min-side" in notes[0]
    assert "far darker or brighter" in notes[1]
    assert "Warning" not in done.stderr


def test_objects_outlines_and_overlays(world, tmp_path):
    root, _, (images, _) = world
    done = run("predict", root / "m", images, "-o", tmp_path, "--objects", "--overlay",
               "--outlines", "geojson", "--min-area", "4")  # fmt: skip
    assert done.exit_code == 0, done.stderr
    rows = list(csv.DictReader((tmp_path / "objects.csv").read_text().splitlines()))
    numbers = read_values(tmp_path / "objects" / "cell0.png")
    mine = [row for row in rows if row["name"] == "cell0"]
    assert len(mine) == numbers.max() >= 1
    assert len(rows) > 3
    for row in mine:
        assert int(row["area"]) == (numbers == int(row["object"])).sum() >= 4
        assert 0.2 < float(row["mean_probability"]) <= 1
    assert f", {len(rows)} objects in objects.csv" in done.stdout
    made = json.loads((tmp_path / "outlines" / "cell0.geojson").read_text())
    assert len(made["features"]) == len(mine)
    assert read_image(tmp_path / "overlay" / "cell0.png").shape == (40, 48, 3)
    coco = run("predict", root / "m", images, "-o", tmp_path / "c", "--outlines", "coco", "--json")
    said = json.loads(coco.stdout)
    made = json.loads((tmp_path / "c" / "outlines" / "coco.json").read_text())
    assert sum(image["objects"] for image in said["images"]) == len(made["annotations"])
    assert all(image["left_out"] >= 0 for image in said["images"])
    assert all(Path(images, image["file_name"]).is_file() for image in made["images"])


def test_imagej_outlines_need_their_package(world, tmp_path, monkeypatch):
    root, _, (images, _) = world
    monkeypatch.setitem(sys.modules, "roifile", None)
    done = run("predict", root / "m", images, "-o", tmp_path, "--outlines", "imagej")
    assert done.exit_code == 2
    assert "pip install cutlearn[imagej]" in done.stderr


@pytest.fixture(scope="module")
def meadow(tmp_path_factory):
    """Three labels, as 1, 2 and 3 with 255 for void, and their names."""
    root = tmp_path_factory.mktemp("meadow")
    for kind in ("images", "masks"):
        (root / kind).mkdir()
    for seed in range(4):
        made = pasture(seed, (32, 40))
        Image.fromarray((255 * made.image).astype(np.uint8)).save(root / "images" / f"{seed}.png")
        labels = made.labels + 1
        labels[:2] = 255
        write_mask(root / "masks" / f"{seed}.png", labels)
    done = run("fit", root / "images", root / "masks", "-o", root / "m", *FAST, "--names",
               "a,b,c", "--labels", "ordered")  # fmt: skip
    assert done.exit_code == 0, done.stderr
    assert (
        "mask values 1, 2, 3 are labels 0 to 2 in this order; 255 is not annotated" in done.stderr
    )
    return root


def test_several_labels_have_names_and_a_table(meadow, tmp_path):
    page = tmp_path / "page.html"
    done = run("evaluate", meadow / "m", meadow / "images", meadow / "masks", "--report", page)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("label b, against all others (another one: --label)")
    table = done.stdout[done.stdout.index("recall") :]
    assert [line.split()[0] for line in table.splitlines()[2:5]] == ["a", "b", "c"]
    assert ", of label b; mean of all labels" in done.stdout
    text = page.read_text()
    assert "<h2>Labels</h2>" in text
    assert "fitted on 4 of these images" in text
    for word in ("to be written by a person", "{&#39;", "{'"):
        assert word not in text


def test_masks_of_several_labels_can_be_looked_at_and_have_the_values_of_the_fit(meadow, tmp_path):
    done = run("predict", meadow / "m", meadow / "images", "-o", tmp_path)
    assert "4 masks (1, 2, 3)" in done.stdout
    assert set(np.unique(read_values(tmp_path / "1.png"))) <= {1, 2, 3}
    colors = read_image(tmp_path / "1.png").reshape(-1, 3)
    assert len(np.unique(colors, axis=0)) > 1
    assert colors.max() > 0.6


def test_names_must_be_as_many_as_labels(meadow, tmp_path):
    done = run("fit", meadow / "images", meadow / "masks", "-o", tmp_path / "m", *FAST, "--names",
               "a,b")  # fmt: skip
    assert done.exit_code == 2
    assert "--names gives 2 names, but the masks hold 3 labels" in done.stderr


def test_messages_have_the_words_of_the_command_line(world, tmp_path):
    _, (images, masks), _ = world
    jpegs = tmp_path / "masks"
    jpegs.mkdir()
    for path in Path(masks).iterdir():
        Image.fromarray(read_values(path)).save(jpegs / f"{path.stem}.jpg", quality=95)
    done = run("fit", images, jpegs, "-o", tmp_path / "m", *FAST)
    assert done.exit_code == 2
    assert "cut them with --threshold 128" in done.stderr
    assert "threshold=" not in done.stderr
    assert "... and 1 more like these" in done.stderr
    assert run("fit", images, jpegs, "-o", tmp_path / "m", *FAST, "--threshold", 128).exit_code == 0


def test_a_changed_image_says_how_to_begin_anew(world, tmp_path):
    _, (images, masks), _ = world
    copies = tmp_path / "images"
    copies.mkdir()
    for path in Path(images).glob("*.png"):
        (copies / path.name).write_bytes(path.read_bytes())
    part = tmp_path / "m.part"
    cl.Segmenter(features="linear", C=10.0, tol=0.05, random_state=0).fit(
        *[list(x) for x in cl.images.read_folder(images, masks).load()], checkpoint=part
    )
    write_probability(copies / "cell0.png", cells(77, (40, 48)).image)
    done = run("fit", copies, masks, "-o", tmp_path / "m", *FAST)
    assert done.exit_code == 2
    assert "Begin anew with --restart" in done.stderr
    done = run("fit", copies, masks, "-o", tmp_path / "m", *FAST, "--restart")
    assert done.exit_code == 0, done.stderr


def test_a_large_folder_is_looked_at_with_a_bar(world, monkeypatch):
    root, _, (images, _) = world
    assert "looking" not in run("rank", root / "m", images).stderr
    monkeypatch.setattr("cutlearn.app.inputs.SILENT", -1.0)
    assert "33 %: looking, 1 of 3 files" in run("rank", root / "m", images).stderr


def test_one_stack_alone_is_held_out_in_blocks(tmp_path):
    rng = np.random.default_rng(0)
    masks = np.zeros((6, 20, 24), np.uint8)
    masks[:, 5:15, 6:18] = 1
    slices = np.clip(90 + 60 * masks + rng.normal(0, 20, masks.shape), 0, 255).astype(np.uint8)
    tifffile.imwrite(tmp_path / "stack.tif", slices)
    tifffile.imwrite(tmp_path / "labels.tif", masks)
    arguments = ["fit", "stack.tif", "labels.tif", "-o", "a.model", "--features", "trees"]
    arguments[1:3] = [str(tmp_path / name) for name in arguments[1:3]]
    arguments[4] = str(tmp_path / "a.model")
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    assert "one stack of 6 slices: neighbours are held out together, in 5 blocks" in done.stderr
