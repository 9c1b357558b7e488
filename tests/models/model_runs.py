"""How a model is run, whichever checker it is for: returns whether the checker found something, and what."""

import pathlib
import re
import subprocess
import tempfile

LIMIT_S = 60


class CheckerFailed(Exception):
    """The checker itself did not work: no verdict either way."""


def relacy_orders(program):
    return subprocess.run([program, "--orders"], capture_output=True, text=True, check=True).stdout.split()


def run_relacy(program, order=None):
    command = [program] + (["--break", order] if order else [])
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    if done.returncode not in (0, 1):
        raise CheckerFailed(f"{' '.join(command)}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.returncode == 1, done.stdout.strip()


def spin_mutants(model):
    line = re.search(r"mutants:([A-Z_ \n*]+)", pathlib.Path(model).read_text())
    return line.group(1).replace("*", " ").split()


def run_spin(model, mutant=None, small=False):
    """Safety first (assertions, states without a way on), then the claim under weak fairness."""
    defines = [f"-D{name}" for name, wanted in ((mutant, mutant), ("SMALL", small)) if wanted]
    model = pathlib.Path(model).resolve()
    with tempfile.TemporaryDirectory() as folder:

        def step(*command):
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LIMIT_S)
            if done.returncode != 0:
                raise CheckerFailed(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stdout}{done.stderr}")
            return done.stdout

        step("spin", "-a", *defines, model)
        for flags, options, kind in (
            (["-DSAFETY", "-DNOCLAIM"], [], "safety"),
            (["-DNFAIR=3"], ["-a", "-f"], "claim"),
        ):
            step("gcc", "-O1", "-w", *flags, "-o", "pan", "pan.c")
            report = step("./pan", "-m100000", *options)
            errors = re.search(r"errors: (\d+)", report)
            if not errors or "max search depth too small" in report or "out of memory" in report:
                raise CheckerFailed(f"{model.name}: no verdict\n{report}")
            if int(errors.group(1)):
                reason = re.search(r"pan:\d+: (.*?)(?: \(at depth|$)", report, re.M)
                return True, f"{kind}: {reason.group(1) if reason else 'error'}"
        states = re.search(r"(\d+) states, stored", report)
        return False, f"nothing found in {states.group(1) if states else '?'} states"
