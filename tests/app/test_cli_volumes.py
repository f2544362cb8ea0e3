"""Volumes from the command line: fit, predict, evaluate, a page of slices."""

import numpy as np
import pytest
import tifffile
from click.testing import CliRunner

import cutlearn as cl
from cutlearn.app.cli import main
from volume_worlds import balls, sparse


def run(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("volumes")
    for kind in ("images", "masks", "more", "truth"):
        (folder / kind).mkdir()
    for seed in range(3):
        image, mask = balls(seed, (6, 20, 24))
        places = ("more", "truth") if seed == 2 else ("images", "masks")
        mask = mask if seed == 2 else sparse(mask, [1, 2, 4])
        tifffile.imwrite(folder / places[0] / f"v{seed}.tif", (255 * image).astype(np.uint8))
        tifffile.imwrite(folder / places[1] / f"v{seed}.tif", mask)
    done = run("fit", folder / "images", folder / "masks", "-o", folder / "a.model", "--volume",
               "--features", "linear", "--spacing", "3,1,1")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "learned from 2 volumes" in done.output
    return folder


def test_masks_and_probabilities_are_volumes(folder, tmp_path):
    done = run("predict", folder / "a.model", folder / "more", "-o", tmp_path, "--probability",
               "--areas", tmp_path / "areas.csv")  # fmt: skip
    assert done.exit_code == 0, done.output
    mask = tifffile.imread(tmp_path / "v2.tif")
    assert mask.shape == (6, 20, 24)
    assert set(np.unique(mask)) <= {0, 255}
    assert tifffile.imread(tmp_path / "probability" / "v2.tif").dtype == np.uint16
    row = (tmp_path / "areas.csv").read_text().splitlines()[1]
    assert row.startswith("v2,1,")
    assert row.endswith(",,")
    assert "only 2 groups" in done.output


def test_a_page_shows_slices(folder, tmp_path):
    done = run("evaluate", folder / "a.model", folder / "more", folder / "truth", "--report",
               tmp_path / "page.html")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "v2, slice " in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("option", ["--objects", "--overlay"])
def test_what_is_made_of_images_only_is_refused(folder, tmp_path, option):
    done = run("predict", folder / "a.model", folder / "more", "-o", tmp_path, option)
    assert done.exit_code == 2
    assert f"{option}: this is made of images" in done.output


def test_empty_slices_may_be_not_annotated(folder, tmp_path):
    for kind in ("images", "masks"):
        (tmp_path / kind).mkdir()
    image, mask = balls(0, (12, 20, 24))
    mask[[0, 1, 2, 3, 5, 6, 8, 9, 11]] = 0
    empty = int((~mask.any(axis=(1, 2))).sum())
    tifffile.imwrite(tmp_path / "images" / "v.tif", (255 * image).astype(np.uint8))
    tifffile.imwrite(tmp_path / "masks" / "v.tif", mask)
    words = "fit", tmp_path / "images", tmp_path / "masks", "--volume", "--features", "linear"
    plain = run(*words, "-o", tmp_path / "a")
    assert f"{empty} of 12 annotated slices hold no object" in plain.output
    few = run(*words, "-o", tmp_path / "b", "--empty-void")
    assert few.exit_code == 0
    assert "hold no object" not in few.output
    shares = [cl.load(tmp_path / name).card_["data"]["share_of_void"] for name in "ab"]
    assert shares[0] == 0
    assert shares[1] > 0.5


def test_distances_are_three_numbers(folder, tmp_path):
    done = run("fit", folder / "images", folder / "masks", "-o", tmp_path / "b", "--volume",
               "--spacing", "3,1")  # fmt: skip
    assert done.exit_code == 2
    assert "as in 50,5,5" in done.output
