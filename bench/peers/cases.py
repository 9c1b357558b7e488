"""What is measured, and what Slipring wants to show: the table of cases, and nothing that runs."""

from dataclasses import dataclass

KIB, MIB = 1024, 1024 * 1024
OPS = ("send_recv", "stream", "stream_in_place", "all_reduce")


@dataclass(frozen=True)
class Group:
    """Cases that share their processes: so many ranks on such cores."""

    ranks: int
    one_core: bool = False

    def cores(self, available):
        return available[:1] if self.one_core else available[:2]

    def label(self):
        return f"{self.ranks} ranks on one core" if self.one_core else f"{self.ranks} ranks on 2 cores"

    def oversubscribed(self, available):
        return self.ranks > len(self.cores(available))


@dataclass(frozen=True)
class Case:
    op: str
    bytes: int
    group: Group

    def label(self):
        return f"{self.op} {size_text(self.bytes)}, {self.group.label()}"


@dataclass(frozen=True)
class Target:
    """Wanted: `peer` times faster than the best peer, at most `reference` times the time of the reference."""

    peer: float
    reference: float | None = None
    reference_name: str = "bare"


def size_text(size):
    for unit, name in ((1 << 30, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def parse_size(text):
    units = {"K": KIB, "M": MIB, "G": 1 << 30}
    text = text.strip().upper().removesuffix("IB").removesuffix("B")
    if text and text[-1] in units:
        return int(text[:-1]) * units[text[-1]]
    return int(text)


def all_cases():
    two = Group(2)
    cases = [Case("send_recv", size, two) for size in (8, 64 * KIB, MIB)]
    cases += [Case(op, MIB, two) for op in ("stream", "stream_in_place")]
    cases += [Case("all_reduce", 4 * 4**step, two) for step in range(14)]
    for ranks in (4, 8):
        cases += [Case("all_reduce", size, Group(ranks)) for size in (KIB, 64 * KIB, MIB, 16 * MIB)]
    return cases + [Case("all_reduce", KIB, Group(2, one_core=True))]


QUICK_SIZES = {8, KIB, 16 * KIB, MIB, 16 * MIB}


def select(ops, sizes, ranks, one_core, quick):
    """The table, narrowed. Without --ranks and --one-core all groups run; either one alone selects its own."""
    chosen = []
    for case in all_cases():
        group_named = case.group.one_core if one_core and not ranks else True
        if ranks:
            group_named = (one_core and case.group.one_core) or (not case.group.one_core and case.group.ranks in ranks)
        if case.op not in ops or not group_named or (sizes and case.bytes not in sizes):
            continue
        if quick and not sizes and (case.bytes not in QUICK_SIZES or case.group.ranks == 8):
            continue
        chosen.append(case)
    # A size outside the table is measured too: a person who asks for 100K wants 100K.
    for op in ops:
        known = {case.bytes for case in all_cases() if case.op == op}
        for size in sorted(set(sizes or ()) - set().union(*({c.bytes} for c in all_cases()))):
            if size not in known:
                groups = [Group(n) for n in (ranks or ([] if one_core else [2]))]
                groups += [Group(2, one_core=True)] if one_core else []
                chosen += [Case(op, size, g) for g in groups if op == "all_reduce" or g == Group(2)]
    return chosen


def target(case):
    if case.group.one_core or case.group.ranks > 2:
        return Target(peer=1.0)
    if case.op == "send_recv":
        return Target(1.5, 1.5, "line") if case.bytes == 8 else None
    if case.op == "stream":
        return Target(1.3)
    if case.op != "all_reduce":
        return None
    for limit, wanted in (
        (KIB, Target(3.0, 1.4)),
        (16 * KIB, Target(1.8, 1.3)),
        (256 * KIB, Target(1.5, 1.25)),
        (16 * MIB, Target(2.0, 1.25)),
        (256 * MIB, Target(3.5, 1.2)),
    ):
        if case.bytes <= limit:
            return wanted
    return None
