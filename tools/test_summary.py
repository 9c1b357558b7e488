"""Adds up ctest's result files, prints every skip with its reason, and closes with one line of counts.

    test_summary.py EXPECTED_SKIPS RESULTS.xml...

A result file is named after its preset. A GoogleTest program counts as its test cases, any other test as one. Exit
status 1 when a test failed, when no test ran, or when the skips are not those that EXPECTED_SKIPS lists.
"""

import ctypes
import fnmatch
import os
import pathlib
import re
import socket
import subprocess
import sys
import xml.etree.ElementTree as ElementTree


def one_cpu():
    return len(os.sched_getaffinity(0)) < 2


def no_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return True
    return False


def no_mounts():
    return subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode != 0


def no_membarrier():
    """Whether the commands that waiting uses are missing: private and global expedited, and their registration."""
    sys_membarrier = {"x86_64": 324, "aarch64": 283}.get(os.uname().machine)
    offered = ctypes.CDLL(None, use_errno=True).syscall(sys_membarrier, 0, 0) if sys_membarrier else -1
    return offered < 0 or offered & 0b110 != 0b110


# Conditions that a line of EXPECTED_SKIPS can name, probed here and not by the tests.
CONDITIONS = {"always": lambda: True, "one_cpu": one_cpu, "no_ipv6": no_ipv6, "no_mounts": no_mounts,
              "no_membarrier": no_membarrier}

GTEST_COUNT = re.compile(r"^\[  (PASSED|FAILED|SKIPPED) +\] (\d+) tests?[,.]", re.MULTILINE)
GTEST_SKIP = re.compile(r"^(?P<reason>(?:(?!\[).*\n)*)\[  SKIPPED \] (?P<name>\S+) \(\d+ ms\)", re.MULTILINE)

UNITTEST_SKIPS = re.compile(r"^(?:OK|FAILED) \(.*?skipped=(\d+)", re.MULTILINE)


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
        hidden = UNITTEST_SKIPS.search(output)
        if hidden:
            self.skips[preset, name] = f"{hidden[1]} of its cases; run it with --verbose to see which"
        if status in ("notrun", "disabled"):
            reason = case.find("skipped")
            self.skips[preset, name] = reason.get("message") if reason is not None else "not run"
        elif status != "run":
            self.passed += counts["PASSED"]
            self.failed += max(1, counts["FAILED"])
        else:
            self.passed += counts["PASSED"] if any(counts.values()) else 1


def expected_skips(path, presets):
    """(preset, pattern) of the lines that apply here."""
    expected = set()
    for line in pathlib.Path(path).read_text().splitlines():
        fields = line.split("#")[0].split()
        if not fields:
            continue
        where, pattern, condition = fields
        if condition not in CONDITIONS:
            sys.exit(f"test: {path} names the unknown condition {condition}")
        if CONDITIONS[condition]():
            expected |= {(preset, pattern) for preset in presets if fnmatch.fnmatch(preset, where)}
    return expected


def surprises(skips, expected, expected_path):
    """Sentences about skips that are not expected, and expected ones that did not happen."""

    def covers(entry, skip):
        return entry[0] == skip[0] and fnmatch.fnmatchcase(skip[1], entry[1])

    for skip in sorted(skips):
        if not any(covers(entry, skip) for entry in expected):
            yield f"test: {skip[0]}: {skip[1]} was skipped and {expected_path} does not expect it"
    for entry in sorted(expected):
        if not any(covers(entry, skip) for skip in skips):
            yield f"test: {entry[0]}: {entry[1]} was to be skipped according to {expected_path} and was not"


def main(expected_path, *result_paths):
    tally = Tally()
    presets = [pathlib.Path(path).stem for path in result_paths]
    for preset, path in zip(presets, result_paths):
        for case in ElementTree.parse(path).getroot().iter("testcase"):
            tally.add_program(preset, case)

    for (preset, name), reason in sorted(tally.skips.items()):
        print(f"test: {preset}: {name} skipped: {reason}")
    unexpected = list(surprises(tally.skips, expected_skips(expected_path, presets), expected_path))
    print(*unexpected, sep="\n", end="\n" if unexpected else "")
    if tally.passed == 0:
        print("test: no test passed")

    failed = tally.failed + len(unexpected)
    print(f"{tally.passed} passed, {failed} failed, {len(tally.skips)} skipped")
    return 1 if failed or tally.passed == 0 else 0


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
