"""Energies of photographs and micrographs, made as somebody would who segments from strokes.

The images come from a folder of data sets (images/, masks/ and perhaps strokes/ each), which is
not part of this package. Unaries are the log-odds of histograms of colour or grey under strokes of
object and ground, strokes themselves are seeds, and weights fall with contrast. No number is
rounded: all their bits are needed.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from instances import Instance, contrast
from scipy.ndimage import distance_transform_edt, gaussian_filter
from skimage.io import imread

SEED = 50.0
ROUGHLY = 1 / 3  # of what counts would say: neighbouring pixels are not independent


@dataclass(frozen=True)
class Picture:
    """One image of a data set; strokes: a folder of them (1 object, 2 ground), else drawn here."""

    data_set: str
    image: str
    connectivity: int = 4
    strokes: str = ""
    strength: float = 2.0
    blur: float = 0.0  # of what the histograms see

    def instance(self, data):
        folder = Path(data) / self.data_set
        (file,) = (folder / "images").glob(self.image + ".*")
        image = imread(file) / 255.0
        image = image if image.ndim == 3 else image[..., None]
        if self.strokes:
            strokes = imread(folder / self.strokes / f"{self.image}.png")
        else:
            strokes = drawn(imread(folder / "masks" / f"{self.image}.png"))
        unary = ROUGHLY * histogram_odds(image, strokes, self.blur)
        unary = np.where(strokes == 1, -SEED, np.where(strokes == 2, SEED, unary))
        weights = contrast(np.moveaxis(image, -1, 0), self.connectivity, self.strength)
        return Instance(unary, weights, self.connectivity)


def drawn(mask):
    """Strokes along every 32nd row, a few pixels inside what they are on."""
    strokes = np.zeros(mask.shape, np.uint8)
    for code, region in ((1, mask == 1), (2, mask == 0)):
        inside = distance_transform_edt(region) > 4
        strokes[16::32][inside[16::32]] = code
    return strokes


def histogram_odds(image, strokes, blur):
    """Cost of object less that of ground under smoothed histograms of what the strokes cover."""
    bins = 12 if image.shape[2] == 3 else 64
    seen = gaussian_filter(image, (blur, blur, 0)) if blur else image
    at = tuple(np.minimum((seen * bins).astype(int), bins - 1).transpose(2, 0, 1))
    odds = np.zeros(image.shape[:2])
    for code, sign in ((1, -1.0), (2, 1.0)):
        counts = np.zeros((bins,) * image.shape[2])
        np.add.at(counts, tuple(a[strokes == code] for a in at), 1.0)
        density = gaussian_filter(counts / counts.sum(), 1.0, mode="nearest") + 1e-5
        odds += sign * np.log(density)[at]
    return odds


PICTURES = {
    "grabcut-1-real": Picture("grabcut", "124080", 4, "strokes_set1"),
    "grabcut-2-real": Picture("grabcut", "153077", 8, "strokes_set2", strength=1.0),
    "thin-real": Picture("coopcut16", "001_oct", 4, "strokes"),
    "street-real": Picture("penn_fudan", "FudanPed00001", 8, strength=1.0),
    "nuclei-real": Picture("nuclei", "gowt1_01", 4, strength=1.0),
    "mitochondria-1-real": Picture("em_epfl_ca1", "training0000", 4, blur=2.0),
    "mitochondria-2-real": Picture("em_drosophila_vnc", "slice00", 8, blur=2.0, strength=1.0),
    "membranes-real": Picture("em_isbi2012", "slice00", 4, blur=1.0),
}
