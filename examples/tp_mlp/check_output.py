"""Compares results of tp_mlp with numpy, which computes in double precision.

    check_output.py FOLDER RESULT.npy...

Every element must be within 1e-4 of the reference, relative to the element. Elements that happen to lie near zero are
sums of large terms that cancel; for them 1e-5 of the results' root mean square is allowed instead. Exit status 1 and a
line per result that differs.
"""

import pathlib
import sys

import numpy as np

RELATIVE = 1e-4
NEAR_ZERO = 1e-5  # of the root mean square


def gelu(v):
    return 0.5 * v * (1 + np.tanh(np.sqrt(2 / np.pi) * (v + 0.044715 * v**3)))


def reference(folder):
    x = np.load(folder / "activations.npy").astype(np.float64)
    for up in sorted(folder.glob("block_*_up.npy")):
        down = up.with_name(up.name.replace("_up", "_down"))
        x = gelu(x @ np.load(up).astype(np.float64).T) @ np.load(down).astype(np.float64).T
    return x


def differs(path, expected):
    found = np.load(path)
    if found.shape != expected.shape or found.dtype != np.float32:
        return f"is {found.dtype}{found.shape}, not float32{expected.shape}"
    rms = np.sqrt(np.mean(expected**2))
    error = np.abs(found - expected)
    wrong = ~(error <= RELATIVE * np.abs(expected) + NEAR_ZERO * rms)
    print(f"check: {path.name}: largest error {error.max() / rms:.1e} of the root mean square, wrong {wrong.sum()}"
          f" of {wrong.size}")
    if wrong.any():
        at = tuple(np.argwhere(wrong)[0])
        return f"element {at} is {found[at]}, not {expected[at]}"
    return None


def main(folder, *results):
    expected = reference(pathlib.Path(folder))
    bad = 0
    for path in map(pathlib.Path, results):
        problem = differs(path, expected)
        if problem:
            print(f"check: {path}: {problem}", file=sys.stderr)
            bad = 1
    return bad


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
