"""Array types by their element, and the label of pixels that nobody has labelled."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

AnyArray = NDArray[Any]
Floats = NDArray[np.float64]
Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Image = NDArray[np.float32]
Float32 = NDArray[np.float32]
Mask = NDArray[np.uint8]
Bits = NDArray[np.bool_]
Indices = NDArray[np.int64]
Shape = tuple[int, ...]

VOID = 255
