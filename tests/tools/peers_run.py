"""Starts bench/peers/run in a folder of its own, so that whatever it leaves behind is found there."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WATCHDOG_SECONDS = 150
SCRIPT = Path(__file__).resolve().parents[2] / "bench/peers/run"


class PeersRun:
    def __init__(self, build, words, folder=None, **environment):
        self.folder = folder or Path(tempfile.mkdtemp(prefix="peers-test-"))
        self.json = self.folder / "result.json"
        self.scratch = self.folder / "scratch"
        self.scratch.mkdir(exist_ok=True)
        self.errors = open(self.folder / "stderr", "w+")
        command = [sys.executable, str(SCRIPT), "--no-build", "--build", str(build), "--json", str(self.json), *words]
        self.process = subprocess.Popen(command, env=dict(os.environ, TMPDIR=str(self.scratch), **environment),
                                        stdout=subprocess.PIPE, stderr=self.errors, text=True)

    def finish(self):
        """Waits for the end; returns the table, the samples (or None) and what was said on the way."""
        try:
            table, _ = self.process.communicate(timeout=WATCHDOG_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        data = json.loads(self.json.read_text()) if self.json.exists() else None
        return table, data, self.said()

    def said(self):
        return (self.folder / "stderr").read_text()

    def await_text(self, text):
        deadline = time.monotonic() + WATCHDOG_SECONDS
        while text not in self.said():
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise AssertionError(f"'{text}' was not said, but: {self.said()}")
            time.sleep(0.02)

    def processes(self):
        """Pids of all processes that this run started and that still live: they carry its folder."""
        found = []
        for environ in Path("/proc").glob("[0-9]*/environ"):
            try:
                words = environ.read_bytes().split(b"\0")
            except OSError:
                continue
            if any(word.startswith(f"TURN_DIR={self.scratch}".encode()) for word in words):
                found.append(int(environ.parent.name))
        return found

    def await_no_processes(self):
        deadline = time.monotonic() + 30
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.05)
        return self.processes()
