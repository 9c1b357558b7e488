"""What the documents show works.

documents_test.py ROOT BUILD COMPILER LIBSLIPRING.so

A fence ```sh test is run line by line, ```sh test fails must fail, ```cpp test is compiled against the library and run on
two ranks. Commands run in a folder that looks like the root, with BUILD as build/release. Relative links must lead to
files, and figures stand only between the marks of the scripts that write them.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = BUILD = COMPILER = LIBRARY = None
FENCE = re.compile(r"^```(\w+ test[\w ]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ANY_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")


def documents():
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "*.md"], text=True, capture_output=True)
    names = listed.stdout.split() or [str(path.relative_to(ROOT)) for path in ROOT.rglob("*.md") if "build" not in path.parts]
    return [ROOT / name for name in names if (ROOT / name).exists()]


def fences(kind):
    for path in documents():
        for found, body in FENCE.findall(path.read_text()):
            if found == kind:
                yield path.relative_to(ROOT), body


def environment():
    clean = {k: v for k, v in os.environ.items() if not k.startswith("SLIPRING_")}
    return clean | {"LD_LIBRARY_PATH": str(LIBRARY.parent)}


class Documents(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for entry in ROOT.iterdir():
            if entry.name != "build":
                (self.folder / entry.name).symlink_to(entry)
        (self.folder / "build").mkdir()
        (self.folder / "build/release").symlink_to(BUILD)

    def run_line(self, line):
        return subprocess.run(["bash", "-euo", "pipefail", "-c", line], cwd=self.folder, env=environment(), text=True,
                              capture_output=True, timeout=120, stdin=subprocess.DEVNULL)

    def test_commands_run(self):
        lines = [(path, line) for path, body in fences("sh test") for line in body.splitlines() if line.strip()]
        self.assertGreater(len(lines), 5)
        for path, line in lines:
            with self.subTest(document=str(path), command=line):
                done = self.run_line(line)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_commands_that_are_to_fail_fail(self):
        lines = [(path, line) for path, body in fences("sh test fails") for line in body.splitlines() if line.strip()]
        self.assertTrue(lines)
        for path, line in lines:
            with self.subTest(document=str(path), command=line):
                done = self.run_line(line)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("rank 1", done.stderr)

    def test_programs_compile_and_run(self):
        programs = list(fences("cpp test"))
        self.assertTrue(programs)
        for path, body in programs:
            with self.subTest(document=str(path)):
                (self.folder / "program.cc").write_text(body)
                subprocess.run([COMPILER, "-std=c++20", "-Wall", "-Wextra", "-Werror", "-I", ROOT / "include", "program.cc",
                                "-o", "program", "-L", LIBRARY.parent, "-lslipring"], cwd=self.folder, check=True)
                done = self.run_line("build/release/tools/slipring-run -n 2 ./program")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("ranks 2, sum 3", done.stdout)
                self.assertIn("received 42", done.stdout)

    def test_links_lead_somewhere(self):
        for path in documents():
            for target in LINK.findall(ANY_FENCE.sub("", path.read_text())):
                if "://" not in target:
                    with self.subTest(document=str(path.relative_to(ROOT)), link=target):
                        self.assertTrue((path.parent / target).exists())

    def test_every_folder_says_what_lives_there(self):
        for folder in ("base", "transports", "collectives", "engine", "tools", "bench", "tests", "examples", "docs"):
            with self.subTest(folder=folder):
                self.assertTrue((ROOT / folder / "README.md").exists())


if __name__ == "__main__":
    ROOT, BUILD, COMPILER, LIBRARY = (pathlib.Path(path) for path in sys.argv[1:5])
    del sys.argv[1:]
    unittest.main()
