"""Exit codes and their one line on stderr."""

import json
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from click.testing import CliRunner

import cutlearn.learn.train as train_room
from cutlearn.app.cli import main
from cutlearn.images import write_mask
from small_folders import make_folders

FAST = ["--features", "linear", "--C", "10", "--jobs", "1"]


def run(*args):
    return CliRunner().invoke(main, [str(a) for a in args])


def one_line(done, code, *words):
    """The command ended with this code, nothing on stdout and one line that has these words."""
    assert done.exit_code == code, done.stderr
    assert done.stdout == ""
    lines = [line for line in done.stderr.splitlines() if line.startswith("cutlearn: ")]
    assert len(lines) == 1
    assert done.stderr.splitlines()[-1] == lines[0]
    for word in words:
        assert word in lines[0]
    assert "Traceback" not in done.stderr


@pytest.fixture
def folders(tmp_path):
    return make_folders(tmp_path, 3)


def test_wrong_words_are_yours(tmp_path):
    one_line(run("fit"), 2, "IMAGES", "cutlearn fit --help")
    one_line(run("paint"), 2, "paint")
    one_line(run("fit", "a", "b", "-o", "c", "--loss", "cubic"), 2, "cubic", "hamming")
    one_line(run("fit", "a", "b", "-o", "c", "--C", "much"), 2, "much", "auto")
    one_line(run("fit", "a", "b", "-o", "c", "--object-value", "x"), 2, "nonzero")
    one_line(run("fit", "a", "b", "-o", "c", "--min-side", "0"), 2, "min-side")


def test_missing_folders_and_models_are_yours(tmp_path, folders):
    images, masks = folders
    one_line(run("fit", images, masks, "-o", tmp_path / "no" / "m"), 2, "its folder")
    one_line(run("show", tmp_path / "none.model"), 2, "no such file")
    one_line(run("predict", tmp_path / "none.model", images, "-o", tmp_path / "o"), 2, "no such")
    bad = tmp_path / "bad.model"
    bad.write_bytes(b"not a model")
    one_line(run("evaluate", bad, images, masks), 2, "bad.model", "damaged")


def test_wrong_numbers_are_yours(tmp_path, folders):
    for option in (["--C", "-1"], ["--tol", "0"], ["--jobs", "0"]):
        done = run("fit", *folders, "-o", tmp_path / "m", "--features", "linear", *option)
        one_line(done, 2, "must be")
    assert not (tmp_path / "m").exists()
    assert not (tmp_path / "m.part").exists()


def test_all_problems_of_a_folder_are_listed(tmp_path, folders):
    images, masks = folders
    for name in ("cell0.png", "cell2.png"):
        Path(masks, name).unlink()
    done = run("fit", images, masks, "-o", tmp_path / "m", *FAST, "--strict")
    one_line(done, 2, "2 images of 3 without a mask left out: cell0, cell2")


def test_three_labels_are_refused_before_the_work(tmp_path, folders):
    images, masks = folders
    write_mask(f"{masks}/cell1.png", [[0, 1, 2] * 16] * 40)
    done = run("fit", images, masks, "-o", tmp_path / "m", *FAST)
    one_line(done, 2, "2 of the masks hold only 0 and 255", "1, 2", "with --object-value VALUE")
    for name in ("cell0", "cell2"):
        write_mask(f"{masks}/{name}.png", [[0, 1, 2] * 16] * 40)
    done = run("fit", images, masks, "-o", tmp_path / "m", *FAST, "--labels", "binary")
    one_line(done, 2, "2 labels are needed", "with --object-value VALUE")


def test_probability_of_a_model_without_calibration_is_refused(tmp_path, folders):
    old = Path(__file__).parent.parent / "data" / "models" / "version1.cutlearn"
    done = run("predict", old, folders[0], "-o", tmp_path / "out", "--probability")
    one_line(done, 2, "not calibrated", "Call calibrate")
    assert run("predict", old, folders[0], "-o", tmp_path / "out").exit_code == 0


def test_masks_never_overwrite_their_images(tmp_path, folders):
    model = tmp_path / "m"
    run("fit", *folders, "-o", model, *FAST)
    done = run("predict", model, folders[0], "-o", folders[0])
    one_line(done, 2, "overwritten")


def test_strict_tells_that_the_gap_was_not_reached(tmp_path, folders, monkeypatch):
    plain = train_room.settings_of

    def short(n_images, learner, C, tol, groups, max_steps):
        return plain(n_images, learner, C, tol, groups, 1)

    monkeypatch.setattr(train_room, "settings_of", short)
    args = ["fit", *folders, *FAST, "--tol", "1e-7"]
    lax = run(*args, "-o", tmp_path / "lax")
    assert lax.exit_code == 0
    assert "NOT REACHED" in lax.stdout
    assert "cutlearn: training stopped after 1 steps" in lax.stderr
    strict = run(*args, "-o", tmp_path / "strict", "--strict", "--json")
    assert strict.exit_code == 3
    assert json.loads(strict.stdout)["converged"] is False
    likely = run(*args, "-o", tmp_path / "likely", "--strict", "--learner", "logistic")
    assert likely.exit_code == 3
    assert "likelihood (NOT CONVERGED; no gap is proved)" in likely.stdout
    assert "cutlearn: training stopped after 1 steps" in likely.stderr
    assert (tmp_path / "strict").exists()


@pytest.mark.filterwarnings("default:the lamp")
def test_other_warnings_are_passed_on(tmp_path, folders, monkeypatch):
    from cutlearn.features.featurizer import Featurizer

    plain = Featurizer.fit_samples

    def warned(*args, **options):
        warnings.warn("the lamp flickers", UserWarning, stacklevel=1)
        return plain(*args, **options)

    monkeypatch.setattr(Featurizer, "fit_samples", warned)
    done = run("fit", *folders, "-o", tmp_path / "m", *FAST)
    assert done.exit_code == 0
    assert "note: the lamp flickers" in done.stderr


def test_an_internal_error_asks_for_debug(tmp_path, folders, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("two and two\nis five")

    monkeypatch.setattr("cutlearn.images.folder.read_folder", broken)
    words = ["internal error", "two and two", "--debug", "issue tracker"]
    one_line(run("fit", *folders, "-o", tmp_path / "m"), 1, *words)
    for args in (["--debug", "fit", *folders], ["fit", *folders, "--debug"]):
        done = run(*args, "-o", tmp_path / "m")
        assert done.exit_code == 1
        assert "Traceback" in done.stderr
        assert "is five" in done.stderr


def test_a_full_disk_is_told_in_one_line(tmp_path, folders, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device", "m.model")

    monkeypatch.setattr("cutlearn.model.model_files.save_sealed", full)
    done = run("fit", *folders, "-o", tmp_path / "m", *FAST)
    one_line(done, 2, "m.model: No space left on device")
    assert (tmp_path / "m.part").is_dir()  # the work is not lost


def test_a_reader_that_goes_away_is_no_bug(tmp_path, folders):
    model = tmp_path / "m"
    run("fit", *folders, "-o", model, *FAST)
    code = f"from cutlearn.app.cli import main; main(['show', {str(model)!r}])"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait() == 1


def test_a_file_that_cannot_be_written_is_told_before_the_work(tmp_path, folders, monkeypatch):
    images, masks = folders
    model, held = tmp_path / "m", tmp_path / "held"
    held.mkdir()
    done = run("fit", images, masks, "-o", model, *FAST, "--features", "linear")
    assert done.exit_code == 0, done.stderr
    monkeypatch.setattr("cutlearn.app.inputs.plan_workers", None)  # nothing is predicted
    monkeypatch.setattr("cutlearn.images.folder.read_folder", None)
    for args in (
        ["predict", model, images, "-o", tmp_path / "out", "--areas"],
        ["evaluate", model, images, masks, "--report"],
        ["rank", model, images, "-o"],
    ):
        one_line(run(*args, tmp_path / "none" / "a.html"), 2, "a.html", "its folder")
        one_line(run(*args, held), 2, "held")
    assert list(held.iterdir()) == []


@pytest.mark.parametrize(
    ("option", "value"),
    [("--C", "-3"), ("--tol", "0"), ("--budget", "-3"), ("--seed", "-1"), ("--jobs", "0")],
)
def test_a_wrong_value_is_refused_by_the_name_of_its_option(option, value, tmp_path, folders):
    done = run("fit", *folders, "-o", tmp_path / "m", option, value)
    one_line(done, 2, f"{option} must be")
    assert "parameter" not in done.stderr
