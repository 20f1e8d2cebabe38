"""The goals of bench/run: each is a value that is to be at most its bound. A goal whose peer is not
installed has no value, and is neither met nor missed.
"""


def verdict(value, bound):
    if value is None:
        return "not installed"
    return "met" if value <= bound else "MISSED"


def show(rows):
    """Prints every goal, and at the end the missed ones again. Returns the names of these."""
    missed = []
    for name, value, bound in rows:
        said = verdict(value, bound)
        if said == "MISSED":
            missed.append(name)
        shown = "-" if value is None else f"{value:.2f}"
        print(f"{name:50} {shown:>7}  goal {bound:<5.2f}  {said}")
    judged = sum(value is not None for _, value, _ in rows)
    print(f"\n{len(missed)} of {judged} goals missed{':' if missed else ''}")
    for name in missed:
        print(f"  {name}")
    return missed


def status(missed, strict):
    """The exit status: a missed goal is an error only where that was asked for."""
    return 1 if missed and strict else 0
