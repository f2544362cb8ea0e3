"""A tab of the browser: one image, its marks, and the answer of the session.

What a tab holds in memory can be dropped at any time: marks are on the disk before they are
answered, and the rest is computed again. So the answer to some marks depends on these alone: not
on previews, on undo and redo, on which marks came in one request, or on a reload.
"""

import gzip
import json
import math
import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from cutlearn.app.web.marks import TAB, Corners, Marks, Seeds, marks_of
from cutlearn.app.web.models import Models
from cutlearn.app.web.workspace import Workspace, byte_values
from cutlearn.arrays import Image, Mask
from cutlearn.errors import InputError
from cutlearn.metrics import entropy
from cutlearn.model.session.session import Answer, Session

# The mean doubt of a window, as a part of the largest, from which it is worth a look.
WORTH = 0.02
# Answers that are kept: of a small image so many with masks and probabilities, which undo returns
# without computing anything; of a large one fewer, and some only to compute others from.
KEPT, KEPT_PIXELS, FEWEST = 20, 6_000_000, 6


class AnswerHistory:
    """The answers to marks: each is computed from the answer to one mark fewer.

    Parameters
    ----------
    session : Session
        With its image.
    n_labels : int
    """

    def __init__(self, session: Session, n_labels: int) -> None:
        self.session, self.n_labels = session, n_labels
        height, width = session.shape
        self._whole = KEPT_PIXELS // (height * width)
        self._most = max(FEWEST, min(KEPT, self._whole))
        self._answers: dict[int, Answer] = {}  # by the number of marks

    def answer(self, marks: Marks, last: int | None = None) -> Answer:
        """Return the answer to marks; where there are too few, an InputError says what to draw.

        Parameters
        ----------
        marks : Marks
        last : int, optional
            The answer to so many of the marks is the last that is kept: further ones are only
            tried. [default: all]
        """
        last = marks.position if last is None else last
        begin = max((at for at in self._answers if at <= last), default=None)
        before = None if begin is None else self._answers[begin]
        if begin == marks.position and before is not None:
            return before
        for some in marks.steps(begin or 0):
            try:
                before = self.session.after(before, *self._question(some))
            except InputError:
                if some is marks:
                    raise
            else:
                if some.position <= last:
                    self._answers[some.position] = before
        assert before is not None
        self._forget_far_from(last)
        return before

    def _forget_far_from(self, last: int) -> None:
        """Drop answers such that the gaps between those left grow with the distance from one.

        However far undo goes back, it then computes few answers again.
        """
        while len(self._answers) > self._most:
            places = sorted(self._answers)
            threes = zip(places, places[1:], places[2:])
            inner = (three for three in threes if three[1] != last)
            three = min(inner, key=lambda three: (three[2] - three[0]) / (1 + abs(three[1] - last)))
            del self._answers[three[1]]
        for at, answer in self._answers.items():
            if abs(at - last) > self._whole:
                answer.release()

    def _question(self, marks: Marks) -> tuple[Corners | None, Seeds | None]:
        """Return the box and the seeds for the session."""
        seeds, colors = marks.seeds(), self.session.model is None
        box = marks.grown_box(seeds)
        if colors and self.n_labels > 2:
            box = None  # colours alone separate only two labels by a box
        if (seeds >= 0).any():
            return box, seeds
        if box is None and colors:
            raise InputError(
                "Draw a stroke of every label that is in the image." if self.n_labels > 2
                else "Draw a box around the object, or a stroke inside it and one outside."
            )  # fmt: skip
        return box, None

    def forget_after(self, position: int) -> None:
        """Drop the answers to more marks, because these are about to change."""
        self._answers = {at: one for at, one in self._answers.items() if at <= position}


@dataclass
class MarkedImage:
    """An image that is open in a tab."""

    number: int
    marks: Marks
    made_for: tuple[int, int]
    history: AnswerHistory
    answer: Answer | None = None
    labels: Mask | None = None
    told: str = ""
    accepted: bool = False

    @property
    def about(self) -> dict[str, Any]:
        """The image of an answer, the number of its marks, the model and its labels."""
        version, n_labels = self.made_for
        made = f"{version}.{n_labels}"
        return {"image": self.number, "position": self.marks.position, "made": made}


class Tab:
    """One tab; its methods may be called from any thread, one at a time.

    Parameters
    ----------
    key : str
        32 hexadecimal digits.
    workspace : Workspace
    models : Models
    """

    def __init__(self, key: str, workspace: Workspace, models: Models) -> None:
        self.key, self.workspace, self.models = key, workspace, models
        self._lock = threading.Lock()
        self._disk = ThreadPoolExecutor(1)
        self._open: MarkedImage | None = None

    def open(self, number: int) -> bytes:
        """Open an image with the marks of its draft."""
        with self._lock:
            self._open = self._opened(number)
            return self._packed()

    def mark(self, number: int, found: dict[str, Any]) -> bytes:
        """Add marks, undo, redo or remove all; then answer.

        The page sends the number of its marks (`position`): where that differs, as after a lost
        answer, nothing changes and the answer shows the state. With `preview` marks are only tried.
        """
        with self._lock:
            one = self._current(number)
            if found.get("preview") is True:
                return self._previewed(one, found)
            if found.get("position") == one.marks.position:
                self._change(one, found)
                name = self.workspace.names[number]
                # The disk and the cut work side by side; the answer waits for both.
                saved = self._disk.submit(self.workspace.drafts.write, name, self.key, one.marks)
                self._segment(one)
                saved.result()
            return self._packed()

    def _change(self, one: MarkedImage, found: dict[str, Any]) -> None:
        step = found.get("step", 0)
        if step == "clear":
            one.marks.clear()
        elif step in (-1, 1):
            one.marks.move(step)
        else:
            limits = self.workspace.limits
            n_labels = self.workspace.n_labels
            new = marks_of(found.get("marks"), one.marks.shape, n_labels, limits)
            one.history.forget_after(one.marks.position)
            one.marks.add(new, limits)

    def beliefs(self, number: int, label: int) -> bytes:
        """Return probability and entropy as planes, the area with its interval, the next window."""
        with self._lock:
            one = self._current(number)
            if not 0 <= label < self.workspace.n_labels:
                raise InputError("label: there is none of this number.")
            if one.answer is None:
                return packed({"known": False})
            value, interval = one.answer.area(label)
            probability, doubt = belief_planes(one.answer.probability, label)
            top, left, bottom, right = window = one.answer.where_next()
            open_here = float(doubt[top:bottom, left:right].mean()) > 255 * WORTH
            meta = {
                **one.about, "known": True, "label": label, "area": value,
                "interval": None if math.isnan(interval[0]) else list(interval),
                "next": list(window) if open_here else None,
            }  # fmt: skip
            return packed(meta, probability, doubt)

    def accept(self, number: int, shown: dict[str, Any]) -> dict[str, Any]:
        """Write the mask; `shown` holds the marks and model of the mask that the page shows."""
        with self._lock:
            one = self._current(number)
            if any(
                shown[name] != one.about[name] for name in ("position", "made") if name in shown
            ):
                raise InputError(
                    "The mask is another one since it was shown. Look at it, then accept it again."
                )
            if one.labels is None:
                raise InputError("There is no mask yet. Draw a box around the object, or strokes.")
            path = self.workspace.accept(number, one.labels)
            one.accepted = True
            return {"file": path.name, "next": self.models.next_after(number)}

    def _current(self, number: int) -> MarkedImage:
        """Return the image, opened again if it was dropped, or if model or labels have changed."""
        self.workspace.check(number)
        made_for = (self.models.version, self.workspace.n_labels)
        if self._open is None or self._open.number != number or self._open.made_for != made_for:
            self._open = self._opened(number)
        return self._open

    def _opened(self, number: int) -> MarkedImage:
        image = self.workspace.image(number)
        made_for = (self.models.version, self.workspace.n_labels)
        session = self.models.session()
        session.set_image(image)
        shape = image.shape[0], image.shape[1]
        name = self.workspace.names[number]
        marks = self.workspace.drafts.read(name, self.key, shape, self.workspace.n_labels)
        one = MarkedImage(number, marks, made_for, AnswerHistory(session, self.workspace.n_labels))
        kept = self.workspace.mask(number)
        path = self.workspace.mask_path(number)
        # An accepted mask stays until the user draws, whatever a newer model predicts.
        if (
            kept is not None
            and kept.shape == shape
            and not self.workspace.drafts.since(name, self.key, path)
        ):
            one.labels, one.accepted = kept, True
        else:
            self._segment(one)
        return one

    def _segment(self, one: MarkedImage) -> None:
        """Compute the answer; where it needs more marks, show that instead of a mask."""
        one.answer, one.labels, one.told, one.accepted = None, None, "", False
        try:
            answer = one.history.answer(one.marks)
            one.labels, one.answer = answer.labels, answer
        except InputError as error:
            one.told = str(error).removeprefix("session: ")

    def _previewed(self, one: MarkedImage, found: dict[str, Any]) -> bytes:
        """Return the answer with a stroke that is still being drawn; nothing is kept."""
        limits, n_labels = self.workspace.limits, self.workspace.n_labels
        new = marks_of(found.get("marks"), one.marks.shape, n_labels, limits)
        meta = {**one.about, "known": True}
        try:
            answer = one.history.answer(one.marks.with_more(new), one.marks.position)
            return packed(meta, answer.labels)
        except InputError:
            return packed({**meta, "known": False})

    def _packed(self) -> bytes:
        one = self._open
        assert one is not None
        meta = {
            **one.about, "name": self.workspace.names[one.number],
            "shape": list(one.marks.shape), "known": one.labels is not None, "told": one.told,
            "accepted": one.accepted, "live": one.answer is not None,
            "undo": one.marks.position > 0, "redo": one.marks.position < len(one.marks.marks),
            "box": one.marks.grown_box(one.marks.seeds()),
            "marks": [mark.to_json() for mark in one.marks.current],
        }  # fmt: skip
        return packed(meta, *([] if one.labels is None else [one.labels]))


class Tabs:
    """The tabs whose image is in memory; the least used ones are dropped."""

    def __init__(self, workspace: Workspace, models: Models) -> None:
        self.workspace, self.models = workspace, models
        self._tabs: OrderedDict[str, Tab] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._tabs)

    def of(self, key: str) -> Tab:
        """Return the tab of a key."""
        if not TAB.fullmatch(key):
            raise InputError("tab: 32 hexadecimal digits were wanted. Reload the page.")
        with self._lock:
            if key not in self._tabs:
                self._tabs[key] = Tab(key, self.workspace, self.models)
            self._tabs.move_to_end(key)
            while len(self._tabs) > self.workspace.limits.tabs:
                self._tabs.popitem(last=False)
            return self._tabs[key]


def belief_planes(q: Image, label: int) -> list[Mask]:
    """Return the probability of a label and the doubt, both as 0 to 255.

    The doubt is the entropy of all labels in units of its largest value, log2 L bits.
    """
    doubt = entropy(q) / np.log2(q.shape[-1])
    return [byte_values(q[..., label]), byte_values(doubt)]


def packed(meta: dict[str, Any], *planes: Mask) -> bytes:
    """Return values and planes as one answer: length of the JSON (4 bytes), JSON, planes; gzipped.

    Planes of labels are long runs of few values, which the quickest compression makes tiny.
    """
    said = json.dumps(meta).encode()
    parts = [len(said).to_bytes(4, "little"), said, *(np.ascontiguousarray(p) for p in planes)]
    return gzip.compress(b"".join(bytes(part) for part in parts), 1, mtime=0)
