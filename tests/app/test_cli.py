import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import cutlearn as cl
from cutlearn.app.cli import main
from cutlearn.images import (
    pasture,
    read_folder,
    read_image,
    read_values,
    write_mask,
    write_probability,
)
from cutlearn.metrics import confusions, total
from cutlearn.model.calibration import uncalibrated
from small_folders import make_folders

FAST = ["--features", "linear", "--C", "10", "--tol", "0.05", "--jobs", "1"]


def run(*args):
    return CliRunner().invoke(main, [str(a) for a in args])


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Folders and a model fitted on them."""
    root = tmp_path_factory.mktemp("world")
    images, masks = make_folders(root)
    done = run("fit", images, masks, "-o", root / "my.model", *FAST)
    assert done.exit_code == 0, done.stderr
    return root, images, masks, root / "my.model"


def test_help_imports_nothing_heavy():
    code = (
        "import sys\n"
        "from cutlearn.app.cli import main\n"
        "try:\n    main(['--help'])\n"
        "except SystemExit as end:\n    assert end.code == 0\n"
        "heavy = {'sklearn', 'scipy', 'matplotlib', 'skimage', 'rich', 'PIL', 'safetensors'}\n"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "fit" in done.stdout


def test_no_command_shows_the_help():
    done = run()
    assert done.exit_code == 0
    assert done.stdout == run("--help").stdout


def test_version():
    assert run("--version").stdout.strip() == f"cutlearn, version {cl.__version__}"


@pytest.mark.parametrize("command", ["fit", "predict", "evaluate", "rank", "show", "demo"])
def test_every_command_has_help(command):
    done = run(command, "--help")
    assert done.exit_code == 0
    assert "--json" in done.stdout
    assert "--debug" in done.stdout


def test_fit_tells_one_summary_and_leaves_only_the_model(world):
    root, images, masks, _ = world
    done = run("fit", images, masks, "-o", root / "other.model", *FAST)
    assert done.exit_code == 0
    assert len(done.stdout.splitlines()) == 1
    assert "4 images" in done.stdout
    assert "training, run 1 of 3" in done.stderr  # plain lines in a pipe
    assert "\x1b" not in done.stderr
    assert not (root / "other.model.part").exists()
    assert cl.load(root / "other.model").tol == 0.05


def test_fit_twice_gives_the_same_weights(world):
    root, images, masks, model = world
    run("fit", images, masks, "-o", root / "again.model", *FAST)
    assert np.array_equal(cl.load(root / "again.model").w_, cl.load(model).w_)


def test_fit_as_json(world):
    root, images, masks, _ = world
    done = run("fit", images, masks, "-o", root / "json.model", *FAST, "--json", "--loss", "count")
    said = json.loads(done.stdout)
    assert said["images"] == 4
    assert said["loss"] == "count"
    assert said["converged"] is True
    assert said["resumed"] is False
    assert 0 <= said["gap"] <= 0.05


def test_a_likelihood_claims_no_gap(tmp_path):
    images, masks = make_folders(tmp_path, 3, (32, 32))
    model = tmp_path / "likely.model"
    args = ["fit", images, masks, "-o", model, "--learner", "likelihood", "--features", "linear"]
    args += ["--C", "inf", "--tol", "0.3", "--jobs", "1", "--force"]
    done = run(*args)
    assert done.exit_code == 0, done.stderr
    assert "C = inf, likelihood (converged; no gap is proved) after" in done.stdout
    assert "stops below 30.00%" in run(*args, "-v").stderr
    assert "training" not in run(*args, "-q").stderr
    assert "gap" not in done.stderr
    said = json.loads(run(*args, "--json", "--strict").stdout, parse_constant=pytest.fail)
    assert (said["gap"], said["certified"], said["converged"]) == (None, False, True)
    shown = run("show", model)
    assert "no gap is proved" in shown.stdout
    assert "won lately" in shown.stdout
    curve = json.loads(run("show", model, "--json").stdout, parse_constant=pytest.fail)["curve"]
    assert curve[0]["won lately"] is None
    assert curve[-1]["won lately"] <= 0.3
    refused = run(*args, "--loss", "count")
    assert refused.exit_code == 2
    assert "needs no loss" in refused.stderr


def test_predict_writes_what_the_model_predicts(world, tmp_path):
    _, images, _, model = world
    done = run("predict", model, images, "-o", tmp_path / "deep" / "out", "--jobs", 2)
    assert done.exit_code == 0, done.stderr
    assert "4 masks" in done.stdout
    names = sorted(p.name for p in (tmp_path / "deep" / "out").iterdir())
    assert names == [f"cell{i}.png" for i in range(4)]
    from cutlearn.images import read_folder

    wanted = cl.load(model).predict(read_folder(images).load()[0])
    for name, mask in zip(names, wanted):
        assert np.array_equal(read_values(tmp_path / "deep" / "out" / name), 255 * mask)


def test_predict_with_another_value(world, tmp_path):
    _, images, _, model = world
    done = run("predict", model, images, "-o", tmp_path, "--object-value", 1, "--json")
    said = json.loads(done.stdout)
    shares = {image["name"]: image["share"] for image in said["images"]}
    mask = read_values(tmp_path / "cell1.png")
    assert mask.max() == 1
    assert shares["cell1"] == pytest.approx(mask.mean(), abs=1e-6)


def test_evaluate_figures_are_those_of_the_masks(world):
    _, images, masks, model = world
    done = run("evaluate", model, images, masks, "--json")
    said = json.loads(done.stdout)
    from cutlearn.images import read_folder
    from cutlearn.metrics import count_error, pixel_error, pooled_iou

    x, y = read_folder(images, masks).load()
    guess = cl.load(model).predict(x)
    assert said["iou"]["value"] == pytest.approx(pooled_iou(y, guess), abs=1e-12)
    assert said["pixel_error"]["value"] == pytest.approx(pixel_error(y, guess), abs=1e-12)
    assert said["count_error"]["value"] == pytest.approx(count_error(y, guess), abs=1e-9)
    assert said["iou"]["low"] <= said["iou"]["value"] <= said["iou"]["high"]
    table = run("evaluate", model, images, masks)
    assert table.exit_code == 0
    for word in (
        "cell0",
        "cell3",
        "pooled IoU",
        "pixel error",
        "area error",
        "mean IoU",
        "interval",
    ):
        assert word in table.stdout


def test_probability_maps_are_written_beside_the_masks(world, tmp_path):
    _, images, masks, model = world
    done = run("predict", model, images, "-o", tmp_path / "out", "--probability")
    assert done.exit_code == 0
    assert "probability/" in done.stdout
    from cutlearn.images import read_folder

    x, _ = read_folder(images, masks).load()
    wanted = cl.load(model).predict_proba(x)
    for i, q in enumerate(wanted):
        found = read_values(tmp_path / "out" / "probability" / f"cell{i}.png")
        assert found.dtype == np.uint16
        assert np.abs(found / 65535 - q[..., 1]).max() < 1e-5


def test_evaluate_tells_how_far_probabilities_can_be_believed(world):
    _, images, masks, model = world
    said = json.loads(run("evaluate", model, images, masks, "--json").stdout)
    assert 0 < said["calibration_error"]["value"] < 0.3
    assert -1 < said["log_likelihood"]["value"] < 0
    table = run("evaluate", model, images, masks).stdout
    assert "expected error" in table
    assert "log-likelihood" in table


def test_predict_writes_areas_as_area_gives_them(world, tmp_path):
    _, images, _, model = world
    file = tmp_path / "areas.csv"
    done = run("predict", model, images, "-o", tmp_path / "out", "--areas", file)
    assert done.exit_code == 0, done.stderr
    assert str(file) in done.stdout
    titles, *rows = csv.reader(file.read_text().splitlines())
    assert titles == ["name", "label", "mask_pixels", "expected_pixels", "low", "high"]
    folder = read_folder(images)
    value, interval = cl.load(model).area([folder.image(i) for i in range(len(folder))])
    for row, name, v, (low, high) in zip(rows, folder.names, value, interval, strict=True):
        found = read_values(tmp_path / "out" / f"{name}.png")
        assert row[:3] == [name, "1", str(int((found > 0).sum()))]
        assert np.abs(np.array(row[3:], float) - [v, low, high]).max() < 0.1
    assert not (tmp_path / "out" / "probability").exists()


def test_areas_want_held_out_images(world, tmp_path):
    _, images, _, model = world
    bare = cl.load(model).set_params(calibration=None)
    bare.calibration_ = uncalibrated(2)
    bare.save(tmp_path / "bare.model")
    done = run("predict", tmp_path / "bare.model", images, "-o", tmp_path / "out",
               "--areas", tmp_path / "a.csv")  # fmt: skip
    assert done.exit_code == 2
    assert "no held-out areas" in done.stderr
    assert not (tmp_path / "a.csv").exists()


@pytest.fixture(scope="module")
def unseen(world, tmp_path_factory):
    """A folder of images that have no masks."""
    return make_folders(tmp_path_factory.mktemp("unseen"), seed=20)[0]


def test_rank_leaves_out_what_has_a_mask(world, unseen, tmp_path):
    _, images, _, model = world
    done = run("rank", model, images)
    assert done.exit_code == 2
    assert "every image has a mask" in done.stderr
    for source, names in ((images, ["cell0", "cell1"]), (unseen, ["cell0", "cell1", "cell2"])):
        for name in names:
            copied = tmp_path / f"{name}{'' if source == images else '_new'}.png"
            copied.write_bytes((Path(source) / f"{name}.png").read_bytes())
    write_mask(tmp_path / "cell2_new_mask.png", np.eye(40, 48, dtype=np.uint8), 255)
    done = run("rank", model, tmp_path)
    assert "3 images of 5 left out, which have masks" in done.stderr
    assert "2 images ranked" in done.stdout
    said = json.loads(run("rank", model, tmp_path, "--json").stdout)
    assert {row["name"] for row in said["images"]} == {"cell0_new", "cell1_new"}
    assert said["left_out"] == 3


def test_rank_orders_the_folder_and_writes_a_page(world, unseen, tmp_path):
    *_, model = world
    images = unseen
    folder, file = read_folder(images), tmp_path / "next.html"
    pictures = [folder.image(i) for i in range(len(folder))]
    order = cl.load(model).rank(pictures)
    said = json.loads(run("rank", model, images, "-o", file, "--json").stdout)
    assert [r["name"] for r in said["images"]] == [folder.names[r.image] for r in order]
    first = order[0].windows[0]
    assert said["images"][0]["windows"][0] == [first.top, first.bottom, first.left, first.right]
    text = file.read_text()
    assert text.count("data:image/jpeg") == 3 * len(order)
    assert text.index(said["images"][0]["name"]) < text.index(said["images"][1]["name"])
    table = run("rank", model, images).stdout
    assert table.index(said["images"][0]["name"]) < table.index(said["images"][1]["name"])


def test_windows_of_resized_images_are_told_in_pixels_of_the_file(world, unseen):
    *_, model = world
    images = unseen
    said = json.loads(run("rank", model, images, "--min-side", 20, "--json").stdout)
    folder = read_folder(images)
    for image in said["images"]:
        h, w = folder.image(folder.names.index(image["name"])).shape[:2]
        ends = np.array(image["windows"])
        assert (ends[:, 1] <= h).all()
        assert (ends[:, 3] <= w).all()
        assert (ends[:, 1] - ends[:, 0]).min() >= h // 5  # four windows along the shorter side


def test_evaluate_writes_a_report_on_demand(world, tmp_path):
    _, images, masks, model = world
    file = tmp_path / "page.html"
    done = run("evaluate", model, images, masks, "--report", file)
    assert done.exit_code == 0, done.stderr
    assert f"look at {file}" in done.stdout
    text = file.read_text()
    assert "my.model" in text
    said = json.loads(run("evaluate", model, images, masks, "--json", "--report", file).stdout)
    assert said["report"] == str(file)
    assert all(image["name"] in text for image in said["images"])


def test_evaluate_leaves_void_out(world, tmp_path):
    _, images, masks, model = world
    half = tmp_path / "half"
    half.mkdir()
    for i in range(4):
        mask = (read_values(f"{masks}/cell{i}.png") > 0).astype(np.uint8)
        mask[:, 24:] = 7
        write_mask(half / f"cell{i}.png", mask)
    done = run("evaluate", model, images, half, "--void-value", 7, "--object-value", 1, "--json")
    said = json.loads(done.stdout)
    assert said["images"][0]["true_area"] == int(
        (read_values(f"{masks}/cell0.png")[:, :24] > 0).sum()
    )


def test_show_names_every_weight_and_step(world):
    *_, model = world
    done = run("show", model)
    assert done.exit_code == 0
    fitted = cl.load(model)
    for name in fitted.w_names_:
        assert name in done.stdout
    assert "training curve" in done.stdout
    assert "to be written by a person" not in done.stdout
    said = json.loads(run("show", model, "--json").stdout)
    assert said["weights"] == dict(zip(fitted.w_names_, fitted.w_.tolist()))
    assert len(said["curve"]) == fitted.n_steps_


def test_several_labels_from_folder_to_folder(tmp_path):
    images, masks = tmp_path / "images", tmp_path / "masks"
    for folder in (images, masks):
        folder.mkdir()
    for seed in range(3):
        made = pasture(seed, (32, 40))
        for k in range(3):
            assert (made.labels == k).any()
        write_probability(images / f"{seed}.png", made.image[..., 0])
        write_mask(masks / f"{seed}.png", made.labels)
    model, out = tmp_path / "m", tmp_path / "out"
    several = ["--labels", "surrogate", "--learner", "logistic"]
    done = run("fit", images, masks, "-o", model, *FAST, *several)
    assert done.exit_code == 0, done.stderr
    done = run("predict", model, images, "-o", out, "--probability", "--jobs", 1)
    assert done.exit_code == 0, done.stderr
    assert "masks (0 to 2), probabilities in probability/, labels above 0 cover" in done.stdout
    (wanted,) = cl.load(model).predict([read_image(images / "1.png")])
    assert np.array_equal(read_values(out / "1.png"), wanted)
    maps = [read_values(out / "probability" / f"1.{k}.png").astype(int) for k in range(3)]
    assert np.abs(sum(maps) - 65535).max() <= 2
    page = tmp_path / "page.html"
    done = run("evaluate", model, images, masks, "--label", 2, "--report", page)
    assert done.exit_code == 0, done.stderr
    found = cl.load(model).predict([read_image(images / f"{seed}.png") for seed in range(3)])
    truth = [read_values(masks / f"{seed}.png") for seed in range(3)]
    whole = total(confusions(truth, found, 3))
    assert f"pooled IoU {100 * whole.iou(2):.2f} %" in done.stdout
    assert f"mean of all labels {100 * whole.mean_iou():.2f} %" in done.stdout
    assert f"{100 * whole.iou(2):.1f} %" in page.read_text()
    refused = run("evaluate", model, images, masks, "--label", 3)
    assert refused.exit_code == 2
    assert "Give one of 0, 1, 2" in refused.stderr
    refused = run("fit", images, masks, "-o", model, *FAST, "--labels", "surrogate", "--force")
    assert refused.exit_code == 2
    assert "one of ('likelihood', 'logistic')" in refused.stderr


def test_min_side_is_kept_by_the_model_and_masks_come_back_at_full_size(world, tmp_path):
    _, images, masks, _ = world
    model = tmp_path / "small.model"
    assert run("fit", images, masks, "-o", model, *FAST, "--min-side", 20).exit_code == 0
    assert cl.load(model).card_["data"]["largest"] == [20, 24]
    assert run("predict", model, images, "-o", tmp_path / "out").exit_code == 0
    mask = read_values(tmp_path / "out" / "cell1.png")
    assert mask.shape == (40, 48)
    # Twice the size by nearest neighbour: blocks of 2 x 2 equal pixels.
    assert np.array_equal(mask, np.kron(mask[::2, ::2], np.ones((2, 2), np.uint8)))
    named = run("predict", model, images, "-o", tmp_path / "named", "--min-side", 40)
    assert named.exit_code == 0
    full = read_values(tmp_path / "named" / "cell1.png")
    assert not np.array_equal(full, np.kron(full[::2, ::2], np.ones((2, 2), np.uint8)))
