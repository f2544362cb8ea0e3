"""Files of strokes: numbers, colours, and what is refused."""

import numpy as np
import pytest
from PIL import Image

import cutlearn as cl
from cutlearn.app.cut import read_strokes


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
