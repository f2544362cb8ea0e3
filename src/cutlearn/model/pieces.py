"""Volumes for training: runs of neighbouring slices that are annotated, each a problem of its own.

In: volumes and their masks. Out: smaller volumes with theirs, and a group for each. A slice without
an annotated pixel stays only if it lies beside one that has any: that one looks at it. Pieces of
one volume are held out together; of a single volume there are blocks of neighbouring slices, which
do not look at each other: what describes a block was learned from the others. A piece is short, so
that its problem fits into memory; the edges between two pieces are not trained on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cutlearn.arrays import VOID, Mask
from cutlearn.errors import InputError
from cutlearn.features.folds import blocks
from cutlearn.images.sample import Volume

# Annotated slices of a piece, at most.
MOST_SLICES = 6
# Neighbouring slices of a block, about: fewer would hardly see each other.
BLOCK = 4


def in_pieces(
    volumes: Sequence[Any], masks: Sequence[Mask], groups: Sequence[Any] | None = None
) -> tuple[list[Any], list[Mask], list[int]]:
    """Give pieces of volumes, their masks and their group numbers.

    Parameters
    ----------
    volumes, masks : n volumes and masks of their shapes, 255 for void
    groups : n hashables, optional
        Volumes of one group are held out together; by default each by itself.

    Examples
    --------
    >>> import numpy as np
    >>> from cutlearn.images import Volume
    >>> mask = np.full((9, 1, 1), 255, np.uint8)
    >>> mask[[1, 7]] = 1
    >>> pieces, truth, groups = in_pieces([Volume(np.zeros((9, 1, 1)))], [mask])
    >>> [y.ravel().tolist() for y in truth], groups
    ([[255, 1, 255], [255, 1, 255]], [0, 1])
    """
    if groups is not None and len(groups) != len(volumes):
        raise InputError(
            f"groups has {len(groups)} entries, but there are {len(volumes)} volumes. Give one for "
            "each volume, in the same order."
        )
    names = list(range(len(volumes)) if groups is None else groups)
    known = [np.flatnonzero((mask != VOID).any(axis=(1, 2))) for mask in masks]
    alone = len({name for name, found in zip(names, known) if len(found)}) == 1
    pieces: list[Volume] = []
    truth: list[Mask] = []
    keys: list[Any] = []
    for name, volume, mask, found in zip(names, volumes, masks, known):
        block_of = volume_blocks(found.tolist()) if alone else dict.fromkeys(found.tolist(), 0)
        for block, run in _runs(block_of):
            beside = [z for z in (run[0] - 1, run[-1] + 1)
                      if 0 <= z < len(mask) and block_of.get(z, block) == block]  # fmt: skip
            first, last = min(run + beside), max(run + beside) + 1
            seen = mask[first:last].copy()
            # The slices beside the run are annotated in other pieces.
            seen[: run[0] - first], seen[run[-1] + 1 - first :] = VOID, VOID
            pieces.append(volume.part(first, last))
            truth.append(seen)
            keys.append((name, block))
    number = {key: k for k, key in enumerate(dict.fromkeys(keys))}
    return pieces, truth, [number[key] for key in keys]


def volume_blocks(found: Sequence[int]) -> dict[int, int]:
    """Give the block of every annotated slice of a volume, for holding out.

    A run of neighbours is one block, a long one several; of a single short one there are two.

    Examples
    --------
    >>> volume_blocks([3, 4, 5, 9])
    {3: 0, 4: 0, 5: 0, 9: 1}
    >>> list(volume_blocks(range(7)).values())
    [0, 0, 0, 0, 1, 1, 1]
    """
    runs: list[list[int]] = []
    for z in found:
        if runs and z == runs[-1][-1] + 1:
            runs[-1].append(z)
        else:
            runs.append([z])
    least = 2 if len(runs) == 1 else 1
    parts = (np.array_split(run, max(least, len(run) // BLOCK)) for run in runs)
    units = [unit.tolist() for made in parts for unit in made if len(unit)]
    return {z: k for unit, k in zip(units, blocks(len(units))) for z in unit}


def _runs(block_of: dict[int, int]) -> list[tuple[int, list[int]]]:
    """Runs of neighbouring slices within a block, with its number; none is long."""
    runs: list[tuple[int, list[int]]] = []
    for z, block in block_of.items():
        last = runs[-1] if runs else None
        if last and last[0] == block and z == last[1][-1] + 1 and len(last[1]) < MOST_SLICES:
            last[1].append(z)
        else:
            runs.append((block, [z]))
    return runs
