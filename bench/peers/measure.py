"""Interleaved measurement: rounds of short turns, with a probe of the link between the cores before and after each.

The machine under the bench may move: on a virtual machine whose CPUs the host does not pin, the time of a cache line
between two cores jumps, often within a second. So each sample carries the link's time on both sides of it, and its
regime is that of the probes when they agree, and "moved" when they do not.
"""

import subprocess
import time

import cases as table
from contenders import Lost

TURN_NS = 6e6  # all contenders of a round fit into about 50 ms
BATCH_NS = 50e3  # one clock read (36 ns) per batch
STREAM_BATCH_OPS = 16
NEAR_NS, FAR_NS = 45.0, 150.0
ENOUGH_SAMPLES = 5
SLOW_STRIDE = 4  # a contender far slower than the others joins every fourth round only


def regime_of(link_ns):
    return "near" if link_ns < NEAR_NS else "mid" if link_ns <= FAR_NS else "far"


class Probe:
    """The linkprobe program, asleep between probes."""

    def __init__(self, program, cores):
        self._process = subprocess.Popen([program, *map(str, cores)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         process_group=0)

    def link_ns(self):
        self._process.stdin.write(b"p")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("linkprobe ended; it needs two cores in this process's cpuset")
        return float(line.split()[0])

    def pid(self):
        return self._process.pid

    def stop(self):
        self._process.stdin.close()
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


class Plan:
    """How many operations one contender runs in a turn of one case."""

    def __init__(self, contender, case):
        def timed(batches, ops, warmup):
            return contender.turn("time", case.op, case.bytes, batches, ops, warmup)[0]["median_ns"]

        fewest = STREAM_BATCH_OPS if case.op.startswith("stream") else 1
        op_ns = timed(1, fewest, 1)
        if op_ns < TURN_NS:  # the first call may have connected, mapped or registered something
            op_ns = timed(3, max(fewest, min(200, int(BATCH_NS / op_ns))), 2)
        self.ops = max(fewest, min(5000, round(BATCH_NS / op_ns)))
        self.batches = max(1, min(400, int(0.85 * TURN_NS / (self.ops * op_ns))))
        self.warmup = 0 if op_ns > 100e6 else max(1, int(0.15 * TURN_NS / op_ns))
        self.turn_ns = op_ns * (self.ops * self.batches + self.warmup)


class CaseRun:
    """One case over all contenders that offer it."""

    def __init__(self, case, contenders, probe, lost):
        self.case = case
        self.probe = probe
        self.samples = []
        self.wrong = {}
        self._lost = lost  # sentences, shared with the caller
        self._contenders = [c for c in contenders if case.op in c.ops]
        self._all = contenders

    def _attempt(self, contender, action):
        try:
            return action()
        except Lost as loss:
            self._lost.append(f"{self.case.label()}: {loss}")
            print(f"    lost: {loss}", flush=True)
            self._contenders.remove(contender)
            self._all.remove(contender)
            contender.stop(patience=0.0)
            return None

    def prepare(self):
        """Checks every result once and plans the turns."""
        self._plans = {}
        for contender in list(self._contenders):
            def check(c=contender):
                replies = c.turn("check", self.case.op, self.case.bytes)
                return sum(reply["wrong"] for reply in replies.values()), Plan(c, self.case)

            outcome = self._attempt(contender, check)
            if outcome:
                self.wrong[contender.name], self._plans[contender.name] = outcome

    def run(self, rounds, seconds):
        """At least `rounds` rounds (three when they are slow), more while no regime has enough of everyone."""
        start = time.monotonic()
        turns = sorted(plan.turn_ns for plan in self._plans.values())
        typical = max(TURN_NS, turns[len(turns) // 2]) if turns else TURN_NS
        slow = {name for name, plan in self._plans.items() if plan.turn_ns > 8 * typical}
        for number in range(3 * rounds):
            spent = time.monotonic() - start
            if number >= min(3, rounds) and spent > seconds:
                break
            if number >= rounds and self._has_enough(slow):
                break
            self._round(number, slow, start)
        for contender in list(self._contenders):
            self._attempt(contender, lambda c=contender: c.turn("drop"))
        self.seconds = time.monotonic() - start

    def _round(self, number, slow, start):
        order = [c for c in self._contenders if c.name not in slow or number % SLOW_STRIDE == 0]
        shift = number % len(order) if order else 0  # nobody always follows the same neighbour's cache
        before = self.probe.link_ns()
        for contender in order[shift:] + order[:shift]:
            plan = self._plans[contender.name]
            words = ("time", self.case.op, self.case.bytes, plan.batches, plan.ops, plan.warmup)
            replies = self._attempt(contender, lambda c=contender, w=words: c.turn(*w))
            after = self.probe.link_ns()
            if replies:
                # A root that only gives runs ahead of the others: an operation takes as long as on its slowest rank.
                slowest = max(replies.values(), key=lambda reply: reply["median_ns"])
                reply = slowest if self.case.op in table.BLOCK_OPS else replies[0]
                self._record(contender.name, number, time.monotonic() - start, before, after, reply)
            before = after

    def _record(self, name, number, at, before, after, reply):
        regimes = {regime_of(before), regime_of(after)}
        self.samples.append({
            "contender": name, "round": number, "at_s": round(at, 4), "link_before_ns": before, "link_after_ns": after,
            "regime": regimes.pop() if len(regimes) == 1 else "moved",
            "median_ns": reply["median_ns"], "min_ns": reply["min_ns"], "p99_ns": reply["p99_ns"], "max_ns": reply["max_ns"],
        })

    def _has_enough(self, slow):
        names = {c.name for c in self._contenders} - slow
        for regime in ("near", "mid", "far"):
            counts = dict.fromkeys(names, 0)
            for sample in self.samples:
                if sample["regime"] == regime and sample["contender"] in counts:
                    counts[sample["contender"]] += 1
            if counts and min(counts.values()) >= ENOUGH_SAMPLES:
                return True
        return False
