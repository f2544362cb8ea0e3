"""Which files of a folder are images, and what is said where there are none."""

import pytest

import cutlearn as cl
from cutlearn.images import listing
from cutlearn.images.listing import listed


@pytest.mark.parametrize("inside", ["images", "images/a.zarr"])
def test_zarr_is_told_how_to_convert(tmp_path, inside):
    place = tmp_path / "images" / "a.zarr" / "0"
    place.mkdir(parents=True)
    (place / "0.0").write_bytes(b"chunk")
    with pytest.raises(cl.InputError, match=r"no image file.*Zarr is not read.*tifffile\.imwrite"):
        listed(tmp_path / inside)


def test_what_masks_add_is_found_once_for_all_of_them(monkeypatch):
    calls = []
    leaf = listing._leaf
    monkeypatch.setattr(listing, "_leaf", lambda name: calls.append(name) or leaf(name))
    images = [f"a{i}" for i in range(200)]
    found = listing.pair(images, [f"{name}_pred" for name in images]).names
    assert len(found) == 200
    assert len(calls) < 100 * len(images)  # not a number of calls per pair
