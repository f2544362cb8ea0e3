"""How much a page may ask of the server: bytes, pixels, marks, tabs, requests and seconds."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Bounds of everything that a browser, or whoever pretends to be one, can send or hold.

    Attributes
    ----------
    body_bytes, upload_bytes : int
        Of a request, and of an image that is dropped on the page.
    pixels : int
        Of an image.
    images, tabs : int
        Images that are known, and tabs whose image is kept in memory; an older tab is read from
        the disk again when it comes back.
    marks, points : int
        Marks of an image, and points of one stroke.
    radius : float
        Of a brush, in pixels.
    ink : float
        Pixels around a stroke that are looked at, in units of the image.
    labels : int
        Labels of a mask.
    requests : int
        Requests and connections at once; more are told to come back later.
    head_seconds, body_seconds, send_seconds : float
        How long a client may take to send a request's head, its body, and to take an answer.
    """

    body_bytes: int = 1 << 20
    upload_bytes: int = 64 << 20
    pixels: int = 16_000_000
    images: int = 20_000
    tabs: int = 6
    marks: int = 2_000
    points: int = 4_000
    radius: float = 500.0
    ink: float = 64.0
    labels: int = 10
    requests: int = 100
    head_seconds: float = 10.0
    body_seconds: float = 60.0
    send_seconds: float = 60.0


LIMITS = Limits()
