"""bench/peers/run when a contender lies, dies or stalls, and when the script itself is interrupted or killed.

Usage: peers_faults_test.py BUILD_FOLDER FAULTY_CONTENDER. Needs two cores, no peer.
"""

import os
import shutil
import signal
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
from peers_run import PeersRun  # noqa: E402

BUILD, FAULTY = Path(sys.argv[1]), Path(sys.argv[2])
ONE_CASE = ["--contenders", "bare,memory", "--cases", "all_reduce", "--sizes", "1K", "--ranks", "2", "--rounds", "2"]


class PeersFaults(unittest.TestCase):
    def setUp(self):
        # A build folder in which the faulty program takes the place of the bare reference.
        self.build = Path(tempfile.mkdtemp(prefix="peers-build-"))
        self.addCleanup(shutil.rmtree, self.build)
        programs = self.build / "bench/peers"
        programs.mkdir(parents=True)
        for name in ("linkprobe", "memory_limit"):
            (programs / name).symlink_to(BUILD / "bench/peers" / name)
        (programs / "contender_bare").symlink_to(FAULTY)

    def start(self, fault, words=(), folder=None):
        run = PeersRun(self.build, [*ONE_CASE, *words], folder, FAULTY_CONTENDER=fault)
        self.addCleanup(shutil.rmtree, run.folder, ignore_errors=True)
        self.addCleanup(run.errors.close)
        self.addCleanup(run.process.stdout.close)
        return run

    def assert_nothing_left(self, run):
        self.assertEqual(run.await_no_processes(), [])
        self.assertEqual(list(run.scratch.iterdir()), [])

    def samples(self, data, name):
        return [s for entry in data["cases"] for s in entry["samples"] if s["contender"] == name]

    def test_good_contender_passes_the_check(self):
        run = self.start("")
        _, data, _ = run.finish()
        self.assertEqual(run.process.returncode, 0)
        self.assertEqual(data["cases"][0]["wrong"], {"bare": 0, "memory": 0})
        self.assertGreaterEqual(len(self.samples(data, "bare")), 2)
        self.assert_nothing_left(run)

    def test_wrong_result_is_counted_and_fails_the_run(self):
        run = self.start("wrong")
        table, data, said = run.finish()
        self.assertEqual(run.process.returncode, 1)
        self.assertEqual(data["cases"][0]["wrong"]["bare"], 2)  # one element on each of two ranks
        self.assertIn("WRONG RESULTS", said)
        self.assertIn("Wrong results: all_reduce 1 KiB", table)

    def test_dead_contender_is_named_and_the_others_go_on(self):
        run = self.start("dies")
        table, data, _ = run.finish()
        self.assertEqual(run.process.returncode, 0)
        self.assertIn("bare ended with status 9", data["lost"][0])
        self.assertIn("lost on the way: all_reduce 1 KiB", table)
        self.assertGreaterEqual(len(self.samples(data, "memory")), 2)
        self.assert_nothing_left(run)

    def test_stalled_contender_is_ended_and_the_others_go_on(self):
        run = self.start("stalls", ["--turn-seconds", "1"])
        _, data, _ = run.finish()
        self.assertIn("bare gave no answer to 'time all_reduce 1024", data["lost"][0])
        self.assertGreaterEqual(len(self.samples(data, "memory")), 2)
        self.assert_nothing_left(run)

    def test_missing_program_is_a_sentence(self):
        (self.build / "bench/peers/contender_bare").unlink()
        run = self.start("")
        _, data, _ = run.finish()
        self.assertEqual(data["missing"], ["bare: contender_bare was not built; not part of this build"])
        self.assertGreaterEqual(len(self.samples(data, "memory")), 2)

    def test_interrupt_ends_every_process(self):
        run = self.start("", ["--rounds", "100000", "--case-seconds", "600"])
        run.await_text("[1/1]")
        self.assertEqual(len(run.processes()), 4)
        run.process.send_signal(signal.SIGINT)
        run.finish()
        self.assertEqual(run.process.returncode, 130)
        self.assert_nothing_left(run)

    def test_interrupt_while_a_contender_stalls_ends_every_process(self):
        run = self.start("stalls")
        run.await_text("[1/1]")
        run.process.send_signal(signal.SIGTERM)
        run.finish()
        self.assertEqual(run.process.returncode, 143)
        self.assert_nothing_left(run)

    def test_killed_script_leaves_no_rank_and_the_next_run_sweeps_its_folder(self):
        run = self.start("", ["--rounds", "100000", "--case-seconds", "600"])
        run.await_text("[1/1]")
        self.assertEqual(len(run.processes()), 4)
        run.process.kill()
        run.finish()
        self.assertEqual(run.await_no_processes(), [])
        self.assertEqual(len(list(run.scratch.iterdir())), 1)
        after = self.start("", folder=run.folder)
        after.finish()
        self.assert_nothing_left(after)


if __name__ == "__main__":
    if len(os.sched_getaffinity(0)) < 2:
        print("skipped: the bench needs two cores in the cpuset")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=2)
