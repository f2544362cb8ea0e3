"""Small image files that ask for much memory or time."""

import io
import struct
import zlib

import numpy as np
from PIL import Image

PNG = b"\x89PNG\r\n\x1a\n"
DEFLATE, LZW, LZMA = 8, 5, 34925


def zeros(size, level=9):
    """`size` zero bytes, deflated, made piece by piece."""
    maker = zlib.compressobj(level)
    piece = bytes(2**20)
    parts = [maker.compress(piece) for _ in range(size // len(piece))]
    return b"".join(parts) + maker.compress(bytes(size % len(piece))) + maker.flush()


def tiff(body, bits=16, side=8, pieces=1, tile=None, samples=1, compression=DEFLATE, more=(),
         rows=None):  # fmt: skip
    """A TIFF of one page whose strips (or tiles) all are `body`."""
    tags = [
        (256, 4, [side]), (257, 4, [side]), (258, 3, [bits] * samples), (259, 3, [compression]),
        (262, 3, [2 if samples == 3 else 1]), (277, 3, [samples]), *more,
    ]  # fmt: skip
    if tile is None:
        tags += [(278, 4, [rows or max(1, side // pieces)])]
        places, sizes = 273, 279
    else:
        tags += [(322, 4, [tile]), (323, 4, [tile])]
        places, sizes = 324, 325
    count = len(tags) + 2
    values, entries = b"", []
    at = 8 + 2 + 12 * count + 4
    room = at + 8 * pieces + 64 * count
    for tag, kind, numbers in sorted([*tags, (places, 4, [room] * pieces),
                                      (sizes, 4, [len(body)] * pieces)]):  # fmt: skip
        packed = struct.pack(f"<{len(numbers)}{'H' if kind == 3 else 'I'}", *numbers)
        if len(packed) <= 4:
            entries.append(struct.pack("<HHI", tag, kind, len(numbers)) + packed.ljust(4, b"\0"))
        else:
            entries.append(struct.pack("<HHII", tag, kind, len(numbers), at + len(values)))
            values += packed
    head = b"II*\0" + struct.pack("<I", 8) + struct.pack("<H", count) + b"".join(entries)
    return (head + bytes(4) + values).ljust(room, b"\0") + body


def png(*chunks, side=8, bits=8, kind=0):
    """A PNG of these chunks between its head and its end."""
    head = struct.pack(">IIBBBBB", side, side, bits, kind, 0, 0, 0)
    parts = [(b"IHDR", head), *chunks, (b"IEND", b"")]
    return PNG + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in parts
    )


def scans(count, side=4000):
    """A progressive JPEG with the same scan again and again."""
    file = io.BytesIO()
    Image.fromarray(np.zeros((side, side), np.uint8)).save(file, "JPEG", progressive=True)
    data = file.getvalue()
    starts = [i for i in range(len(data)) if data[i : i + 2] == b"\xff\xda"]
    last = data[starts[-1] : -2]
    return data[: starts[-1]] + last * count + data[-2:]


def bombs(size=300 * 2**20):
    """Name -> bytes."""
    many = zeros(size)
    plain = (b"IDAT", zlib.compress(bytes(9 * 8)))
    return {
        "tiff strip": tiff(many),
        "tiff strip of colour": tiff(many, samples=3),
        "tiff strip of floats": tiff(many, bits=32, more=[(339, 3, [3])]),
        "tiff strip of 8 bits": tiff(many, bits=8),
        "tiff tile": tiff(many, tile=16),
        "tiff large tile": tiff(many, tile=16_384),
        "tiff large tile of 8 bits": tiff(many, tile=16_384, bits=8),
        "tiff many strips": tiff(zeros(size // 100), pieces=2000, rows=1),
        "tiff many large strips": tiff(zeros(2**20), side=8, pieces=20_000, rows=1),
        "tiff predicted": tiff(many, more=[(317, 3, [2])]),
        "tiff many samples": tiff(many, samples=60_000),
        "tiff rows": tiff(many, rows=2**32 - 1),
        "png text": png((b"zTXt", b"a\0\0" + many), plain),
        "png texts": png(*[(b"zTXt", b"a\0\0" + zeros(2**20 - 9))] * 200, plain),
        "png international text": png((b"iTXt", b"a\0\1\0\0\0" + many), plain),
        "png profile": png((b"iCCP", b"a\0\0" + many), plain),
        "png pixels": png((b"IDAT", many)),
        "jpeg scans": scans(3000),
    }
