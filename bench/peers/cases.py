"""What is measured, and what Slipring wants to show: the table of cases, and nothing that runs."""

from dataclasses import dataclass

KIB, MIB = 1024, 1024 * 1024
OPS = ("send_recv", "stream", "stream_in_place", "all_reduce")


@dataclass(frozen=True, order=True)
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


def wanted_groups(ranks, one_core):
    """Without --ranks and --one-core all groups; with either, those named."""
    if not ranks and not one_core:
        return {case.group for case in all_cases()}
    return {Group(n) for n in ranks or ()} | ({Group(2, one_core=True)} if one_core else set())


def select(ops, sizes, ranks, one_core, quick):
    """The table, narrowed; a size that is not in the table is measured all the same."""
    groups = wanted_groups(ranks, one_core)
    cases = all_cases()
    for size in sorted(set(sizes or ()) - {case.bytes for case in cases}):
        cases += [Case(op, size, group) for op in OPS for group in groups if op == "all_reduce" or group == Group(2)]
    chosen = [case for case in cases if case.op in ops and case.group in groups]
    if sizes:
        chosen = [case for case in chosen if case.bytes in sizes]
    elif quick:
        chosen = [case for case in chosen if case.bytes in QUICK_SIZES and case.group.ranks < 8]
    return sorted(chosen, key=lambda case: (case.group, OPS.index(case.op), case.bytes))


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
