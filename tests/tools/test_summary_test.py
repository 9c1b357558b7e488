"""tools/test_summary.py on result files as ctest writes them.

test_summary_test.py TEST_SUMMARY.py
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest
from xml.sax.saxutils import escape

SUMMARY = None
PASSING = "[       OK ] A.x (0 ms)\n[  PASSED  ] 9 tests.\n"
SKIPPING = """[ RUN      ] Segment.HugePages
segment_test.cc:42: Skipped
this machine has no huge pages

[  SKIPPED ] Segment.HugePages (1 ms)
[  PASSED  ] 4 tests.
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] Segment.HugePages
"""
FAILING = "[  PASSED  ] 3 tests.\n[  FAILED  ] 2 tests, listed below:\n[  FAILED  ] A.x\n"


class Summary(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def summary(self, cases, expected=""):
        (self.folder / "expected").write_text(expected)
        files = []
        for preset, tests in cases.items():
            body = "".join(f'<testcase name="{name}" status="{status}">{more}<system-out>{escape(out)}</system-out></testcase>'
                           for name, status, out, more in tests)
            files.append(self.folder / f"{preset}.xml")
            files[-1].write_text(f"<testsuite>{body}</testsuite>")
        done = subprocess.run([sys.executable, SUMMARY, self.folder / "expected", *files], text=True, capture_output=True)
        return done.returncode, done.stdout.splitlines()

    def test_adds_up_programs_and_presets(self):
        status, lines = self.summary({"release": [("a", "run", PASSING, ""), ("script", "run", "", "")],
                                      "tsan": [("a", "run", PASSING, "")]})
        self.assertEqual((status, lines), (0, ["19 passed, 0 failed, 0 skipped"]))

    def test_failed_cases_and_crashes_count(self):
        status, lines = self.summary({"release": [("a", "fail", FAILING, ""), ("crashed", "fail", "[ RUN      ] A.x\n", "")]})
        self.assertEqual((status, lines[-1]), (1, "3 passed, 3 failed, 0 skipped"))

    def test_an_expected_skip_passes_and_says_why(self):
        status, lines = self.summary({"release": [("a", "run", SKIPPING, "")]}, "release Segment.HugePages always # why\n")
        self.assertEqual((status, lines[-1]), (0, "4 passed, 0 failed, 1 skipped"))
        self.assertIn("this machine has no huge pages", lines[0])

    def test_an_unexpected_skip_fails(self):
        status, lines = self.summary({"release": [("a", "run", SKIPPING, "")]}, "tsan Segment.HugePages always\n")
        self.assertEqual((status, lines[-1]), (1, "4 passed, 1 failed, 1 skipped"))

    def test_a_missing_skip_fails(self):
        status, lines = self.summary({"release": [("a", "run", PASSING, "")]}, "release Segment.HugePages always\n")
        self.assertEqual((status, lines[-1]), (1, "9 passed, 1 failed, 0 skipped"))

    def test_skips_of_whole_programs_and_of_scripts_do_not_hide(self):
        status, lines = self.summary({"release": [
            ("a", "run", PASSING, ""),
            ("peers", "notrun", "", '<skipped message="SKIP_RETURN_CODE=77"/>'),
            ("script", "run", "Ran 3 tests in 1s\n\nOK (skipped=2)\n", "")]})
        self.assertEqual((status, lines[-1]), (1, "10 passed, 2 failed, 2 skipped"))
        self.assertIn("SKIP_RETURN_CODE=77", "\n".join(lines))

    def test_nothing_run_fails(self):
        status, lines = self.summary({"release": []})
        self.assertEqual((status, lines[-1]), (1, "0 passed, 0 failed, 0 skipped"))


if __name__ == "__main__":
    SUMMARY = pathlib.Path(sys.argv.pop()).resolve()
    unittest.main()
