"""A tab of the browser: one image, what was drawn on it, and what the session says.

What a tab holds in memory can be thrown away any time: marks are on the disk before they are
answered, and the rest is computed again.
"""

import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutlearn.app.web.drafts import TAB
from cutlearn.app.web.marks import Corners, Marks, Seeds, marks_of
from cutlearn.app.web.models import Models
from cutlearn.app.web.pictures import belief_planes, packed
from cutlearn.app.web.workspace import Workspace
from cutlearn.errors import InputError
from cutlearn.model.session import Answer, Session

Labels = NDArray[np.uint8]

# The mean doubt of a window, as a part of the largest, from which it is worth a look.
WORTH = 0.02
# Answers that undo can go back to without computing anything: so many, and so many pixels in all.
KEPT, KEPT_PIXELS = 20, 6_000_000
# Of marks that were made before, the last so many are heard one after the other again.
HEARD_AGAIN = 12


class Trail:
    """Which answer of a session belongs to which number of marks, so that undo computes nothing.

    Parameters
    ----------
    session : Session
        With its image; nobody else asks it.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        height, width = session.shape
        self._most = max(2, min(KEPT, KEPT_PIXELS // (height * width)))
        self._positions: list[int] = []  # of the session's answers; -1: of marks that are gone
        self._at = -1

    @property
    def began(self) -> bool:
        """Whether there was an answer."""
        return self._at >= 0

    def answer(self, position: int, box: Corners | None, seeds: Seeds | None) -> Answer:
        """Give the answer to so many marks: one of those beside the last, or a new one."""
        for step, go in ((0, None), (-1, self.session.undo), (1, self.session.redo)):
            at = self._at + step
            if 0 <= at < len(self._positions) and self._positions[at] == position:
                self._at = at
                return self.session.answer if go is None else go()
        # Each answer holds arrays of the image's size: where there are enough, the last one goes.
        if self._at + 1 >= self._most and self.session.can_undo:
            self.session.undo()
            self._at -= 1
        found = self.session.segment(box=box, seeds=seeds)
        self._positions = [*self._positions[: self._at + 1], position]
        self._at += 1
        return found

    def preview(self, box: Corners | None, seeds: Seeds | None) -> Labels:
        """Ask what is not to be kept; what was undone can no longer be redone without computing."""
        labels = self.session.segment(box=box, seeds=seeds).labels
        self._positions = self._positions[: self._at + 1]
        if self.session.can_undo:
            self.session.undo()
        else:  # the first answer of all
            self._positions, self._at = [-1], 0
        return labels

    def forget_after(self, position: int) -> None:
        """Marks after so many are about to be others."""
        kept = self._positions[: self._at + 1]
        self._positions = [one if one <= position else -1 for one in kept]


@dataclass
class Opened:
    """An image that is open in a tab."""

    number: int
    session: Session
    marks: Marks
    made_for: tuple[int, int]
    trail: Trail
    box: Corners | None = None
    answer: Answer | None = None
    labels: Labels | None = None
    told: str = ""
    accepted: bool = False


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
        self._open: Opened | None = None

    def open(self, number: int) -> bytes:
        """Open an image with the marks that are kept of it."""
        with self._lock:
            self._open = self._opened(number)
            return self._packed()

    def mark(self, number: int, found: dict[str, Any]) -> bytes:
        """Add marks, undo, redo or remove all; then answer.

        The page says how many marks it knows of (`position`): where that is not so, as after a lost
        answer, nothing is done and the page is told what is. With `preview` marks are only tried.
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

    def _change(self, one: Opened, found: dict[str, Any]) -> None:
        step = found.get("step", 0)
        if step == "clear":
            one.marks.clear()
        elif step in (-1, 1):
            one.marks.move(step)
        else:
            limits = self.workspace.limits
            n_labels = self.workspace.n_labels
            new = marks_of(found.get("marks"), one.marks.shape, n_labels, limits)
            one.trail.forget_after(one.marks.position)
            one.marks.add(new, limits)

    def beliefs(self, number: int, label: int) -> bytes:
        """Give probability and doubt as planes, the area with its interval, where to look next."""
        with self._lock:
            one = self._current(number)
            if not 0 <= label < self.workspace.n_labels:
                raise InputError("label: there is none of this number.")
            if one.answer is None:
                return packed({"known": False})
            value, interval = one.session.area(label)
            probability, doubt = belief_planes(one.answer.probability, label)
            top, left, bottom, right = window = one.session.where_next()
            open_here = float(doubt[top:bottom, left:right].mean()) > 255 * WORTH
            meta = {
                "known": True, "label": label, "area": value, "interval": list(interval),
                "next": list(window) if open_here else None, "position": one.marks.position,
            }  # fmt: skip
            return packed(meta, probability, doubt)

    def accept(self, number: int) -> dict[str, Any]:
        """Write the mask."""
        with self._lock:
            one = self._current(number)
            if one.labels is None:
                raise InputError("There is no mask yet. Draw a box around the object, or strokes.")
            path = self.workspace.accept(number, one.labels)
            one.accepted = True
            return {"file": path.name, "next": self.models.next_after(number)}

    def _current(self, number: int) -> Opened:
        """The image, opened anew if it was thrown away, or if model or labels are others now."""
        self.workspace.check(number)
        made_for = (self.models.version, self.workspace.n_labels)
        if self._open is None or self._open.number != number or self._open.made_for != made_for:
            self._open = self._opened(number)
        return self._open

    def _opened(self, number: int) -> Opened:
        image = self.workspace.image(number)
        made_for = (self.models.version, self.workspace.n_labels)
        session = self.models.session()
        session.set_image(image)
        shape = image.shape[0], image.shape[1]
        name = self.workspace.names[number]
        marks = self.workspace.drafts.read(name, self.key, shape, self.workspace.n_labels)
        one = Opened(number, session, marks, made_for, Trail(session))
        kept = self.workspace.mask(number)
        path = self.workspace.mask_path(number)
        # What was accepted stays as it was, whatever a newer model says, until somebody draws.
        if (
            kept is not None
            and kept.shape == shape
            and not self.workspace.drafts.since(name, self.key, path)
        ):
            one.labels, one.accepted, one.box = kept, True, marks.box
        else:
            self._segment(one)
        return one

    def _segment(self, one: Opened) -> None:
        """Ask the session; where it needs more marks, that is told instead of a mask."""
        one.answer, one.labels, one.told, one.accepted = None, None, "", False
        position = one.marks.position
        # A session goes on from what it heard: one that is new hears the last marks one by one.
        begin = position if one.trail.began else max(1, position - HEARD_AGAIN)
        for step in range(min(begin, position), position + 1):
            try:
                box, seeds, one.box = self._question(one, one.marks.upto(step))
                one.answer = one.trail.answer(step, box, seeds)
                one.labels, one.told = one.answer.labels, ""
            except InputError as error:
                one.answer, one.labels = None, None
                one.told = str(error).removeprefix("session: ")

    def _question(
        self, one: Opened, marks: Marks
    ) -> tuple[Corners | None, Seeds | None, Corners | None]:
        """What the session is asked, and the box that is shown."""
        seeds = marks.seeds()
        shown = box = marks.grown_box(seeds)
        several = self.workspace.n_labels > 2
        if one.session.model is None and several:
            box = None  # colours alone tell only two labels by a box
        some = bool((seeds >= 0).any())
        if not some and box is None and one.session.model is None:
            raise InputError(
                "Draw a stroke of every label that is in the image." if several
                else "Draw a box around the object, or a stroke in it and one beside it."
            )  # fmt: skip
        return box, seeds if some else None, shown

    def _previewed(self, one: Opened, found: dict[str, Any]) -> bytes:
        """What the mask would be with a stroke that is still being drawn; nothing is kept."""
        limits, n_labels = self.workspace.limits, self.workspace.n_labels
        new = marks_of(found.get("marks"), one.marks.shape, n_labels, limits)
        meta = {"position": one.marks.position, "known": True}
        try:
            box, seeds, _ = self._question(one, one.marks.with_more(new))
            return packed(meta, one.trail.preview(box, seeds))
        except InputError:
            return packed({**meta, "known": False})

    def _packed(self) -> bytes:
        one = self._open
        assert one is not None
        meta = {
            "image": one.number, "name": self.workspace.names[one.number],
            "shape": list(one.marks.shape), "known": one.labels is not None, "told": one.told,
            "accepted": one.accepted, "live": one.answer is not None,
            "undo": one.marks.position > 0, "redo": one.marks.position < len(one.marks.marks),
            "box": one.box, "position": one.marks.position,
            "marks": [mark.to_json() for mark in one.marks.current],
        }  # fmt: skip
        return packed(meta, *([] if one.labels is None else [one.labels]))


class Tabs:
    """The tabs whose image is in memory, the least used of which is thrown away."""

    def __init__(self, workspace: Workspace, models: Models) -> None:
        self.workspace, self.models = workspace, models
        self._tabs: OrderedDict[str, Tab] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._tabs)

    def of(self, key: str) -> Tab:
        """Give the tab of a key."""
        if not TAB.fullmatch(key):
            raise InputError("tab: 32 hexadecimal digits were wanted. Reload the page.")
        with self._lock:
            if key not in self._tabs:
                self._tabs[key] = Tab(key, self.workspace, self.models)
            self._tabs.move_to_end(key)
            while len(self._tabs) > self.workspace.limits.tabs:
                self._tabs.popitem(last=False)
            return self._tabs[key]
