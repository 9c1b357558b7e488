"""Writes the input of tp_mlp: activations.npy and the weights of several blocks, drawn from a fixed seed.

    make_input.py FOLDER [--blocks 4] [--tokens 64] [--width 4096] [--hidden 8192] [--seed 1]
"""

import argparse
import pathlib

import numpy as np

# Mean square of gelu(v) for v drawn from the standard normal distribution; dividing by it keeps the activations'
# size the same from block to block.
GELU_MEAN_SQUARE = 0.425


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--hidden", type=int, default=8192)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    args.folder.mkdir(parents=True, exist_ok=True)
    for old in args.folder.glob("block_*.npy"):
        old.unlink()
    generator = np.random.default_rng(args.seed)

    def normal(rows, columns, variance):
        return generator.standard_normal((rows, columns), dtype=np.float32) * np.float32(variance**0.5)

    np.save(args.folder / "activations.npy", normal(args.tokens, args.width, 1))
    for block in range(args.blocks):
        stem = args.folder / f"block_{block:02}"
        np.save(f"{stem}_up.npy", normal(args.hidden, args.width, 1 / args.width))
        np.save(f"{stem}_down.npy", normal(args.width, args.hidden, 1 / (args.hidden * GELU_MEAN_SQUARE)))


if __name__ == "__main__":
    main()
