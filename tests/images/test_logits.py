"""Your own logits: every form of file, every size, nothing clipped, every refusal in words."""

import json

import numpy as np
import pytest
import tifffile

import cutlearn as cl
from cutlearn.errors import InputError
from cutlearn.images import read_folder, write_probability
from cutlearn.images.logits import read_logits, with_logits
from small_folders import PLAIN, make_folders, run

SHAPE = (12, 20)


def values(shape=SHAPE, k=2, seed=0):
    return np.random.default_rng(seed).normal(0, 9, (*shape, k)).astype(np.float32)


def test_arrays_come_back_as_they_are(tmp_path):
    wanted = values()
    np.save(tmp_path / "a.npy", wanted)
    np.save(tmp_path / "first.npy", np.moveaxis(wanted, -1, 0))
    np.save(tmp_path / "one.npy", wanted[..., 0])
    np.savez(tmp_path / "named.npz", other=np.zeros(3), logits=wanted)
    np.savez(tmp_path / "single.npz", wanted)
    for name in ("a.npy", "first.npy", "named.npz", "single.npz"):
        assert np.array_equal(read_logits(tmp_path / name, SHAPE), wanted), name
    assert np.array_equal(read_logits(tmp_path / "one.npy", SHAPE), wanted[..., :1])


@pytest.mark.parametrize("divisor", [2, 4, 8])
def test_smaller_logits_are_enlarged_and_not_clipped(tmp_path, divisor):
    small = (-(-SHAPE[0] // divisor), -(-SHAPE[1] // divisor))
    np.save(tmp_path / "a.npy", np.full(small, -37.5, np.float16))
    assert (read_logits(tmp_path / "a.npy", SHAPE) == -37.5).all()
    ramp = np.linspace(-50, 50, small[1]) * np.ones((small[0], 1))
    np.save(tmp_path / "b.npy", ramp)
    found = read_logits(tmp_path / "b.npy", SHAPE)[0, :, 0]
    assert (np.diff(found) >= 0).all()
    assert found[0] == -50
    assert found[-1] == 50


def test_probabilities_become_log_odds(tmp_path):
    p = np.linspace(0, 1, SHAPE[0] * SHAPE[1]).reshape(SHAPE).astype(np.float32)
    tifffile.imwrite(tmp_path / "p.tif", p)
    write_probability(tmp_path / "p.png", p)
    inside = (p > 0.01) & (p < 0.99)
    wanted = np.log(p[inside] / (1 - p[inside]))
    for name in ("p.tif", "p.png"):
        found = read_logits(tmp_path / name, SHAPE)[..., 0]
        assert abs(found[inside] - wanted).max() < 2e-3
        assert abs(found[0, 0] + np.log(65535 / 0.5)) < 1e-3  # 0 is far away, not infinitely


REFUSED = {
    "size": (lambda: np.zeros((5, 20)), "has shape"),
    "axes": (lambda: np.zeros((2, 2, *SHAPE)), "has shape"),
    "words": (lambda: np.full(SHAPE, "a"), "type <U1"),
    "nan": (lambda: np.full(SHAPE, np.nan), "NaN or infinite"),
    "objects": (lambda: np.full(SHAPE, None), "could not be read as an array"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(tmp_path, name):
    make, words = REFUSED[name]
    np.save(tmp_path / "a.npy", make(), allow_pickle=True)
    with pytest.raises(InputError, match=words):
        read_logits(tmp_path / "a.npy", SHAPE)


def test_other_files_are_refused(tmp_path):
    (tmp_path / "cut.npy").write_bytes(b"\x93NUMPY")
    (tmp_path / "cut.npz").write_bytes(b"PK")
    np.savez(tmp_path / "two.npz", a=np.zeros(SHAPE), b=np.zeros(SHAPE))
    for name, words in (("cut.npy", "could not be read"), ("cut.npz", "could not be read"),
                        ("two.npz", "none is called logits")):  # fmt: skip
        with pytest.raises(InputError, match=words):
            read_logits(tmp_path / name, SHAPE)


def test_files_are_matched_by_name(tmp_path):
    shape = (32, 40)
    images, masks = make_folders(tmp_path, 2, shape)
    given = tmp_path / "logits"
    with pytest.raises(InputError, match="no such folder of logits"):
        with_logits(read_folder(images), given)
    given.mkdir()
    with pytest.raises(InputError, match=r"cell0: the image has no logits(.|\n)*cell1: the image"):
        with_logits(read_folder(images), given)
    for i in (0, 1):
        np.save(given / f"cell{i}.npy", values(shape, seed=i))
    folder = with_logits(read_folder(images, masks), given)
    assert (len(folder), folder.names) == (2, ("cell0", "cell1"))
    assert np.array_equal(folder.image(1).extra, values(shape, seed=1))
    assert folder.labels(1).shape == shape
    np.savez(given / "cell1.npz", values(shape))
    with pytest.raises(InputError, match="are both for one image"):
        with_logits(read_folder(images), given)


def test_given_features_are_a_constant_and_the_logits():
    logits = [values(seed=i) for i in range(2)]
    labels = [(z[..., 0] > 0).astype(np.uint8) for z in logits]
    samples = [cl.Sample(np.zeros(SHAPE), extra=z) for z in logits]
    model = cl.Segmenter(features="given", C=100.0, n_jobs=1).fit(samples, labels)
    assert model.featurizer_.node_names_ == ["bias", "extra0", "extra1"]
    assert model.featurizer_.chosen_ == "given"
    assert model.score(samples, labels) > 0.9


def test_the_command_line_takes_logits(tmp_path):
    images, masks = make_folders(tmp_path, 3, (32, 40))
    given = tmp_path / "logits"
    given.mkdir()
    folder = read_folder(images, masks)
    for i, name in enumerate(folder.names):
        np.save(given / f"{name}.npy", (8.0 * folder.labels(i) - 4)[::2, ::2])
    model = tmp_path / "m"
    fit = run(PLAIN, "fit", images, masks, "-o", model, "--logits", given, "--C", 10, "--json")
    assert fit.returncode == 0, fit.stderr
    assert json.loads(fit.stdout)["features"] == "given"
    out = run(PLAIN, "evaluate", model, images, masks, "--logits", given, "--json")
    assert out.returncode == 0, out.stderr
    assert json.loads(out.stdout)["iou"]["value"] > 0.7
    bare = run(PLAIN, "predict", model, images, "-o", tmp_path / "found")
    assert bare.returncode == 2
    assert "extra channels" in bare.stderr
    good = run(PLAIN, "predict", model, images, "-o", tmp_path / "found", "--logits", given)
    assert good.returncode == 0, good.stderr


def folder_of_arrays(root, *arrays):
    images, masks = make_folders(root, len(arrays), (32, 40))
    given = root / "logits"
    given.mkdir()
    for i, array in enumerate(arrays):
        np.save(given / f"cell{i}.npy", array)
    return images, masks, given


def test_arrays_of_probabilities_become_log_odds(tmp_path):
    p = np.random.default_rng(0).random((2, 32, 40))
    images, masks, given = folder_of_arrays(tmp_path, *p)
    folder = with_logits(read_folder(images, masks), given)
    assert folder.probabilities
    assert abs(folder.image(1).extra[..., 0] - np.log(p[1] / (1 - p[1]))).max() < 1e-4
    model = tmp_path / "m"
    done = run(PLAIN, "fit", images, masks, "-o", model, "--logits", given, "--C", 10)
    assert done.returncode == 0, done.stderr
    assert "read as probabilities" in done.stderr


def test_arrays_of_which_some_lie_in_0_to_1_are_refused(tmp_path):
    images, masks, given = folder_of_arrays(tmp_path, np.full((32, 40), 0.5), values((32, 40)))
    with pytest.raises(InputError, match=r"cell0\.npy lies in \[0, 1\].*cell1\.npy does not"):
        with_logits(read_folder(images, masks), given)
