"""The contenders: how each is started, handed a turn, and ended. Every process started here is ended here, by pid."""

import json
import os
import select
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

START_SECONDS = 60
PIPE_BYTES = 65536


class Lost(Exception):
    """A contender that cannot go on; the text is the sentence for the report."""


@dataclass(frozen=True)
class Setting:
    """One column of the report: a program, and the launcher with its options."""

    name: str
    program: str
    launcher: str = ""  # "" starts the ranks directly
    options: tuple = ()
    is_peer: bool = False  # counts for "best peer"
    groups: str = "all"  # or "two": it knows 2 ranks on 2 cores only; or "crowded": where ranks share cores
    install: str = ""
    variables: tuple = ()  # name and value of what its ranks find in the environment

    def runs_in(self, group, available):
        if self.groups == "two":
            return group.ranks == 2 and not group.one_core
        return self.groups == "all" or group.oversubscribed(available)


def mca(**values):
    return tuple(word for key, value in values.items() for word in ("--mca", key, value))


OPENMPI = {"program": "peer_openmpi", "launcher": "mpirun.openmpi", "is_peer": True,
           "install": "openmpi-bin libopenmpi-dev"}
VADER_COPY = mca(btl_vader_single_copy_mechanism="none")
PML_UCX = mca(pml="ucx", pml_ucx_tls="any", pml_ucx_devices="any")
YIELD = mca(mpi_yield_when_idle="1")

SETTINGS = (
    Setting("slipring", "contender_slipring"),
    Setting("slipring-f32", "contender_slipring", groups="two", variables=(("BENCH_AS_FLOATS", "1"),)),
    Setting("bare", "contender_bare", groups="two"),
    Setting("copy-wait", "contender_copy_wait"),
    Setting("memory", "memory_limit"),
    Setting("openmpi", **OPENMPI),
    Setting("openmpi-copy", **OPENMPI, options=VADER_COPY),
    Setting("openmpi-ucx", **OPENMPI, options=PML_UCX),
    Setting("openmpi-yield", **OPENMPI, options=YIELD, groups="crowded"),
    Setting("openmpi-copy-yield", **OPENMPI, options=VADER_COPY + YIELD, groups="crowded"),
    Setting("mpich", "peer_mpich", launcher="mpirun.mpich", is_peer=True, install="mpich libmpich-dev"),
    Setting("gloo", "peer_gloo", is_peer=True, install="libgloo-dev"),
    Setting("ucx-am", "peer_ucx", is_peer=True, groups="two", install="libucx-dev"),
)


def missing_reason(setting, programs):
    """Why a setting cannot run here, as a sentence; None when it can."""
    if setting.launcher and not shutil.which(setting.launcher):
        return f"{setting.launcher} not found; apt-get install {setting.install}"
    if not (programs / setting.program).exists():
        remedy = f"apt-get install {setting.install} and build again" if setting.install else "not part of this build"
        return f"{setting.program} was not built; {remedy}"
    return None


@dataclass
class Contender:
    """N ranks of one setting, alive and asleep between turns."""

    setting: Setting
    group: object
    directory: Path
    programs: Path
    cores: list
    turn_seconds: float
    launched: list = field(default_factory=list)  # Popen, of the launcher or of each rank
    rank_pids: dict = field(default_factory=dict)
    ops: list = field(default_factory=list)
    version: str = ""
    start_rss_kib: int = 0
    start_shared_kib: int = 0
    _commands: list = field(default_factory=list)
    _replies: int = -1
    _text: str = ""

    @property
    def name(self):
        return self.setting.name

    def launch(self):
        self.directory.mkdir()
        os.mkfifo(self.directory / "reply")
        # Read and write: opening never blocks, and a rank sees end of file only when this process is gone.
        self._replies = os.open(self.directory / "reply", os.O_RDWR | os.O_NONBLOCK)
        for rank in range(self.group.ranks):
            path = self.directory / f"turn.{rank}"
            os.mkfifo(path)
            self._commands.append(os.open(path, os.O_RDWR | os.O_NONBLOCK))
        program = str(self.programs / self.setting.program)
        env = dict(os.environ, TURN_DIR=str(self.directory), TURN_SIZE=str(self.group.ranks),
                   TURN_CORES=",".join(map(str, self.cores)), **dict(self.setting.variables))
        if self.setting.launcher:
            self._spawn(self._launcher_words() + [program], env)
            return
        for rank in range(self.group.ranks):
            self._spawn([program], dict(env, TURN_RANK=str(rank)))

    def _launcher_words(self):
        words = [self.setting.launcher]
        if "openmpi" in self.setting.launcher:
            words += ["--bind-to", "none", *mca(orte_tmpdir_base=str(self.directory), btl_base_warn_component_unused="0")]
            words += ["--allow-run-as-root"] if os.geteuid() == 0 else []
            words += ["--oversubscribe"] if self.group.ranks > len(os.sched_getaffinity(0)) else []
        else:
            words += ["-bind-to", "none"]
        return words + ["-n", str(self.group.ranks), *self.setting.options]

    def _spawn(self, words, env):
        with open(self.directory / "output", "ab") as output:
            # Its own process group: Ctrl-C reaches the controller alone, which then ends the contenders in order. Not its
            # own session: the kernel schedules sessions as groups, and sched_yield does nothing between groups.
            self.launched.append(subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, stdout=output,
                                                  stderr=subprocess.STDOUT, process_group=0))

    def await_ready(self):
        deadline = time.monotonic() + START_SECONDS
        ready = {}
        while len(ready) < self.group.ranks:
            reply = self._next_reply(deadline, "start")
            if "pid" in reply:
                self.rank_pids[reply["rank"]] = reply["pid"]
            else:
                ready[reply["rank"]] = reply
        self.ops = ready[0]["ops"]
        self.version = ready[0]["version"]
        self.start_rss_kib = max(r["rss_kib"] for r in ready.values())
        self.start_shared_kib = max(r["shared_kib"] for r in ready.values())

    def turn(self, *words):
        """Hands out a turn and returns the ranks' replies by rank."""
        command = (" ".join(map(str, words)) + "\n").encode()
        # Rank 0 last: it takes the time, so the others are on their way when it starts.
        for pipe in reversed(self._commands):
            os.write(pipe, command)
        deadline = time.monotonic() + self.turn_seconds
        replies = {}
        while len(replies) < self.group.ranks:
            reply = self._next_reply(deadline, " ".join(map(str, words)))
            replies[reply["rank"]] = reply
        return replies

    def _next_reply(self, deadline, what):
        while "\n" not in self._text:
            readable, _, _ = select.select([self._replies], [], [], 0.5)
            if readable:
                self._text += os.read(self._replies, PIPE_BYTES).decode()
                continue
            gone = [process for process in self.launched if process.poll() is not None]
            if gone:
                raise Lost(f"{self.name} ended with status {gone[0].returncode} during '{what}': {self._last_words()}")
            if time.monotonic() > deadline:
                raise Lost(f"{self.name} gave no answer to '{what}' in time: {self._last_words()}")
        line, self._text = self._text.split("\n", 1)
        reply = json.loads(line)
        if "error" in reply:
            raise Lost(f"{self.name} rank {reply['rank']} failed in '{what}': {reply['error']}")
        return reply

    def _last_words(self):
        lines = (self.directory / "output").read_text(errors="replace").split("\n")
        said = [line.strip() for line in lines if any(c.isalpha() for c in line)]
        return said[-1] if said else "it printed nothing"

    def cpu_seconds(self):
        """CPU time of all ranks and launchers so far: a contender that sleeps badly disturbs the others."""
        total_ns = 0
        for pid in self.pids():
            for clock in Path(f"/proc/{pid}/task").glob("*/schedstat"):
                try:
                    total_ns += int(clock.read_text().split()[0])
                except OSError:  # a thread that ended meanwhile
                    continue
        return total_ns / 1e9

    def pids(self):
        return sorted({*self.rank_pids.values(), *(process.pid for process in self.launched)})

    def stop(self, patience=5.0):
        """Asks, then terminates, then kills; always by pid. Closes and forgets everything."""
        for pipe in self._commands:
            try:
                os.write(pipe, b"quit\n")
            except OSError:
                pass
        self._await_end(patience)
        self._end_by_force()
        for pipe in [*self._commands, self._replies]:
            if pipe >= 0:
                os.close(pipe)
        self._commands, self._replies = [], -1

    def _await_end(self, seconds):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if all(process.poll() is not None for process in self.launched):
                return
            time.sleep(0.02)

    def _end_by_force(self):
        alive = [process for process in self.launched if process.poll() is None]
        ranks = [pid for pid in self.rank_pids.values() if self._is_ours(pid)]
        if not alive and not ranks:
            return
        segments = set().union(*(shared_files(pid) for pid in ranks)) if ranks else set()
        for process in alive:
            process.terminate()
        self._await_end(2.0)
        for pid in ranks:
            if self._is_ours(pid):
                os.kill(pid, signal.SIGKILL)
        for process in alive:
            if process.poll() is None:
                process.kill()
            process.wait()
        for path in segments:  # what a killed rank could not unlink itself
            Path(path).unlink(missing_ok=True)

    def _is_ours(self, pid):
        """The pid still runs our program with our folder: it was not handed to somebody else since."""
        try:
            return f"TURN_DIR={self.directory}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            return False


def shared_files(pid):
    try:
        lines = Path(f"/proc/{pid}/maps").read_text().split("\n")
    except OSError:
        return set()
    paths = (line.split(maxsplit=5)[-1] for line in lines if "/dev/shm/" in line)
    return {path for path in paths if path.startswith("/dev/shm/") and not path.endswith("(deleted)")}
