"""tp_mlp against numpy, at sizes that divide by nothing, and with input that is wrong.

tp_mlp_test.py EXAMPLE_FOLDER TP_MLP SLIPRING_RUN
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

EXAMPLE = MLP = RUN = None


def call(*words):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SLIPRING_")}
    return subprocess.run([str(word) for word in words], env=environment, text=True, capture_output=True, timeout=120,
                          stdin=subprocess.DEVNULL)


class TensorParallelMlp(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.input = self.folder / "input"

    def make(self, *options):
        done = call(sys.executable, EXAMPLE / "make_input.py", self.input, *options)
        self.assertEqual(done.returncode, 0, done.stderr)

    def mlp(self, ranks, *options):
        output = self.folder / f"{ranks}.npy"
        return call(RUN, "-n", ranks, MLP, "--input", self.input, "--output", output, "--passes", 2, *options), output

    def check(self, *outputs):
        return call(sys.executable, EXAMPLE / "check_output.py", self.input, *outputs)

    def test_agrees_with_numpy_on_any_number_of_ranks(self):
        for shape in (["--blocks", 3, "--tokens", 5, "--width", 37, "--hidden", 101],
                      ["--blocks", 1, "--tokens", 1, "--width", 1, "--hidden", 3],
                      ["--blocks", 2, "--tokens", 64, "--width", 512, "--hidden", 1000]):
            self.make(*shape)
            for ranks in (1, 2, 3, 4, 7):
                with self.subTest(shape=shape, ranks=ranks):
                    done, output = self.mlp(ranks)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertIn(f"ranks {ranks}", done.stdout)
                    self.assertIn("all_reduce of", done.stdout)
                    checked = self.check(output)
                    self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)

    def test_the_check_notices_one_wrong_element(self):
        self.make("--blocks", 1, "--tokens", 4, "--width", 16, "--hidden", 32)
        _, output = self.mlp(2)
        result = np.load(output)
        result[3, 7] += np.sqrt(np.mean(result**2)) / 1000
        np.save(output, result)
        checked = self.check(output)
        self.assertEqual(checked.returncode, 1)
        self.assertIn("element (", checked.stderr)

    def test_wrong_input_is_named_and_no_rank_hangs(self):
        self.make("--blocks", 2, "--tokens", 4, "--width", 16, "--hidden", 32)
        weights = self.input / "block_01_down.npy"
        good = weights.read_bytes()
        for problem, content in (("takes 31 inputs", None), ("not a .npy file", b"x" * 100), ("does not fit", good[:-4])):
            if content is None:
                np.save(weights, np.zeros((16, 31), dtype=np.float32))
            else:
                weights.write_bytes(content)
            with self.subTest(problem=problem):
                done, output = self.mlp(2)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("block_01_down.npy", done.stderr)
                self.assertIn(problem, done.stderr)
                self.assertFalse(output.exists())

    def test_a_result_that_cannot_be_written_fails_the_job(self):
        self.make("--blocks", 1, "--tokens", 4, "--width", 16, "--hidden", 32)
        done = call(RUN, "-n", 2, MLP, "--input", self.input, "--output", self.folder / "no/such/y.npy")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("cannot be written", done.stderr)


if __name__ == "__main__":
    EXAMPLE, MLP, RUN = (pathlib.Path(path).resolve() for path in sys.argv[1:4])
    del sys.argv[1:]
    unittest.main()
