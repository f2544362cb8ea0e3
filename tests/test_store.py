"""Bytes in, the same bytes in the file, nothing else in the folder."""

import doctest
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutlearn import store
from cutlearn.errors import InputError
from cutlearn.store import atomic_write


@settings(max_examples=40, deadline=None)  # each writes and syncs two files
@given(st.binary(max_size=2000), st.binary(max_size=2000))
def test_the_file_holds_the_last_bytes_and_is_alone(tmp_path_factory, first, second):
    folder = tmp_path_factory.mktemp("store")
    for data in (first, second):
        atomic_write(folder / "a.bin", data)
        assert (folder / "a.bin").read_bytes() == data
        assert [p.name for p in folder.iterdir()] == ["a.bin"]


def test_a_path_may_be_text(tmp_path):
    atomic_write(str(tmp_path / "a.txt"), b"text")
    assert (tmp_path / "a.txt").read_bytes() == b"text"


def test_new_files_follow_the_umask(tmp_path):
    old = os.umask(0o027)
    try:
        atomic_write(tmp_path / "a.txt", b"")
    finally:
        os.umask(old)
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o640


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real.txt").write_bytes(b"old")
    (tmp_path / "link.txt").symlink_to("real.txt")
    atomic_write(tmp_path / "link.txt", b"new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_bytes() == b"new"


def test_refuses_a_missing_folder_and_a_folder_as_target(tmp_path):
    with pytest.raises(InputError, match=r"nowhere.*folder does not exist"):
        atomic_write(tmp_path / "nowhere" / "a.txt", b"")
    with pytest.raises(InputError, match="is a folder"):
        atomic_write(tmp_path, b"")


def test_examples_of_the_docstrings():
    assert doctest.testmod(store).failed == 0
