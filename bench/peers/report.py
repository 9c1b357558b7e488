"""From samples to a table: medians per regime, ratios to the best peer, to the bare reference and to the limit."""

from statistics import median

import cases as table
import contenders

REGIMES = ("near", "mid", "far")
FEWEST_SAMPLES = 3
PEERS = {setting.name for setting in contenders.SETTINGS if setting.is_peer}


BEGIN, END = "<!-- bench/peers/run: begin -->", "<!-- bench/peers/run: end -->"


def between_marks(document, text):
    """The document with everything between its two marks replaced: figures in documents are never typed."""
    head, found, rest = document.partition(BEGIN)
    _, closed, tail = rest.partition(END)
    if not found or not closed:
        raise SystemExit(f"the document lacks the marks '{BEGIN}' and '{END}'")
    return f"{head}{BEGIN}\n{text.replace('# Slipring beside', '## Slipring beside', 1)}{END}{tail}"


def time_text(ns):
    if ns is None:
        return "-"
    us = ns / 1000
    return f"{us:.3f}" if us < 1 else f"{us:.2f}" if us < 10 else f"{us:.1f}" if us < 100 else f"{us:,.0f}"


def ratio_text(ratio):
    return "-" if ratio is None else f"{ratio:.2f}" if ratio < 10 else f"{ratio:,.0f}"


def case_of(entry):
    return table.Case(entry["op"], entry["bytes"], table.Group(entry["ranks"], entry["one_core"]))


def summarise(entry):
    """One row per regime that has enough samples of some contender; one row over all of them if none has."""
    rows = []
    for regime in REGIMES:
        row = summarise_regime(entry, regime, [s for s in entry["samples"] if s["regime"] == regime])
        if row:
            rows.append(row)
    if not rows and entry["samples"]:
        rows.append(summarise_regime(entry, "any", entry["samples"], fewest=1))
    return rows


def summarise_regime(entry, regime, samples, fewest=FEWEST_SAMPLES):
    by_name = {}
    for sample in samples:
        by_name.setdefault(sample["contender"], []).append(sample["median_ns"])
    times = {name: median(values) for name, values in by_name.items() if len(values) >= fewest}
    if not times:
        return None
    row = {"regime": regime, "samples": {name: len(values) for name, values in by_name.items()}, "median_ns": times}
    p99 = {name: [s["p99_ns"] for s in samples if s["contender"] == name and "p99_ns" in s] for name in times}
    row["p99_ns"] = {name: median(values) for name, values in p99.items() if values}
    row["line_ns"] = median([s["link_before_ns"] for s in samples] + [s["link_after_ns"] for s in samples])
    peers = {name: value for name, value in times.items() if name in PEERS}
    row["best_peer"] = min(peers, key=peers.get) if peers else None
    ours = times.get("slipring")
    row["peer_ratio"] = peers[row["best_peer"]] / ours if ours and peers else None
    row["bare_ratio"] = ours / times["bare"] if ours and "bare" in times else None
    # Without the machine's own figure, a line hand-over alone limits only what moves no data to speak of.
    limit = max(row["line_ns"], times.get("memory", 0)) if "memory" in times or entry["bytes"] <= 64 else None
    row["limit_ratio"] = ours / limit if ours and limit else None
    row["verdict"] = verdict(case_of(entry), row, ours)
    return row


def reference_ratio(wanted, row, ours):
    if wanted.reference_name == "line":
        return ours / row["line_ns"]
    if wanted.reference_name == "limit":
        return row["limit_ratio"]
    named = row["median_ns"].get(wanted.reference_name)
    return ours / named if named else None


def verdict(case, row, ours):
    wanted = table.target(case)
    if wanted is None or ours is None or (wanted.peer and row["peer_ratio"] is None):
        return "-"
    missed = []
    if wanted.peer and row["peer_ratio"] < wanted.peer:
        missed.append(f"peer {row['peer_ratio']:.2f} < {wanted.peer}")
    reference = reference_ratio(wanted, row, ours) if wanted.reference else None
    if reference and reference > wanted.reference:
        missed.append(f"{wanted.reference_name} {reference:.2f} > {wanted.reference}")
    if wanted.either and wanted.reference and not reference:
        missed.append(f"{wanted.reference_name} not measured")
    if not missed or (wanted.either and len(missed) < 2):
        return "met"
    return "missed: " + (" and " if wanted.either else ", ").join(missed)


def progress_line(entry):
    """What a person wants to see as soon as a case is through."""
    parts = []
    for row in summarise(entry):
        times = row["median_ns"]
        shown = [f"{name} {time_text(times[name])}" for name in ("slipring", "bare") if name in times]
        if row["best_peer"]:
            shown.append(f"best peer {row['best_peer']} {time_text(times[row['best_peer']])}")
        if row["peer_ratio"]:
            shown.append(f"{ratio_text(row['peer_ratio'])}x")
        parts.append(f"    {row['regime']:<4} line {row['line_ns']:.0f} ns: " + ", ".join(shown) + " (us)")
    moved = sum(sample["regime"] == "moved" for sample in entry["samples"])
    parts.append(f"    {len(entry['samples'])} turns in {entry['seconds']:.0f} s, the machine moved during {moved}")
    wrong = {name: count for name, count in entry["wrong"].items() if count}
    if wrong:
        parts.append(f"    WRONG RESULTS: {wrong}")
    return "\n".join(parts)


def markdown(data):
    sections = [header_text(data), memory_text(data)]
    seen = []
    for entry in data["cases"]:
        key = (entry["op"], entry["ranks"], entry["one_core"])
        if key not in seen:
            seen.append(key)
    for key in seen:
        entries = [e for e in data["cases"] if (e["op"], e["ranks"], e["one_core"]) == key]
        sections.append(cases_text(entries))
    return "\n\n".join(sections) + "\n"


def brief(data):
    """For a README: ours, the best peer and the bare reference, a line per case and regime."""
    header = data["header"]
    lines = [f"Measured {header['date'][:10]} on {header['CPU']}, kernel {header['kernel']}, by `{header['command']}`: float32, "
             "sums in place, moves out of place, medians in microseconds.", "",
             "`near` and `far` say where the host had put the two cores at that time: a cache line passes in about 20 ns or",
             "200 ns. The bare reference is a program of two processes that can do nothing else.", "",
             "| case | cores | Slipring | best peer | peer / Slipring | bare reference | Slipring / bare |",
             "| --- | --- | --- | --- | --- | --- | --- |"]
    for entry in data["cases"]:
        for row in summarise(entry):
            times = row["median_ns"]
            if "slipring" not in times or not row["best_peer"]:
                continue
            lines.append(f"| {case_of(entry).label()} | {row['regime']} | {time_text(times['slipring'])} | "
                         f"{time_text(times[row['best_peer']])} ({row['best_peer']}) | {ratio_text(row['peer_ratio'])} | "
                         f"{time_text(times.get('bare'))} | {ratio_text(row['bare_ratio'])} |")
    return "\n".join(lines) + "\n"


def header_text(data):
    lines = ["# Slipring beside its peers", ""]
    lines += [f"* {key}: {value}" for key, value in data["header"].items()]
    lines += [f"* {name}: {version}" for name, version in data["versions"].items()]
    lines += [f"* missing: {sentence}" for sentence in data["missing"]]
    lines += [f"* lost on the way: {sentence}" for sentence in data["lost"]]
    lines += ["", "Times are microseconds: the median over the turns of a contender in one regime, where a turn gives the",
              "median of its batches. A regime is the time of a cache line between the two cores, probed before and after",
              "each turn (near < 45 ns, mid to 150 ns, far above); rows compare only turns of one regime. `memory` is the",
              "additions and copies alone, by all ranks at once; `bare` is the reference program; the limit is `memory`",
              "or one line hand-over, whichever is longer. Ratio to the best peer: above 1, Slipring is faster. Operations of",
              "one block per rank count all blocks together and are timed on their slowest rank; `decode` is a step of 100",
              "all_reduces of 8 KiB and one of 512 KiB, its p99 the median over turns; `copy-wait` is the scheme of copying in,",
              "waiting for all and adding up all; `slipring-f32` sums floats of the same bytes as the two-byte types."]
    return "\n".join(lines)


def memory_text(data):
    lines = ["## Memory per rank and idle cost", "",
             "Resident KiB of the largest rank (its program and libraries included) after start-up, and at the end without",
             "the user's buffers; the part in shared memory; CPU that all ranks together burn while they wait for a turn.", "",
             "| contender | ranks | start KiB | of it shared | end KiB | of it shared | idle CPU |",
             "| --- | --- | --- | --- | --- | --- | --- |"]
    for m in data["memory"]:
        lines.append(f"| {m['contender']} | {m['group']} | {m['start_rss_kib']:,} | {m['start_shared_kib']:,} | "
                     f"{m['end_rss_kib']:,} | {m['end_shared_kib']:,} | {m['idle_cpu_percent']:.1f} % |")
    return "\n".join(lines)


def cases_text(entries):
    first = case_of(entries[0])
    names = [s.name for s in contenders.SETTINGS
             if any(sample["contender"] == s.name for e in entries for sample in e["samples"])]
    columns = ["size", "regime", "turns", "line ns", *names, "best peer", "peer / slipring", "slipring / bare",
               "slipring / limit", "wanted", "outcome"]
    lines = [f"## {first.op}, {first.group.label()}", "", "| " + " | ".join(columns) + " |",
             "| " + " | ".join("---" for _ in columns) + " |"]
    for entry in entries:
        for row in summarise(entry):
            lines.append("| " + " | ".join(row_cells(entry, row, names)) + " |")
    wrong = [f"{case_of(e).label()}: {name} {count} elements" for e in entries for name, count in e["wrong"].items() if count]
    return "\n".join(lines + (["", "Wrong results: " + "; ".join(wrong) + "."] if wrong else []))


def row_cells(entry, row, names):
    case = case_of(entry)
    wanted = table.target(case)
    wish = "-"
    if wanted:
        parts = [f"{wanted.peer}x"] if wanted.peer else []
        parts += [f"{wanted.reference_name} {wanted.reference}"] if wanted.reference else []
        wish = (" or " if wanted.either else ", ").join(parts)
    counts = sorted(row["samples"].values())
    times = [time_text(row["median_ns"].get(name)) for name in names]
    if case.op.startswith("stream"):
        times = [f"{text} ({case.bytes / row['median_ns'][name]:.1f} GB/s)" if name in row["median_ns"] else text
                 for name, text in zip(names, times)]
    if case.op == "decode":
        times = [f"{text} (p99 {time_text(row['p99_ns'][name])})" if name in row["p99_ns"] else text
                 for name, text in zip(names, times)]
    return [table.size_text(case.bytes), row["regime"], f"{counts[0]}-{counts[-1]}", f"{row['line_ns']:.0f}", *times,
            row["best_peer"] or "-", ratio_text(row["peer_ratio"]), ratio_text(row["bare_ratio"]),
            ratio_text(row["limit_ratio"]), wish, row["verdict"]]
