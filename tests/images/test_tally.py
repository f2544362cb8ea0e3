"""What masks mean beyond their values: numbered objects, slips of the brush, strokes."""

import doctest
import warnings

import numpy as np
import pytest
import tifffile
from click.testing import CliRunner
from PIL import Image, ImageDraw
from scipy import ndimage

import cutlearn as cl
from cutlearn import images
from cutlearn.app.cli import main
from cutlearn.errors import InputWarning
from cutlearn.images import cells, read_folder
from cutlearn.images.coding import Stated, are_numbered, as_numbered, doubts, shares_of, tally
from cutlearn.images.training_set import TrainingSet

SHAPE = (96, 120)
WORLDS = [cells(seed, SHAPE) for seed in range(4)]
FAST = ["--features", "linear", "--C", "10", "--tol", "0.05", "--jobs", "1"]


def numbered(labels):
    """Every object with a number of its own, as Cellpose and label images of Fiji have them."""
    return ndimage.label(labels == 1, np.ones((3, 3)))[0].astype(np.uint16)


def dots(count, step=8, seed=0):
    """So many square objects on a grid, numbered at random places."""
    places = np.random.default_rng(seed).permutation((SHAPE[0] // step) * (SHAPE[1] // step))
    mask = np.zeros(SHAPE, np.uint16)
    for k, place in enumerate(places[:count], 1):
        row, column = divmod(int(place), SHAPE[1] // step)
        mask[row * step + 1 : row * step + 6, column * step + 1 : column * step + 6] = k
    return mask


def painted(seed=0):
    """Pixels that nobody has painted are 0, two strokes of object (1) and background (2)."""
    picture = Image.new("L", SHAPE[::-1])
    draw, rng = ImageDraw.Draw(picture), np.random.default_rng(seed)
    for value in (1, 2, 1, 2):
        x, y = rng.integers(10, 60, 2).tolist()
        draw.line([(x, y), (x + 40, y + 10)], fill=value, width=3)
    return np.asarray(picture)


def folders(root, masks):
    for kind in ("images", "masks"):
        (root / kind).mkdir(parents=True)
    for i, mask in enumerate(masks):
        grey = np.round(255 * WORLDS[i % len(WORLDS)].image).astype(np.uint8)
        Image.fromarray(grey).save(root / "images" / f"a{i}.png")
        Image.fromarray(np.asarray(mask)).save(root / "masks" / f"a{i}.png")
    return root / "images", root / "masks"


def run(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def tallies(*masks):
    return [tally(f"m{i}", mask) for i, mask in enumerate(masks)]


def test_parts_of_large_masks_are_looked_for_in_their_first_rows(monkeypatch):
    broken = dots(40).astype(np.int64)
    broken[-2:] = np.arange(SHAPE[1]) % 40
    assert not are_numbered(tallies(broken), None)
    monkeypatch.setattr(images.coding, "LARGE", SHAPE[1] * (SHAPE[0] - 2))
    assert are_numbered(tallies(broken), None)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int64, np.float32])
def test_numbered_objects_are_recognised(dtype):
    assert are_numbered(tallies(*(dots(n).astype(dtype) for n in (12, 30, 1))), None)
    assert are_numbered(tallies(dots(40).astype(dtype)), None)
    assert are_numbered(tallies(*(dots(n).astype(dtype) for n in (1, 3, 5, 2))), None)
    touching = np.kron(np.arange(1, 31).reshape(5, 6), np.ones((8, 8), int)).astype(dtype)
    assert are_numbered(tallies(touching), None)


def classes(seed, n=6):
    """Classes: every value in several places, which values differ from mask to mask."""
    rng = np.random.default_rng(seed)
    values = rng.choice(24, n, replace=False)
    return np.kron(rng.choice(values, (6, 8)), np.ones((8, 8), int)).astype(np.uint8)


LAYERS = np.repeat(np.arange(12), 8)[:, None].repeat(80, 1).astype(np.uint8)


@pytest.mark.parametrize(
    "masks",
    [
        [classes(seed) for seed in range(8)],
        [LAYERS, LAYERS[:, ::-1], np.roll(LAYERS, 3, 1)],
        [np.minimum(LAYERS, 4)],
        [np.minimum(LAYERS, 4), np.minimum(LAYERS, 3)],
        [dots(1), dots(2), dots(3)],
        [(dots(30) > 0).astype(np.uint8)] * 3,
        [np.random.default_rng(0).integers(0, 256, SHAPE).astype(np.uint8)],
        [np.arange(192, dtype=np.uint8).reshape(12, 16)],
        [np.zeros(SHAPE, np.uint8)],
    ],
    ids=["classes", "layers", "few", "fewer", "too few", "binary", "noise", "pixels", "empty"],
)
def test_classes_are_no_objects(masks):
    assert not are_numbered(tallies(*masks), None)


def test_255_is_a_number_among_numbers_and_void_alone():
    many = dots(150)
    large = np.where(many > 0, many + 150, 0)
    stated, line = as_numbered(tallies(large), Stated())
    assert line
    assert stated.void_value is None
    few = dots(20).astype(np.uint8)
    few[-3:] = 255
    stated, line = as_numbered(tallies(few), Stated())
    assert (stated.object_value, stated.void_value) == ("nonzero", 255)


def test_files_and_arrays_read_numbered_objects_alike(tmp_path):
    masks = [dots(n, seed=n) for n in (20, 35, 12)]
    pictures, truths = folders(tmp_path, masks)
    folder = read_folder(pictures, truths)
    (note,) = (note for note in folder.notes if "number their objects" in note)
    assert "up to 35" in note
    with pytest.warns(InputWarning, match="number their objects"):
        found = TrainingSet.of_lists([folder.image(i) for i in range(3)], masks)
    for i, mask in enumerate(masks):
        assert (folder.labels(i) == (mask > 0)).all()
        assert (found.masks[i] == (mask > 0)).all()
    assert found.coding.kind == "nonzero"
    assert read_folder(pictures, truths, instances=False).coding.n_labels == 36
    assert read_folder(pictures, truths, n_labels=36).coding.n_labels == 36
    with pytest.warns(InputWarning, match="value 21 is read as a label.*; so do 22"):
        several = TrainingSet.of_lists([folder.image(i) for i in range(3)], masks, most_labels=64)
    assert (several.masks[0] == masks[0]).all()


def test_fit_evaluate_and_python_agree_on_numbered_objects(tmp_path):
    masks = [dots(n, seed=n) for n in (20, 35, 12, 28)]
    pictures, truths = folders(tmp_path, masks)
    done = run("fit", pictures, truths, "-o", tmp_path / "m", *FAST)
    assert done.exit_code == 0, done.stderr
    assert done.stderr.count("number their objects") == 1
    assert "--labels unordered" in done.stderr
    model = cl.load(tmp_path / "m")
    assert len(model.classes_) == 2
    done = run("evaluate", tmp_path / "m", pictures, truths, "--json")
    assert done.exit_code == 0, done.stderr
    assert "mask values other than 0 are the object" in done.stderr
    pixels = [world.image for world in WORLDS]
    with pytest.warns(InputWarning, match="other than 0 are the object"):
        score = model.score(pixels, masks)
    plain = [(mask > 0).astype(np.uint8) for mask in masks]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        assert score == model.score(pixels, plain)
    quick = cl.Segmenter(features="linear", C=10, n_jobs=1)  # labels from the masks
    with pytest.warns(InputWarning, match="number their objects"):
        fitted = quick.fit(pixels, masks)
    with warnings.catch_warnings():
        warnings.simplefilter("error", InputWarning)
        same = cl.Segmenter(features="linear", C=10, n_jobs=1).fit(pixels, plain)
    assert (fitted.w_ == same.w_).all()


def test_the_shares_of_labels_are_counted():
    first = np.array([[0, 0, 3, 255]], np.uint8)
    second = np.array([[0, 3, 3, 3]], np.uint8)
    counts = tallies(first, second)
    coding = read_coding(counts)
    shares = shares_of(counts, coding)
    assert [(one.value, one.pixels, one.of_all) for one in shares] == [("0", 3, 7), ("3", 4, 7)]


def read_coding(counts, stated=None):
    from cutlearn.images.coding import decide

    seen = {value: one.name for one in counts for value in one.values}
    return decide(seen, [frozenset(one.values) for one in counts], stated or Stated())


def slipped(n=6, size=4, at=2):
    masks = [(dots(30, seed=i) > 0).astype(np.uint8) for i in range(n)]
    masks[at][10 : 10 + size, 20 : 20 + size] = 2
    return masks


def test_a_slip_of_the_brush_is_in_doubt():
    counts = tallies(*slipped())
    ((text, value),) = doubts(counts, read_coding(counts))
    assert value == "2"
    assert "16 of 69120" in text
    assert "1 of 6 masks (m2)" in text
    everywhere = [np.where(mask == 2, 1, mask) for mask in slipped()]
    for mask in everywhere:
        mask[10:14, 20:24] = 2
    counts = tallies(*everywhere)
    assert not doubts(counts, read_coding(counts))
    counts = tallies(*slipped(size=12))
    assert not doubts(counts, read_coding(counts))


def test_strokes_are_in_doubt():
    counts = tallies(*(painted(seed) for seed in range(3)))
    ((text, value),) = doubts(counts, read_coding(counts))
    assert value == "0"
    assert "thin strokes" in text
    counts = tallies(*(np.where(painted(s) == 0, 3, painted(s)) for s in range(3)))
    assert not doubts(counts, read_coding(counts))
    blobs = [np.where(dots(12, seed=s) > 0, 1 + dots(12, seed=s) % 2, 0) for s in range(3)]
    counts = tallies(*blobs)
    assert not doubts(counts, read_coding(counts))


@pytest.mark.parametrize(
    ("masks", "advice"),
    [(slipped(), "--void-value 2"), ([painted(s) for s in range(3)], "--void-value 0")],
    ids=["slip", "strokes"],
)
def test_fit_stops_at_doubtful_labels_and_names_the_way_out(tmp_path, masks, advice):
    pictures, truths = folders(tmp_path, masks)
    words = ["fit", pictures, truths, "-o", tmp_path / "m", *FAST]
    done = run(*words)
    assert done.exit_code == 2, done.stderr
    assert advice in done.stderr
    assert "--names" in done.stderr
    assert "shares of the annotated pixels" in done.stderr
    assert not (tmp_path / "m").exists()
    done = run(*words, *advice.split())
    assert done.exit_code == 0, done.stderr
    assert len(cl.load(tmp_path / "m").classes_) == 2


def test_a_slip_of_1_among_255_is_not_taken_for_the_object(tmp_path):
    masks = [255 * (mask > 0).astype(np.uint8) for mask in slipped()]
    masks[2][10:14, 20:24] = 1
    pictures, truths = folders(tmp_path, masks)
    done = run("fit", pictures, truths, "-o", tmp_path / "m", *FAST)
    assert done.exit_code == 2, done.stderr
    assert "value 1 is read as a label, but covers 16 of" in done.stderr
    assert "of all pixels are not annotated" in done.stderr
    assert "--object-value 255" in done.stderr
    words = ["fit", pictures, truths, "-o", tmp_path / "m", *FAST, "--object-value", "255"]
    assert run(*words).exit_code == 0


def test_names_of_all_labels_settle_the_doubt(tmp_path):
    pictures, truths = folders(tmp_path, slipped())
    words = ["fit", pictures, truths, "-o", tmp_path / "m", *FAST, "--names", "sky,cell,nucleus"]
    done = run(*words)
    assert done.exit_code == 0, done.stderr


def test_python_warns_of_doubtful_labels():
    pictures = [WORLDS[i % 4].image for i in range(6)]
    with pytest.warns(InputWarning, match=r"16 of 69120 .*set them to 255"):
        TrainingSet.of_lists(pictures, slipped(), most_labels=3)
    with pytest.warns(InputWarning, match="thin strokes"):
        TrainingSet.of_lists(pictures[:3], [painted(s) for s in range(3)], most_labels=3)


def test_fit_prints_shares_where_nothing_is_doubtful(tmp_path):
    pictures, truths = folders(tmp_path, [255 * world.labels for world in WORLDS])
    done = run("fit", pictures, truths, "-o", tmp_path / "m", *FAST)
    share = 100 * np.mean([world.labels for world in WORLDS])
    assert f"0: {100 - share:.3g} %, 255: {share:.3g} %" in done.stderr
    assert done.stderr.count("shares of the annotated pixels") == 1


def test_objects_of_volumes_are_numbered_across_slices(tmp_path):
    solid = np.repeat(np.stack([dots(30), dots(30)]), 2, axis=0)
    for kind, voxels in (("images", (solid > 0) * np.uint8(200)), ("masks", solid)):
        (tmp_path / kind).mkdir()
        tifffile.imwrite(tmp_path / kind / "v.tif", voxels, photometric="minisblack")
    folder = read_folder(tmp_path / "images", tmp_path / "masks", volume=True)
    assert (folder.labels(0) == (solid > 0)).all()
    assert any("number their objects" in note for note in folder.notes)


def test_empty_slices_that_are_not_annotated_have_no_share(tmp_path):
    voxels = np.stack([WORLDS[0].labels, 0 * WORLDS[0].labels])
    for kind in ("images", "masks"):
        (tmp_path / kind).mkdir()
        tifffile.imwrite(tmp_path / kind / "v.tif", voxels * np.uint8(255))
    for empty_void, pixels in ((True, SHAPE[0] * SHAPE[1]), (False, 2 * SHAPE[0] * SHAPE[1])):
        folder = read_folder(tmp_path / "images", tmp_path / "masks", volume=True,
                             empty_void=empty_void)  # fmt: skip
        shares = shares_of(folder.tallies, folder.coding)
        assert [one.of_all for one in shares] == [pixels, pixels]
        assert sum(one.pixels for one in shares) == pixels


@pytest.mark.parametrize(
    ("options", "wanted"),
    [({"threshold": 100}, ["background", "object"]), ({}, ["#000000", "#0000ff", "#ff0000"])],
)
def test_shares_of_thresholds_and_colours(tmp_path, options, wanted):
    colors = np.zeros((*SHAPE, 3), np.uint8)
    colors[:24] = 255, 0, 0
    colors[24:36] = 0, 0, 255
    mask = colors if not options else colors.max(axis=2)
    pictures, masks = folders(tmp_path, [mask, mask])
    folder = read_folder(pictures, masks, **options)
    shares = shares_of(folder.tallies, folder.coding)
    assert [one.value for one in shares] == wanted
    truth = np.bincount(folder.labels(0).ravel(), minlength=len(wanted))
    assert [one.pixels for one in shares] == (2 * truth).tolist()


def test_examples_of_the_docstrings():
    assert doctest.testmod(images.coding).failed == 0
