"""Two builds in one run: every figure of bench/run for both, in turns, and their ratio. Used by
bench/run --against.
"""
import statistics

# Worse than so many times the other build is said to be worse.
WORSE = 1.05
PEERS = ("bare.", "bwrap.", "gojudge", "start.bwrap", "start.bare", "start.runc", "start.unshare")
COUNTS = ("rows", "rounds", "quiet_p50")


def figures(m):
    """{name: value} of what depends on the build; peers and counts are left out."""
    found = {}
    for name, row in m.items():
        if name.startswith(PEERS):
            continue
        for key, value in row.items():
            if key not in COUNTS and not str(key).startswith(("bare", "bwrap")):
                found[f"{name} {key}"] = value
    return found


def more_is_better(name):
    return "_per_sec" in name


def ratio(name, ours, other):
    """How many times worse ours is, from the values of the same turns. A p99 is compared over the
    quietest turn of each."""
    if name.endswith(" p99"):
        return min(ours) / min(other)
    pairs = zip(other, ours) if more_is_better(name) else zip(ours, other)
    return statistics.median(a / b for a, b in pairs)


def compare(ours, other):
    """(name, ours, other, ratio) from one measurement of each build for each turn."""
    ours, other = [figures(m) for m in ours], [figures(m) for m in other]
    names = [name for name in ours[0] if all(name in m for m in ours + other)]
    rows = []
    for name in names:
        a, b = [m[name] for m in ours], [m[name] for m in other]
        rows.append((name, statistics.median(a), statistics.median(b), ratio(name, a, b)))
    return rows


def measure(programs, turns, scratch, parts):
    """[[{figure: value}, ...] of each program]: each part for both, one right after the other, as
    a machine is not as fast a minute later. Each program is first as often as the other."""
    seen = [[{} for _ in range(turns)] for _ in programs]
    for turn in range(turns):
        places = [scratch / f"{turn}-{i}" for i in range(len(programs))]
        for place in places:
            place.mkdir(mode=0o755)
        for n, part in enumerate(parts):
            for i in ((0, 1) if (turn + n) % 2 == 0 else (1, 0)):
                seen[i][turn].update(part(programs[i], places[i]))
    return seen


def show(rows):
    """Prints every figure. Returns the names of those that are worse."""
    print(f"{'':44} {'ours':>10} {'other':>10} {'times worse':>12}")
    for name, ours, other, times in rows:
        print(f"{name:44} {ours:10.3f} {other:10.3f} {times:12.3f}"
              f"{'  WORSE' if times > WORSE else ''}")
    worse = [name for name, _, _, times in rows if times > WORSE]
    print(f"\n{len(worse)} of {len(rows)} figures are worse than {WORSE} times the other's")
    return worse
