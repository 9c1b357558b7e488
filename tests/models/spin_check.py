#!/usr/bin/python3
"""Checks one spin model: `spin_check.py MODEL.pml [MUTANT]`. Status 1 when something is found."""

import sys

import model_runs


def main():
    found, verdict = model_runs.run_spin(*sys.argv[1:])
    print(verdict)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
