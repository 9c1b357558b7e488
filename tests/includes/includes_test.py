"""Includes go one way: base <- transports <- collectives <- engine <- tools.

    includes_test.py ROOT

Each folder may include itself and the folders below it; public headers include only public headers; examples see
only these and their own files.
"""

import pathlib
import re
import sys
import tempfile
import unittest

FLOORS = ("base", "transports", "collectives", "engine", "tools")
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.MULTILINE)


def sources(folder):
    for pattern in ("*.h", "*.hpp", "*.cc", "*.cpp", "*.c", "*.inc", "*.def"):
        yield from sorted(folder.rglob(pattern))


def forbidden_in(folder_name):
    """First parts of include paths that files of the folder may not have."""
    if folder_name in ("include", "examples"):
        return set(FLOORS) | {"bench", "tests"}
    return set(FLOORS[FLOORS.index(folder_name) + 1 :]) | {"bench", "tests", "examples"}


def violations(root):
    found = []
    for name in ("include", "examples", *FLOORS):
        forbidden = forbidden_in(name)
        for path in sources(root / name):
            for include in INCLUDE.findall(path.read_text(errors="replace")):
                if include.split("/")[0] in forbidden:
                    found.append(f"{path.relative_to(root)} includes {include}")
    return found


class Includes(unittest.TestCase):
    root = None

    def test_an_upward_include_is_found(self):
        for folder, include in (("base", "transports/channel.h"), ("transports/shm", "engine/x.h"),
                                ("engine", "tools/x.h"), ("include/slipring", "base/status.h"),
                                ("examples/a", "engine/x.h")):
            with self.subTest(folder=folder), tempfile.TemporaryDirectory() as name:
                tree = pathlib.Path(name) / folder
                tree.mkdir(parents=True)
                (tree / "wrong.h").write_text(f'#pragma once\n#  include "{include}"\n')
                self.assertEqual(len(violations(pathlib.Path(name))), 1)

    def test_a_downward_include_is_allowed(self):
        with tempfile.TemporaryDirectory() as name:
            tree = pathlib.Path(name) / "engine"
            tree.mkdir()
            (tree / "right.cc").write_text('#include "base/status.h"\n#include <slipring/status.h>\n')
            self.assertEqual(violations(pathlib.Path(name)), [])

    def test_every_floor_has_sources(self):
        for floor in FLOORS:
            self.assertTrue(list(sources(self.root / floor)), floor)

    def test_the_tree_has_no_upward_include(self):
        self.assertEqual(violations(self.root), [])


if __name__ == "__main__":
    Includes.root = pathlib.Path(sys.argv.pop())
    unittest.main()
