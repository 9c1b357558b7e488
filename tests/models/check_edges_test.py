#!/usr/bin/python3
"""Shows that tools/check_edges is alive: `check_edges_test.py ROOT` takes each edge's name away, at one end, at
the other, in the document, and the check must fail each time; it must pass on the tree as it is."""

import importlib.machinery
import importlib.util
import pathlib
import shutil
import subprocess
import sys
import tempfile


def main():
    root = pathlib.Path(sys.argv[1])
    script = root / "tools/check_edges"
    loader = importlib.machinery.SourceFileLoader("check_edges", str(script))
    check = importlib.util.module_from_spec(importlib.util.spec_from_loader("check_edges", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(check)
    edges = check.listed_edges((root / "docs/memory_model.md").read_text())

    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder)
        for part in (*check.FLOORS, "docs", "tests/models"):
            shutil.copytree(root / part, copy / part)

        def passes():
            return subprocess.run([script, copy], capture_output=True).returncode == 0

        if not passes():
            sys.exit("the tree as it is fails")
        unnoticed = 0
        for edge, (writer, reader, _) in edges.items():
            for place in {writer, reader, "docs/memory_model.md"}:
                path = copy / place
                whole = path.read_text()
                path.write_text(whole.replace(edge, "NOTHING"))
                if passes():
                    print(f"{edge} taken out of {place}: unnoticed")
                    unnoticed += 1
                path.write_text(whole)
    print(f"{len(edges)} edges, {unnoticed} losses unnoticed")
    return 1 if unnoticed or not edges else 0


if __name__ == "__main__":
    sys.exit(main())
