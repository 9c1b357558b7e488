#!/usr/bin/python3
"""Shows that the models are alive: breaks each order and each protocol step in turn, and a model must notice.

`mutation_check.py MODEL...`, a model being a Relacy program or a .pml file. Each model also runs unbroken, in
the same way, and must pass. Prints who caught what; status 1 when a mutant survives.
"""

import pathlib
import sys
import time

import model_runs


def runs_of(model):
    if model.endswith(".pml"):
        return model_runs.spin_mutants(model), lambda m: model_runs.run_spin(model, m)
    return model_runs.relacy_orders(model), lambda m: model_runs.run_relacy(model, m)


def main():
    survivors = 0
    count = 0
    begin = time.monotonic()
    print(f"{'mutant':34} {'caught by':20} how")
    for model in sys.argv[1:]:
        name = pathlib.Path(model).name
        mutants, run = runs_of(model)
        if not mutants:
            sys.exit(f"{name} names no mutants")
        found, verdict = run(None)
        if found:
            sys.exit(f"{name} fails unbroken: {verdict}")
        for mutant in mutants:
            found, verdict = run(mutant)
            count += 1
            survivors += not found
            print(f"{mutant:34} {name if found else 'NOBODY':20} {verdict}", flush=True)
    print(f"{count} mutants, {survivors} survived, {time.monotonic() - begin:.0f} s")
    return 1 if survivors or not count else 0


if __name__ == "__main__":
    sys.exit(main())
