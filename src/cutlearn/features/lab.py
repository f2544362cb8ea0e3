"""Lab colours by hand: a session starts quicker without scikit-image."""

import numpy as np

from cutlearn.arrays import Floats

# Linear sRGB to XYZ in parts of the white of daylight (D65, 2 degrees).
TO_XYZ = np.array(
    [
        [0.412453, 0.357580, 0.180423],
        [0.212671, 0.715160, 0.072169],
        [0.019334, 0.119193, 0.950227],
    ]
) / np.array([[0.95047], [1.0], [1.08883]])
# Where the cube root gives way to a line, and the line.
KNEE, SLOPE, START = 0.008856, 7.787, 16 / 116


def rgb_to_lab(colors: Floats) -> Floats:
    """Give CIE Lab / 100 of sRGB colours (n, 3) in [0, 1].

    With f(t) = cube root of t (a line near 0): L = 1.16 f(Y) - 0.16, a = 5 (f(X) - f(Y)),
    b = 2 (f(Y) - f(Z)).

    Examples
    --------
    >>> import numpy as np
    >>> from cutlearn.features.lab import rgb_to_lab
    >>> rgb_to_lab(np.array([[1.0, 0.0, 0.0]])).round(3).tolist()
    [[0.532, 0.801, 0.672]]
    """
    linear = np.where(colors > 0.04045, ((colors + 0.055) / 1.055) ** 2.4, colors / 12.92)
    xyz = linear @ TO_XYZ.T
    f = np.where(xyz > KNEE, np.cbrt(xyz), SLOPE * xyz + START)
    return np.stack(
        [1.16 * f[:, 1] - 0.16, 5 * (f[:, 0] - f[:, 1]), 2 * (f[:, 1] - f[:, 2])], axis=1
    )
