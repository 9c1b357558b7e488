"""slipring-perf as a user runs it: every operation, both ways to make ranks, and what it says when something is wrong.

slipring_perf_test.py SLIPRING_PERF SLIPRING_RUN
"""

import csv
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest

PERF = RUN = None
QUICK = ["-n", "3", "-w", "1"]
FIELDS = ("op bytes count dtype redop ranks nodes algo transport time_us min_us p99_us algbw_gbps busbw_gbps wrong").split()


def run(*words, program=None, status=0):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SLIPRING_")}
    done = subprocess.run([*(program or [PERF]), *words], env=environment, text=True, capture_output=True, timeout=120,
                          stdin=subprocess.DEVNULL)
    if done.returncode != status:
        raise AssertionError(f"exit status {done.returncode}, not {status}: {words}\n{done.stdout}\n{done.stderr}")
    return done


def rows(*words, **more):
    return [json.loads(line) for line in run(*words, *QUICK, "--json", "-", **more).stdout.splitlines()]


OPERATIONS = ("all_reduce reduce broadcast all_gather reduce_scatter gather scatter all_to_all barrier send_recv stream").split()


class Perf(unittest.TestCase):
    def assert_right(self, found, count):
        self.assertEqual(len(found), count)
        for row in found:
            self.assertEqual([name for name in FIELDS if name not in row], [])
            self.assertEqual(row["wrong"], 0)
            self.assertGreater(row["time_us"], 0)
            self.assertLessEqual(row["min_us"], row["time_us"])
            self.assertLessEqual(row["time_us"], row["p99_us"])

    def test_every_operation_runs_in_processes_and_in_threads(self):
        for op in OPERATIONS:
            count = 1 if op == "barrier" else 3
            for ranks in (["--procs", "2"], ["--threads", "2"], ["--threads", "3"]):
                with self.subTest(op=op, ranks=ranks):
                    found = rows(op, *ranks, "-b", "4", "-e", "1M", "-f", "512")
                    self.assert_right(found, count)
                    self.assertEqual(found[0]["op"], op)
                    self.assertEqual(found[0]["ranks"], int(ranks[1]))

    def test_every_type_and_operator_is_checked(self):
        for dtype in ("f32", "f64", "i32", "i64", "i8", "u8", "u32", "u64", "f16", "bf16"):
            for redop in ("sum", "prod", "min", "max", "avg"):
                with self.subTest(dtype=dtype, redop=redop):
                    self.assert_right(rows("all_reduce", "--threads", "3", "-d", dtype, "-o", redop, "-b", "1000", "-e", "300K",
                                           "-f", "30"), 2)

    def test_every_type_is_carried(self):
        for dtype in ("i8", "u8", "u32", "u64", "f16", "bf16", "bool", "fp8_e4m3", "fp8_e5m2"):
            for op in ("broadcast", "send_recv", "stream"):
                with self.subTest(op=op, dtype=dtype):
                    self.assert_right(rows(op, "--threads", "2", "-d", dtype, "-b", "1000", "-e", "300K", "-f", "30"), 2)

    def test_halves_are_exact_on_every_path(self):
        for algorithm in ("one_shot", "two_phase", "ring"):
            for dtype in ("f16", "bf16"):
                with self.subTest(algorithm=algorithm, dtype=dtype):
                    self.assert_right(rows("all_reduce", "--threads", "5", "-d", dtype, "-a", algorithm, "-b", "10K", "-e", "10K"), 1)

    def test_forms(self):
        for words in (["all_reduce", "--out-of-place"], ["all_reduce", "--heap"], ["all_reduce", "--heap", "--out-of-place"],
                      ["broadcast", "-r", "1"], ["reduce", "-r", "1"], ["reduce", "--out-of-place"],
                      ["gather", "-r", "1", "--heap"], ["scatter", "-r", "1", "--heap"], ["all_to_all", "--heap"], ["stream", "--in-place"], ["send_recv", "--heap"], ["stream", "--heap"]):
            with self.subTest(words=words):
                self.assert_right(rows(*words, "--procs", "2", "-b", "12", "-e", "3M", "-f", "500"), 3)

    def test_groups_run_at_the_same_time(self):
        for op in ("all_reduce", "all_gather", "barrier"):
            with self.subTest(op=op):
                found = rows(op, "--threads", "6", "--groups", "3", "-b", "4K", "-e", "4K")
                self.assert_right(found, 1)
                self.assertEqual((found[0]["ranks"], found[0]["groups"]), (2, 3))
        self.assertIn("--groups 2 does not divide the 3 ranks", run("barrier", "--threads", "3", "--groups", "2", status=1).stderr)

    def test_asynchronous_operations_in_flight(self):
        for op in OPERATIONS[:-2]:
            for depth in ("1", "8"):
                with self.subTest(op=op, depth=depth):
                    found = rows(op, "--threads", "2", "--inflight", depth, "-b", "12K", "-e", "12K")
                    self.assert_right(found, 1)
                    self.assertEqual(found[0]["inflight"], int(depth))
        self.assertIn("no asynchronous form", run("stream", "--threads", "2", "--inflight", "2", status=2).stderr)

    def test_an_algorithm_is_obeyed(self):
        for algorithm in ("one_shot", "two_phase", "ring"):
            with self.subTest(algorithm=algorithm):
                found = rows("all_reduce", "--procs", "2", "-b", "1K", "-e", "1K", "-a", algorithm)
                self.assert_right(found, 1)
                self.assertEqual(found[0]["algo"], algorithm)

    def test_every_operation_obeys(self):
        for op, algorithm in (("all_reduce", "halving_doubling"), ("reduce", "tree"), ("broadcast", "ring"), ("all_gather", "bruck"),
                              ("reduce_scatter", "pairwise"), ("gather", "linear"), ("scatter", "tree"), ("all_to_all", "bruck")):
            with self.subTest(op=op):
                found = rows(op, "--threads", "3", "-b", "12K", "-e", "12K", "-a", algorithm)
                self.assert_right(found, 1)
                self.assertIn(found[0]["algo"], (algorithm, "binomial_tree"))

    def test_zero_elements(self):
        for op in OPERATIONS:
            with self.subTest(op=op):
                self.assert_right(rows(op, "--threads", "2", "-b", "0", "-e", "0"), 1)

    def test_ranks_of_a_job_that_runs_already(self):
        found = rows("all_reduce", "-b", "64", "-e", "64", program=[RUN, "-n", "2", PERF])
        self.assert_right(found, 1)
        self.assertEqual(found[0]["transport"], "shm")

    def test_table_names_the_machine_and_the_ranks(self):
        text = run("all_reduce", "--procs", "2", "-e", "64", *QUICK).stdout
        for name in ("slipring-perf", "host", "cpu", "governor", "affinity", "ranks per core", "memory", "#wrong", "busbw"):
            self.assertIn(name, text)
        self.assertIn("2 processes on 1 node", text)
        table_rows = [line.split() for line in text.splitlines() if not line.startswith("#")]
        self.assertIn(["64", "16", "f32", "sum", "-1"], [row[:5] for row in table_rows])

    def test_files_get_the_same_rows_as_the_table(self):
        with tempfile.TemporaryDirectory() as folder:
            names = os.path.join(folder, "rows.json"), os.path.join(folder, "rows.csv")
            run("all_reduce", "--threads", "2", "-e", "1K", *QUICK, "--json", names[0], "--csv", names[1])
            with open(names[0], encoding="utf-8") as file:
                from_json = [json.loads(line) for line in file]
            with open(names[1], encoding="utf-8") as file:
                from_csv = list(csv.DictReader(file))
            self.assertEqual([row["bytes"] for row in from_json], [4, 16, 64, 256, 1024])
            self.assertEqual([int(row["bytes"]) for row in from_csv], [4, 16, 64, 256, 1024])
            self.assertEqual(list(from_json[0]), list(from_csv[0]))

    def test_csv_on_standard_output_is_nothing_but_csv(self):
        text = run("barrier", "--threads", "2", *QUICK, "--csv", "-").stdout
        self.assertEqual(len(list(csv.DictReader(io.StringIO(text)))), 1)

    def test_both_ranks_on_one_cpu(self):
        cpu = min(os.sched_getaffinity(0))
        done = run("all_reduce", "--procs", "2", "--pin", f"{cpu},{cpu}", "-b", "1K", "-e", "1K", *QUICK)
        self.assertIn(f"ranks 0 1 CPU {cpu}", done.stdout)

    def test_what_cannot_run_says_why(self):
        self.assertIn("no operation fly", run("fly", status=2).stderr)
        self.assertIn("give --procs N or --threads N", run("barrier", status=1).stderr)
        self.assertIn("send_recv needs 2 ranks, not 1", run("send_recv", "--threads", "1", status=1).stderr)
        self.assertIn("root 2 is not among the 2 ranks", run("broadcast", "--threads", "2", "-r", "2", status=1).stderr)
        self.assertIn("no/such/rows", run("barrier", "--threads", "1", "--json", "no/such/rows", status=1).stderr)
        self.assertIn("leave out --procs", run("barrier", "--procs", "2", program=[RUN, "-n", "1", PERF], status=2).stderr)
        self.assertIn("all_reduce.algorithm", run("all_reduce", "--threads", "2", "-a", "magic", status=1).stderr)


if __name__ == "__main__":
    RUN = os.path.abspath(sys.argv.pop())
    PERF = os.path.abspath(sys.argv.pop())
    unittest.main()
