"""What is measured, and what Slipring wants to show: the table of cases, and nothing that runs."""

from dataclasses import dataclass

KIB, MIB = 1024, 1024 * 1024
BLOCK_OPS = ("all_gather", "reduce_scatter", "broadcast", "all_to_all")
HALF_OPS = ("all_reduce_bf16", "all_reduce_f16")
OPS = ("send_recv", "stream", "stream_in_place", "all_reduce", *BLOCK_OPS, "barrier", "decode", *HALF_OPS)
DECODE_BYTES = 100 * 8 * KIB + 512 * KIB  # of a step: 100 all_reduces of 8 KiB, 1 of 512 KiB


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
        if self.op == "decode":
            return f"decode step (100 x 8 KiB, 1 x 512 KiB), {self.group.label()}"
        size = f" {size_text(self.bytes)}" if self.bytes else ""
        return f"{self.op}{size}, {self.group.label()}"


@dataclass(frozen=True)
class Target:
    """Wanted: `peer` times faster than the best peer (0: there is none), and at most `reference` times the time of the
    reference; or one of the two, if `either`."""

    peer: float
    reference: float | None = None
    reference_name: str = "bare"  # or "line", "limit", or a contender
    either: bool = False


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
    cases += [Case(op, size, two) for op in BLOCK_OPS for size in (KIB, 64 * KIB, MIB, 16 * MIB)]
    cases += [Case(op, size, two) for op in HALF_OPS for size in (KIB, 64 * KIB, MIB, 16 * MIB)]
    cases += [Case("barrier", 0, two), Case("decode", DECODE_BYTES, two), Case("decode", DECODE_BYTES, Group(4))]
    for ranks in (4, 8):
        cases += [Case("all_reduce", size, Group(ranks)) for size in (KIB, 64 * KIB, MIB, 16 * MIB)]
        cases += [Case(op, size, Group(ranks)) for op in BLOCK_OPS for size in (KIB, 64 * KIB, MIB)]
        cases.append(Case("barrier", 0, Group(ranks)))
    return cases + [Case("all_reduce", KIB, Group(2, one_core=True))]


QUICK_SIZES = {0, 8, KIB, DECODE_BYTES, 16 * KIB, MIB, 16 * MIB}


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
        cases += [Case(op, size, group) for op in OPS for group in groups
                  if op in ("all_reduce", *BLOCK_OPS) or (group == Group(2) and op not in ("barrier", "decode"))]
    chosen = [case for case in cases if case.op in ops and case.group in groups]
    if sizes:
        chosen = [case for case in chosen if case.bytes in sizes]
    elif quick:
        chosen = [case for case in chosen if case.bytes in QUICK_SIZES and case.group.ranks < 8]
    return sorted(chosen, key=lambda case: (case.group, OPS.index(case.op), case.bytes))


def target(case):
    if case.group.one_core or case.group.ranks > 2:
        return Target(peer=1.0)
    if case.op in BLOCK_OPS or case.op == "barrier":
        return Target(2.0, 1.3, "limit", either=True)
    if case.op in HALF_OPS:
        return Target(0, 1.15, "slipring-f32")
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
