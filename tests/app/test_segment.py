"""The commands cut and refine: boxes and strokes, logits of other networks, what is refused."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

import cutlearn as cl
from cutlearn.app.cli import main
from cutlearn.app.segment import read_strokes
from cutlearn.errors import InputError
from cutlearn.images import read_image, read_values, write_mask, write_probability
from cutlearn.images.write import write_labels
from cutlearn.report.displays import borders_over


@pytest.fixture
def picture(tmp_path):
    truth = np.zeros((60, 80), bool)
    truth[15:45, 25:60] = True
    noise = np.random.default_rng(0).normal(0, 8, (60, 80, 3))
    colors = np.where(truth[..., None], (200, 60, 50), (60, 110, 90)) + noise
    path = tmp_path / "a.png"
    Image.fromarray(np.clip(colors, 0, 255).astype(np.uint8)).save(path)
    return path, truth


def run(*given):
    return CliRunner().invoke(main, [str(part) for part in given])


def test_a_box_makes_a_mask(picture, tmp_path):
    path, truth = picture
    done = run("cut", path, "--box", 20, 10, 65, 50, "-o", tmp_path / "out" / "m.png",
               "--probability", "--overlay", "--json")  # fmt: skip
    assert done.exit_code == 0, done.output
    mask = read_values(tmp_path / "out" / "m.png")
    assert set(np.unique(mask)) == {0, 255}
    assert ((mask == 255) & truth).sum() / ((mask == 255) | truth).sum() > 0.9
    told = json.loads(done.output)
    assert told["share"] == pytest.approx((mask == 255).mean(), abs=1e-6)
    sure = read_image(tmp_path / "out" / "m_probability.png")
    assert sure[truth].mean() > 0.7 > 0.3 > sure[~truth].mean()
    assert read_image(tmp_path / "out" / "m_overlay.png").shape == (60, 80, 3)


def test_the_box_that_was_used_is_said_and_drawn(picture, tmp_path):
    path, _ = picture
    given = "cut", path, "-o", tmp_path / "m.png", "--overlay", "--box"
    done = run(*given, 20, 10, 500, 50)
    assert done.exit_code == 0, done.output
    line = next(line for line in done.output.splitlines() if "20 10" in line)
    assert "80 50" in line
    assert "60 x 40" in line
    assert "clipped" in line
    seen = read_image(tmp_path / "m_overlay.png")
    plain = borders_over(read_image(path), read_values(tmp_path / "m.png") == 255)
    frame = np.pad(np.zeros((38, 58), bool), 1, constant_values=True)
    frame = np.pad(frame, ((10, 10), (20, 0)))
    np.testing.assert_allclose(seen[~frame], plain[~frame], atol=0.003)
    assert np.unique(seen[frame]).tolist() == [0, 1]
    inside = run(*given, 20, 10, 80, 50, "--json")
    assert json.loads(inside.stdout)["box"] == [20, 10, 80, 50]
    assert "clipped" not in run(*given, 20, 10, 80, 50).output


@pytest.mark.parametrize("name", ["m.png", "m.PNG", "m.tif", "m.TIFF"])
def test_masks_keep_their_values_in_the_format_of_their_name(picture, tmp_path, name):
    path, _ = picture
    assert run("cut", path, "--box", 20, 10, 65, 50, "-o", tmp_path / name).exit_code == 0
    with Image.open(tmp_path / name) as made:
        assert made.format == {"p": "PNG", "t": "TIFF"}[Path(name).suffix[1].lower()]
    assert np.unique(read_values(tmp_path / name)).tolist() == [0, 255]


@pytest.mark.parametrize("name", ["m.jpg", "m.JPEG", "m.webp", "m.gif", "m", "m.npy"])
def test_formats_that_lose_values_are_refused_before_work_starts(picture, tmp_path, name):
    path, _ = picture
    done = run("cut", path, "--box", 20, 10, 65, 50, "-o", tmp_path / "new" / name)
    assert done.exit_code == 2
    assert ".png or .tif" in done.output
    assert not (tmp_path / "new").exists()
    for write in (write_mask, write_probability, lambda path, a: write_labels(path, a, (0, 1))):
        with pytest.raises(InputError, match=r"\.png or \.tif"):
            write(tmp_path / name, np.zeros((2, 3), np.uint8))


def test_strokes_make_a_mask_beside_the_image(picture, tmp_path):
    path, _ = picture
    strokes = np.zeros((60, 80), np.uint8)
    strokes[25:35, 35:45] = 1
    strokes[2:6, 5:75] = 2
    Image.fromarray(strokes).save(tmp_path / "strokes.png")
    done = run("cut", path, "--seeds", tmp_path / "strokes.png")
    assert done.exit_code == 0, done.output
    mask = read_values(tmp_path / "a_mask.png") == 255
    assert mask[strokes == 1].all()
    assert not mask[strokes == 2].any()


def test_what_is_missing_is_said_in_one_line(picture, tmp_path):
    path, _ = picture
    done = run("cut", path)
    assert done.exit_code == 2
    assert "--box X0 Y0 X1 Y1" in done.output
    for box in ((20, 10, 20, 50), (40, 10, 30, 50), (80, 10, 90, 50), (20, 10, 30, 5)):
        done = run("cut", path, "--box", *box)
        assert done.exit_code == 2
        assert "X0 Y0 X1 Y1" in done.output
        assert "80 x 60" in done.output
        assert "rows before columns" not in done.output
    done = run("cut", path, "--box", 20, 10, 60, 50, "-o", path)
    assert done.exit_code == 2
    assert "the image itself" in done.output


def test_logits_are_refined(picture, tmp_path):
    path, truth = picture
    noise = np.random.default_rng(1).normal(0, 1.5, truth.shape)
    logits = np.where(truth, 1.0, -1.0) + noise
    for folder in ("images", "logits"):
        (tmp_path / folder).mkdir()
    path.rename(tmp_path / "images" / "a.png")
    np.save(tmp_path / "logits" / "a.npy", logits.astype(np.float32))
    done = run("refine", tmp_path / "logits", tmp_path / "images", "-o", tmp_path / "out",
               "--probability", "--overlay")  # fmt: skip
    assert done.exit_code == 0, done.output
    mask = read_values(tmp_path / "out" / "a.png") == 255
    assert (mask != truth).mean() < 0.02 < 0.2 < ((logits > 0) != truth).mean()
    assert (tmp_path / "out" / "probability" / "a.png").exists()
    done = run("refine", tmp_path / "logits", tmp_path / "images", "-o", tmp_path / "logits")
    assert done.exit_code == 2
    assert "what is read" in done.output


@pytest.fixture
def network(picture, tmp_path):
    """Images, and what a network says of them: logits and probabilities."""
    path, truth = picture
    logits = np.where(truth, 1.0, -1.0) + np.random.default_rng(1).normal(0, 1.5, truth.shape)
    for folder in ("images", "logits", "npy", "png"):
        (tmp_path / folder).mkdir()
    path.rename(tmp_path / "images" / "a.png")
    p = 1 / (1 + np.exp(-logits))
    np.save(tmp_path / "logits" / "a.npy", logits.astype(np.float32))
    np.save(tmp_path / "npy" / "a.npy", p.astype(np.float32))
    write_probability(tmp_path / "png" / "a.png", p)
    return truth


def test_probabilities_are_refined_from_arrays_and_pictures(network, tmp_path):
    masks = {}
    for kind in ("logits", "npy", "png"):
        out = tmp_path / f"out-{kind}"
        done = run("refine", tmp_path / kind, tmp_path / "images", "-o", out)
        assert done.exit_code == 0, done.output
        masks[kind] = read_values(out / "a.png") == 255
        assert (masks[kind] != network).mean() < 0.02
        assert ("logits" if kind == "logits" else "probabilities") in done.output.split("read as")[
            1
        ]
    assert (masks["npy"] == masks["logits"]).mean() > 0.999
    told = run("refine", tmp_path / "npy", tmp_path / "images", "-o", tmp_path / "j", "--json")
    assert json.loads(told.stdout)["values"] == "probabilities"


def test_the_option_values_says_what_arrays_hold(network, tmp_path):
    given = tmp_path / "npy", tmp_path / "images", "-o", tmp_path / "out", "--values"
    done = run("refine", *given, "logits")
    assert done.exit_code == 0, done.output
    assert (read_values(tmp_path / "out" / "a.png") == 255).all()  # as is asked for
    done = run("refine", tmp_path / "logits", *given[1:], "probabilities")
    assert done.exit_code == 2
    assert "a.npy" in done.output
    for kind in ("npy", "logits"):
        (tmp_path / kind / "a.npy").rename(tmp_path / "npy" / f"{kind}.npy")
    for name in ("npy", "logits"):
        shutil.copy(tmp_path / "images" / "a.png", tmp_path / "images" / f"{name}.png")
    (tmp_path / "images" / "a.png").unlink()
    done = run("refine", *given[:-1])
    assert done.exit_code == 2
    assert "--values" in done.output
    assert "npy.npy" in done.output
    assert "logits.npy" in done.output


def test_nothing_heavy_is_imported_for_a_box_or_strokes(picture, tmp_path):
    """Half a second is more than half imports: these libraries would make it two."""
    path, truth = picture
    strokes = np.zeros(truth.shape, np.uint8)
    strokes[25:30, 35:45], strokes[2:5, 5:70] = 1, 2
    Image.fromarray(strokes).save(tmp_path / "s.png")
    program = (
        "import sys\n"
        "from cutlearn.app.cli import main\n"
        "main(sys.argv[1:], standalone_mode=False)\n"
        "heavy = {'scipy', 'sklearn', 'skimage', 'matplotlib', 'joblib', 'pandas'}\n"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or 0)\n"
    )
    given = ["cut", path, "--box", 20, 10, 65, 50, "--seeds", tmp_path / "s.png"]
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, given)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "a_mask.png").exists()


def saved(path, array, **how):
    Image.fromarray(np.asarray(array, np.uint8)).save(path, **how)
    return path


def test_numbers_are_unmarked_object_background(tmp_path):
    path = saved(tmp_path / "s.png", [[0, 1, 2], [2, 0, 0]])
    assert read_strokes(path, (2, 3)).tolist() == [[-1, 1, 0], [0, -1, -1]]


def test_red_is_object_and_blue_background(tmp_path):
    row = [(255, 0, 0), (0, 0, 255), (255, 255, 255), (0, 0, 0), (0, 255, 0), (200, 30, 40)]
    path = saved(tmp_path / "s.png", [row])
    assert read_strokes(path, (1, 6)).tolist() == [[1, 0, -1, -1, -1, 1]]


def test_what_is_transparent_is_unmarked(tmp_path):
    path = saved(tmp_path / "s.png", [[(255, 0, 0, 0), (255, 0, 0, 255), (0, 0, 255, 255)]])
    assert read_strokes(path, (1, 3)).tolist() == [[-1, 1, 0]]


def test_other_numbers_sizes_and_jpeg_are_refused(tmp_path):
    path = saved(tmp_path / "s.png", [[0, 3]])
    with pytest.raises(cl.InputError, match="values up to 3"):
        read_strokes(path, (1, 2))
    with pytest.raises(cl.InputError, match="1 rows and 2 columns"):
        read_strokes(path, (2, 2))
    path = saved(tmp_path / "s.jpg", np.zeros((8, 8)))
    with pytest.raises(cl.InputError, match="JPEG"):
        read_strokes(path, (8, 8))
