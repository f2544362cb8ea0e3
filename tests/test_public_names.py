"""Public names are shown before their first use, and rooms with public names have a home."""

import subprocess
import sys

import pytest

import cutlearn as cl


def test_dir_shows_every_public_name_before_its_first_use():
    code = (
        "import cutlearn as cl\n"
        "names = {*cl.__all__, 'displays', 'images', 'metrics'}\n"
        "missing = sorted(names - set(dir(cl)))\n"
        "assert not missing, missing\n"
        "assert all(hasattr(cl, name) for name in names)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_rooms_have_their_public_names():
    for room, name in (("metrics", "iou"), ("displays", "AreaDisplay"), ("images", "read_folder")):
        assert name in getattr(cl, room).__all__
        assert hasattr(getattr(cl, room), name)


@pytest.mark.parametrize("name", ["UpperEnvelope", "choose_order"])
def test_names_that_moved_to_the_papers_warn(name):
    assert name not in cl.__all__
    with pytest.warns(DeprecationWarning, match="has moved to cutlearn_papers"):
        assert getattr(cl, name).__name__ == name
