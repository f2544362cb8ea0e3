"""What is checked of an image file before it is decoded: pixels, pages, and what hides in it.

A few kilobytes can promise gigabytes, or give them without a promise: a deflated strip may inflate
to a thousand times its length whatever the header says, and every further scan of a progressive
JPEG costs as much as all of its pixels.
"""

import re
import zlib
from typing import Any

from cutlearn.errors import InputError

# Cameras and editors write about ten scans; a hundred is beyond every optimiser.
MOST_SCANS = 100
# Pixels of a tile that every image may have, however small it is.
LARGE_TILE = 2**22
PIECE = 2**20
# A marker of a JPEG: no stuffed zero, no restart within a scan, no filling.
MARKER = re.compile(rb"\xff([^\x00\x01\xd0-\xd8\xff])")
END_OF_IMAGE, START_OF_SCAN = 0xD9, 0xDA


def check_size(name: str, height: int, width: int, max_pixels: int) -> None:
    """Refuse too many pixels."""
    if height * width > max_pixels:
        raise too_many(
            name, f"the image has {width} x {height} pixels (width x height)", max_pixels
        )


def too_many(name: str, found: str, max_pixels: int) -> InputError:
    """Give the refusal of too many pixels."""
    return InputError(
        f"{name}: {found}, but at most {max_pixels} pixels are allowed. "
        "Make the image smaller or cut it into tiles, or raise max_pixels."
    )


def check_pages(name: str, pages: int) -> None:
    """Refuse a file of several images."""
    if pages != 1:
        raise InputError(
            f"{name}: the file has {pages} pages, but must have one. Save each slice as its own "
            "file."
        )


def check_tiles(name: str, page: Any, max_pixels: int) -> None:
    """Refuse a TIFF whose image is too large, or whose tiles are far larger than its image."""
    area = page.imagelength * page.imagewidth
    check_size(name, page.imagelength, page.imagewidth, max_pixels)
    check_size(name, page.tilelength, page.tilewidth, min(max_pixels, max(LARGE_TILE, 4 * area)))


def check_inflated(name: str, data: bytes, page: Any) -> None:
    """Refuse a deflated TIFF whose parts hold more than its header says; nothing is kept of them.

    The decoder inflates a part as a whole before it looks how much of it is wanted.
    """
    high, wide = page.tilelength or page.imagelength, page.tilewidth or page.imagewidth
    pixels = -(-page.imagelength // high) * high * -(-page.imagewidth // wide) * wide
    # Twice, since writers may fill up the last strip.
    most = 2 * pixels * page.samplesperpixel * page.bitspersample // 8 + PIECE
    total = 0
    for start, count in zip(page.dataoffsets, page.databytecounts):
        inflater, end = zlib.decompressobj(), min(start + count, len(data))
        for at in range(start, end, PIECE):
            part = data[at : min(at + PIECE, end)]
            while part and not inflater.eof:
                total += len(inflater.decompress(part, PIECE))
                part = inflater.unconsumed_tail
                if total > most:
                    raise InputError(
                        f"{name}: the header says {page.imagewidth} x {page.imagelength} pixels, "
                        "but more are compressed in the file. Open it in an image viewer, and "
                        "export it again."
                    )


def check_scans(name: str, data: bytes) -> None:
    """Refuse a JPEG of very many scans."""
    scans, at = 0, 2
    while (found := MARKER.search(data, at)) is not None:
        if found[1][0] == END_OF_IMAGE:
            break
        scans += found[1][0] == START_OF_SCAN
        at = found.end() + int.from_bytes(data[found.end() : found.end() + 2], "big")
    if scans > MOST_SCANS:
        raise InputError(
            f"{name}: the JPEG has {scans} scans, but at most {MOST_SCANS} are allowed. "
            "Export it again, not progressive, or as PNG."
        )
