"""Adds up ctest's result files, prints every skip with its reason, and closes with one line of counts.

    test_summary.py EXPECTED_SKIPS RESULTS.xml...

A result file is named after its preset. A GoogleTest program counts as its test cases, any other test as one. Exit
status 1 when a test failed, when no test ran, or when the skips are not those that EXPECTED_SKIPS lists.
"""

import os
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree


def one_cpu():
    return len(os.sched_getaffinity(0)) < 2


def not_root():
    return os.geteuid() != 0


# Conditions that a line of EXPECTED_SKIPS can name, probed here and not by the tests.
CONDITIONS = {"always": lambda: True, "one_cpu": one_cpu, "not_root": not_root}

GTEST_COUNT = re.compile(r"^\[  (PASSED|FAILED|SKIPPED) ?\] (\d+) tests?[,.]", re.MULTILINE)
GTEST_SKIP = re.compile(r"^(?P<reason>(?:(?!\[).*\n)*)\[  SKIPPED \] (?P<name>\S+) \(\d+ ms\)", re.MULTILINE)


class Tally:
    def __init__(self):
        self.passed = self.failed = 0
        self.skips = {}  # (preset, name) -> reason

    def add_program(self, preset, case):
        """`case` is one ctest entry."""
        name, status = case.get("name"), case.get("status")
        output = case.findtext("system-out") or ""
        counts = dict.fromkeys(("PASSED", "FAILED", "SKIPPED"), 0)
        for what, count in GTEST_COUNT.findall(output):
            counts[what] = int(count)
        for skip in GTEST_SKIP.finditer(output):
            self.skips[preset, skip["name"]] = " ".join(skip["reason"].split()[-40:]) or "no reason given"
        if status in ("notrun", "disabled"):
            reason = case.find("skipped")
            self.skips[preset, name] = reason.get("message") if reason is not None else "not run"
        elif status != "run":
            self.passed += counts["PASSED"]
            self.failed += max(1, counts["FAILED"])
        else:
            self.passed += counts["PASSED"] if any(counts.values()) else 1


def expected_skips(path, presets):
    expected = set()
    for line in pathlib.Path(path).read_text().splitlines():
        fields = line.split("#")[0].split()
        if not fields:
            continue
        preset, name, condition = fields
        if condition not in CONDITIONS:
            sys.exit(f"test: {path} names the unknown condition {condition}")
        if preset in presets and CONDITIONS[condition]():
            expected.add((preset, name))
    return expected


def main(expected_path, *result_paths):
    tally = Tally()
    presets = [pathlib.Path(path).stem for path in result_paths]
    for preset, path in zip(presets, result_paths):
        for case in ElementTree.parse(path).getroot().iter("testcase"):
            tally.add_program(preset, case)

    for (preset, name), reason in sorted(tally.skips.items()):
        print(f"test: {preset}: {name} skipped: {reason}")
    expected = expected_skips(expected_path, presets)
    for preset, name in sorted(set(tally.skips) - expected):
        print(f"test: {preset}: {name} was skipped and {expected_path} does not expect it")
    for preset, name in sorted(expected - set(tally.skips)):
        print(f"test: {preset}: {name} was to be skipped according to {expected_path} and was not")
    surprises = len(set(tally.skips) ^ expected)
    if tally.passed == 0:
        print("test: no test passed")

    failed = tally.failed + surprises
    print(f"{tally.passed} passed, {failed} failed, {len(tally.skips)} skipped")
    return 1 if failed or tally.passed == 0 else 0


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
