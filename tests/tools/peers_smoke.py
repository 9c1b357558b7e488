"""bench/peers/run with whatever peers are installed, two rounds of tiny cases: every peer starts, gives right results,
is timed, and leaves nothing behind. Usage: peers_smoke.py BUILD_FOLDER. Exit status 77 when no peer is installed.
"""

import os
import shutil
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench/peers"))
import cases  # noqa: E402
import contenders  # noqa: E402
from peers_run import PeersRun  # noqa: E402

TINY = ["--sizes", "8,1K", "--ranks", "2", "--rounds", "2", "--case-seconds", "5"]
TINY_CASES = cases.select(cases.OPS, [8, 1024], [2], False, False)


def fail(sentence):
    print(f"FAILED: {sentence}")
    sys.exit(1)


def main():
    build = Path(sys.argv[1])
    if len(os.sched_getaffinity(0)) < 2:
        print("skipped: the bench needs two cores in the cpuset")
        return 77
    reasons = {s.name: contenders.missing_reason(s, build / "bench/peers") for s in contenders.SETTINGS}
    if all(reasons[s.name] for s in contenders.SETTINGS if s.is_peer):
        print("skipped: no peer is installed; " + "; ".join(str(reason) for reason in reasons.values() if reason))
        return 77
    expected = {s.name for s in contenders.SETTINGS if not reasons[s.name] and s.groups != "crowded" and s.name != "copy-wait"}
    segments = set(os.listdir("/dev/shm"))
    run = PeersRun(build, TINY)
    table, data, said = run.finish()
    print(said)
    print(table)
    if run.process.returncode != 0:
        fail(f"status {run.process.returncode}")
    if data["lost"]:
        fail(f"contenders lost: {data['lost']}")
    measured = {s["contender"] for entry in data["cases"] for s in entry["samples"]}
    if measured != expected:
        fail(f"measured {sorted(measured)}, expected {sorted(expected)}")
    if [(entry["op"], entry["bytes"]) for entry in data["cases"]] != [(case.op, case.bytes) for case in TINY_CASES]:
        fail("other cases ran than were asked for")
    if any(s["median_ns"] <= 0 or s["min_ns"] > s["median_ns"] for e in data["cases"] for s in e["samples"]):
        fail("a sample's times make no sense")
    if run.await_no_processes() or list(run.scratch.iterdir()):
        fail(f"left behind: processes {run.processes()}, files {list(run.scratch.iterdir())}")
    peers_left = {name for name in set(os.listdir("/dev/shm")) - segments if name.startswith(("vader", "mpich", "ucx"))}
    if peers_left:
        fail(f"left behind in /dev/shm: {sorted(peers_left)}")
    shutil.rmtree(run.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
