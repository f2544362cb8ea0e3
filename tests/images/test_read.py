"""Every kind of file and array comes out as the same pixels in one form."""

import doctest
import io

import numpy as np
import pytest
import tifffile
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image

from cutlearn.errors import InputError
from cutlearn.images import as_image, read, read_image, read_values

RNG = np.random.default_rng(0)
GREY = RNG.integers(0, 256, (5, 7), dtype=np.uint8)
COLOR = RNG.integers(0, 256, (5, 7, 3), dtype=np.uint8)
DEEP = RNG.integers(0, 65536, (5, 7), dtype=np.uint16)
DEEP_COLOR = RNG.integers(0, 65536, (5, 7, 3), dtype=np.uint16)


def saved(picture, kind="PNG", **options):
    file = io.BytesIO()
    if isinstance(picture, np.ndarray):
        picture = Image.fromarray(picture)
    picture.save(file, kind, **options)
    return file.getvalue()


def tiff(array, **options):
    file = io.BytesIO()
    tifffile.imwrite(file, array, **options)
    return file.getvalue()


def unit(array):
    return array.astype(np.float32) / np.float32(np.iinfo(array.dtype).max)


@given(hnp.arrays(st.sampled_from([np.uint8, np.uint16]), hnp.array_shapes(min_dims=2, max_dims=2)))
def test_integers_become_parts_of_their_range(array):
    image = as_image(array)
    assert image.dtype == np.float32
    assert image.flags.c_contiguous
    top = np.iinfo(array.dtype).max
    assert (np.rint(image.astype(float) * top) == array).all()
    assert image.min() >= 0
    assert image.max() <= 1


@given(hnp.arrays(np.float64, (3, 4), elements=st.floats(0, 1)))
def test_the_canonical_form_is_its_own_image(array):
    once = as_image(array)
    assert as_image(once) is once
    assert (once == array.astype(np.float32)).all()


@pytest.mark.filterwarnings("ignore:An image has transparent pixels")
@given(hnp.arrays(np.uint8, (2, 3, 4)))
def test_opacity_is_laid_over_white_and_stays_in_range(array):
    color, opacity = array[..., :3] / 255, array[..., 3:] / 255
    image = as_image(array)
    assert np.abs(image - (color * opacity + 1 - opacity)).max() < 1e-6
    assert image.max() <= 1


def test_forms_of_arrays():
    assert as_image(GREY[:, :, None]).shape == (5, 7)
    assert as_image(np.asfortranarray(COLOR)).flags.c_contiguous
    assert as_image(np.array([[True, False]])).tolist() == [[1, 0]]
    assert (as_image(palette(np.eye(4, 3) * 255)) == np.eye(4, 3)[GREY % 4]).all()
    assert as_image([[0.0, 0.5]]).tolist() == [[0, 0.5]]


FILES = {
    "png grey": (saved(GREY), unit(GREY)),
    "png colour": (saved(COLOR), unit(COLOR)),
    "png 16 bit": (saved(DEEP), unit(DEEP)),
    "png 1 bit": (saved(Image.fromarray(GREY > 99)), (GREY > 99).astype(np.float32)),
    "tiff grey": (saved(GREY, "TIFF"), unit(GREY)),
    "tiff colour lzw": (saved(COLOR, "TIFF", compression="tiff_lzw"), unit(COLOR)),
    "tiff 16 bit": (tiff(DEEP), unit(DEEP)),
    "tiff 16 bit lzw": (saved(DEEP, "TIFF", compression="tiff_lzw"), unit(DEEP)),
    "tiff 16 bit big-endian": (tiff(DEEP, byteorder=">"), unit(DEEP)),
    "tiff 16 bit deflate": (tiff(DEEP, compression="zlib"), unit(DEEP)),
    "tiff 16 bit colour": (tiff(DEEP_COLOR, photometric="rgb"), unit(DEEP_COLOR)),
    "tiff 16 bit planes": (
        tiff(np.moveaxis(DEEP_COLOR, 2, 0), photometric="rgb", planarconfig="separate"),
        unit(DEEP_COLOR),
    ),
    "tiff white is zero": (tiff(DEEP, photometric="miniswhite"), unit(65535 - DEEP)),
    "tiff float": (tiff(unit(GREY)), unit(GREY)),
    "bigtiff": (tiff(DEEP, bigtiff=True), unit(DEEP)),
}


@pytest.mark.parametrize(("data", "wanted"), FILES.values(), ids=FILES.keys())
def test_lossless_files(data, wanted, tmp_path):
    image = read_image(data)
    assert image.dtype == np.float32
    assert image.shape == wanted.shape
    assert np.abs(image - wanted).max() < 1e-6
    (tmp_path / "named.jpg").write_bytes(data)  # the content tells, not the name
    assert (read_image(tmp_path / "named.jpg") == image).all()


def test_jpeg_is_near():
    smooth = np.add.outer(np.arange(64), np.arange(64)).astype(np.uint8)
    image = read_image(saved(smooth, "JPEG", quality=95))
    assert image.shape == (64, 64)
    assert np.abs(image - unit(smooth)).max() < 0.03
    cmyk = Image.fromarray(np.full((8, 8, 3), 200, np.uint8)).convert("CMYK")
    assert np.abs(read_image(saved(cmyk, "JPEG")) - 200 / 255).max() < 0.03


def test_16_bit_colour_png_keeps_the_upper_8_bits():
    import struct
    import zlib

    def chunk(kind, body):
        check = struct.pack(">I", zlib.crc32(kind + body))
        return struct.pack(">I", len(body)) + kind + body + check

    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in DEEP_COLOR)
    head = struct.pack(">IIBBBBB", 7, 5, 16, 2, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head)
    data += chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    assert np.abs(read_image(data) - unit(DEEP_COLOR)).max() < 1 / 255


@pytest.mark.filterwarnings("ignore:.*transparent pixels")
def test_transparent_files():
    layers = np.dstack([COLOR, GREY])
    assert np.abs(read_image(saved(layers)) - as_image(layers)).max() < 1e-6
    faint = np.dstack([GREY, np.full_like(GREY, 0)])
    image = read_image(saved(Image.fromarray(faint, "LA")))
    assert image.shape == GREY.shape
    assert (image == 1).all()


def palette(colors):
    picture = Image.fromarray(GREY % 4, "P")
    picture.putpalette(colors.astype(np.uint8).ravel().tolist())
    return picture


def test_palettes_are_looked_up_in_images_and_kept_in_masks():
    colors = np.array([[0, 0, 0], [128, 0, 0], [0, 128, 0], [255, 255, 255]])
    data = saved(palette(colors))
    assert np.abs(read_image(data) - colors[GREY % 4] / 255).max() < 1e-6
    assert (read_values(data) == GREY % 4).all()
    greys = np.repeat([[0], [50], [100], [255]], 3, 1)
    image = read_image(saved(palette(greys)))
    assert np.abs(image - greys[GREY % 4, 0] / 255).max() < 1e-6


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF"])
def test_rotation_tags_are_applied_alike_in_all_formats(orientation, kind):
    # Seen upright: dark, bright in the top right corner only.
    upright = np.zeros((16, 32), np.uint8)
    upright[:8, 24:] = 255
    stored = {
        1: upright, 2: upright[:, ::-1], 3: upright[::-1, ::-1], 4: upright[::-1],
        5: upright.T, 6: np.rot90(upright), 7: upright[::-1, ::-1].T, 8: np.rot90(upright, -1),
    }[orientation]  # fmt: skip
    exif = Image.Exif()
    exif[274] = orientation
    image = read_image(saved(np.ascontiguousarray(stored), kind, exif=exif.tobytes()))
    assert image.shape == upright.shape
    assert np.abs(image - upright / 255).max() < 0.05
    deep = tiff(stored.astype(np.uint16) * 257, extratags=[(274, "H", 1, orientation, True)])
    assert (read_image(deep) == upright / 255).all()


def test_masks_keep_their_integers():
    for data in (saved(GREY), saved(GREY, "TIFF"), saved(np.dstack([GREY] * 3))):
        values = read_values(data)
        assert values.dtype == np.uint8
        assert (values == GREY).all()
    assert (read_values(saved(DEEP)) == DEEP).all()
    assert (read_values(tiff(DEEP)) == DEEP).all()
    assert (read_values(saved(Image.fromarray(GREY > 99))) == (GREY > 99)).all()
    opaque = np.dstack([GREY] * 3 + [np.full_like(GREY, 255)])
    assert (read_values(saved(opaque)) == GREY).all()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (saved(GREY, "JPEG"), "a JPEG"),
        (saved(COLOR), "colours"),
        (saved(np.dstack([GREY] * 3 + [GREY])), "transparency"),
        (tiff(unit(GREY)), "type float32"),
    ],
)
def test_masks_that_are_no_integers_are_refused(data, message):
    with pytest.raises(InputError, match=rf"^image: .*{message}.*, but must .*\. [A-Z].*\.$"):
        read_values(data)


def test_examples_of_the_docstrings():
    assert doctest.testmod(read).failed == 0
