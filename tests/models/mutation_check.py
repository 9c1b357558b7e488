#!/usr/bin/python3
"""Shows that the models are alive: breaks each order and each protocol step in turn, and a model must notice.

`mutation_check.py MODEL...`, a model being a Relacy program or a .pml file (which runs at its smallest size, where
faults are found as well). Each model also runs unbroken, in the same way, and must pass. Prints who caught
what; status 1 when a mutant survives.
"""

import concurrent.futures
import os
import pathlib
import sys
import time

import model_runs


def mutants_of(model):
    return model_runs.spin_mutants(model) if model.endswith(".pml") else model_runs.relacy_orders(model)


def run(model, mutant):
    return model_runs.run_spin(model, mutant, small=True) if model.endswith(".pml") else model_runs.run_relacy(model, mutant)


def main():
    begin = time.monotonic()
    survivors = count = 0
    print(f"{'mutant':34} {'caught by':20} how")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = []
        for model in sys.argv[1:]:
            mutants = mutants_of(model)
            if not mutants:
                sys.exit(f"{model} names no mutants")
            runs += [(model, mutant, pool.submit(run, model, mutant)) for mutant in [None, *mutants]]
        for model, mutant, future in runs:
            name = pathlib.Path(model).name
            found, verdict = future.result()
            if mutant is None:
                if found:
                    sys.exit(f"{name} fails unbroken: {verdict}")
                continue
            count += 1
            survivors += not found
            print(f"{mutant:34} {name if found else 'NOBODY':20} {verdict}", flush=True)
    print(f"{count} mutants, {survivors} survived, {time.monotonic() - begin:.0f} s")
    return 1 if survivors or not count else 0


if __name__ == "__main__":
    sys.exit(main())
