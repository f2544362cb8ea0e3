"""Damage to sealed files, drawn at random: what disks, wires, editors and scripts do to them."""

import json
import struct

from cutlearn.store import DIGITS


def flipped(data, rng):
    """One bit is another."""
    changed = bytearray(data)
    changed[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def overwritten(data, rng):
    """A few bytes are others."""
    changed = bytearray(data)
    for place in rng.integers(0, len(data), int(rng.integers(2, 9))):
        changed[place] = int(rng.integers(256))
    return bytes(changed)


def truncated(data, rng):
    """The end is missing."""
    return data[: int(rng.integers(len(data)))]


def extended(data, rng):
    """Something follows, or a piece comes twice."""
    at, size = int(rng.integers(len(data) + 1)), int(rng.integers(1, 200))
    return data[:at] + data[at : at + size] + data[at:]


def zeroed(data, rng):
    """A block was never written."""
    at, size = int(rng.integers(len(data))), int(rng.integers(1, 513))
    return data[:at] + bytes(len(data[at : at + size])) + data[at + size :]


def exchanged(data, rng):
    """Two blocks changed places."""
    size = int(rng.integers(1, 65))
    first, second = sorted(int(k) * size for k in rng.integers(0, max(2, len(data) // size), 2))
    a, b = data[first : first + size], data[second : second + size]
    if first + size > second:
        return data
    return data[:first] + b + data[first + size : second] + a + data[second + size :]


def _parts(data):
    length = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def _joined(head, body):
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + body


def edited(data, rng):
    """A number or word of the text was changed by hand, in a sound file."""
    head, body = _parts(data)
    key = next(k for k in head["__metadata__"] if k != "digest")
    text = head["__metadata__"][key]
    places = [i for i, sign in enumerate(text) if sign.isalnum()]
    at = places[int(rng.integers(len(places)))]
    sign = "0123456789"[int(rng.integers(10))] if text[at].isdigit() else "x"
    head["__metadata__"][key] = text[:at] + sign + text[at + 1 :]
    return _joined(head, body)


def without_seal(data, rng):
    """The digest was taken out, or replaced."""
    head, body = _parts(data)
    ((key, text),) = head["__metadata__"].items()
    other = "" if rng.integers(2) else f"{rng.bytes(32).hex()} "
    head["__metadata__"][key] = other + text[DIGITS + 1 :]
    return _joined(head, body)


def swapped(data, rng):
    """Two tensors of the same type and shape have each other's numbers."""
    head, body = _parts(data)
    names = [name for name in head if name != "__metadata__"]
    rng.shuffle(names)
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            if all(head[a][k] == head[b][k] for k in ("dtype", "shape")):
                head[a], head[b] = head[b], head[a]
                return _joined(head, body)
    return data


def renamed(data, rng):
    """A tensor has another name, type or shape."""
    head, body = _parts(data)
    names = [name for name in head if name != "__metadata__"]
    name = names[int(rng.integers(len(names)))]
    way = int(rng.integers(3))
    if way == 0:
        head[f"{name}x"] = head.pop(name)
    elif way == 1:
        other = {"F64": "I64", "F32": "I32", "I32": "F32", "I64": "F64"}
        head[name]["dtype"] = other.get(head[name]["dtype"], head[name]["dtype"])
    else:
        head[name]["shape"] = [1, *head[name]["shape"]]
    return _joined(head, body)


WAYS = (flipped, flipped, overwritten, truncated, extended, zeroed, exchanged, edited, without_seal,
        swapped, renamed)  # fmt: skip


def mutated(data, rng):
    """A way and what it makes of the bytes."""
    way = WAYS[int(rng.integers(len(WAYS)))]
    return way.__name__, way(data, rng)
