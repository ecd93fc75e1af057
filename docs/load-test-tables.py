#!/usr/bin/env python3
"""Prints the tables of docs/load-test.md from the folders of several whole runs, or of two sizes.

    docs/load-test-tables.py target/run1 target/run2 target/run3      # of one size: ratios over all runs, the rest of the first
    docs/load-test-tables.py --sizes target/small target/million      # the rates of one run beside those of a larger one

A ratio of several runs is the median of their medians. It is one number if all medians lie within 15 % of it, and it lies
within the rounds of each run; otherwise the lowest and the highest median. It is ≈ if it differs from 1 by less than a
tenth, if the runs disagree which layout is faster, or if fewer than half of their reports show that clearly. What one
operation does, and what a layout costs, are tables of report.md.
"""

import argparse
import csv
import json
import os
import pathlib
import statistics
import sys

EXAMPLE = ["relational", "rowkey-id", "name", "dirid-name", "uuid", "tree"]
ADDED = ["uuid-cells", "uuid-copied", "uuid-indexed", "fullpath-indexed", "drive"]
KEYS = ["fullpath", "dirid-name", "tree", "uuid", *ADDED[1:]]
OPERATIONS = """stat stat_deep list list_folders list_attributes list_page_deep find_name time_period time_period_scattered
    time_period_under create overwrite move_file delete rename_folder rename_deep""".split()
STEPS = [("uuid-cells", "uuid", "attributes in seven cells, not in one"), ("uuid-copied", "uuid", "attributes copied into the folder"),
         ("uuid-indexed", "uuid-copied", "index rows"), ("fullpath-indexed", "fullpath", "the same index rows"),
         ("uuid-indexed", "fullpath-indexed", "another key under the same index rows"),
         ("drive", "uuid-indexed", "the promises of the drive")]
STEP_OPERATIONS = """stat list_attributes find_name time_period time_period_scattered create overwrite move_file
    rename_folder""".split()
CONTENT = [f"{what}_{size}" for what in ["create", "read", "overwrite", "move_file", "rename_folder"] for size in ["4k", "64k"]]


class Unlike(Exception):
    """Runs that cannot be compared, and what to do."""


class Run:
    """The folder of a report."""

    def __init__(self, folder):
        self.report = json.loads((folder / "report.json").read_text())
        self.ratios = {(row["operation"], row["layout"], row["reference"], row["clients"] == "1"): row
                       for row in csv.DictReader(open(folder / "ratios.csv"))}

    def figures(self, layout, operation, one):
        """With one client or with many; none where it was not measured so."""
        found = self.report["layouts"].get(layout, {}).get(operation, {})
        if one and found.get("clients") != 1:
            found = found.get("one_client") or {}
        return found if "rounds" in found and (found["clients"] == 1) == one else None


def number(value, digits=3):
    """As `1,230`, `85.2`, `0.914`: so many digits."""
    rounded = float(f"{value:.{digits}g}")
    places = digits - 1 - int(f"{rounded:e}".split("e")[1])
    return f"{rounded:,.{max(places, 0)}f}" if value else "0"


def factor(value):
    """A ratio: `1.96`, `14`, `1/330`."""
    return f"1/{number(1 / value, 2)}" if value < 0.01 else number(value, 3 if 1 <= value < 2 else 2)


def ratio(runs, operation, layout, reference):
    for one in [False, True]:
        rows = [run.ratios.get((operation, layout, reference, one)) for run in runs]
        if all(rows):
            break
    else:
        return "-" if "unsupported" in runs[0].report["layouts"].get(layout, {}).get(operation, {}) else ""
    star = "*" if one else ""
    medians = [float(row["median"]) for row in rows]
    middle = statistics.median(medians)
    is_clear = 2 * sum(row["clear"] == "true" for row in rows) >= len(rows)
    if abs(middle - 1) < 0.1 or min(medians) < 1 < max(medians) or not is_clear:
        return f"≈{star}"
    is_in_rounds = all(float(row["lowest"]) <= middle <= float(row["highest"]) for row in rows)
    if is_in_rounds and all(abs(median / middle - 1) <= 0.15 for median in medians):
        return factor(middle) + star
    low, high = factor(min(medians)), factor(max(medians))
    return (low if low == high else f"{low} to {high}") + star


def table(header, rows, texts=1):
    """`texts`: columns that are no figures."""
    print(f"\n| {' | '.join(header)} |\n|{'---|' * texts + '---:|' * (len(header) - texts)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def shown(name):
    """An operation as its list has it."""
    lines = (pathlib.Path(__file__).parent.parent / "loadtest/src/report/operations.md").read_text().splitlines()
    return next((line.split(" | ")[1] for line in lines if line.startswith(f"| {name} |")), name)


def ratios(runs):
    def plain(operation, one):
        found = runs[0].figures("fullpath", operation, one)
        return number(found["per_second"]) if found else ""

    for layouts in [EXAMPLE, ADDED]:
        many = runs[0].report["meta"]["clients"]
        columns = ["operation", f"`fullpath`/s, {many} clients", "`fullpath`/s, 1 client", *(f"`{layout}`" for layout in layouts)]
        table(columns, ([shown(operation), plain(operation, False), plain(operation, True)]
                        + [ratio(runs, operation, layout, "fullpath") for layout in layouts] for operation in OPERATIONS))
    table(["layout / layout", "what changes", *map(shown, STEP_OPERATIONS)],
          ([f"`{top}` / `{bottom}`", change, *(ratio(runs, operation, top, bottom) for operation in STEP_OPERATIONS)]
           for top, bottom, change in STEPS), texts=2)
    layouts = ["dirid-name", "uuid", "uuid-indexed", "drive"]
    table(["operation", "`fullpath`/s", *(f"`{layout}`" for layout in layouts)],
          ([shown(operation), plain(operation, False) or plain(operation, True) + "*"]
           + [ratio(runs, operation, layout, "fullpath") for layout in layouts] for operation in CONTENT))


def keys(runs):
    """The table behind the choice of a key."""
    plain = [spot for spot in runs[0].report["hot_spots"] if (spot["remedy"], spot["splits"]) == ("none", "at quantiles")]
    # A layout of one table has no row for all of them.
    plain.sort(key=lambda spot: spot["table"] == "all tables")
    spots = {(spot["load"], spot["layout"]): spot["spread"] for spot in plain if spot["table"] in ["rows", "all tables"]}

    def heat(load, layout):
        spread = spots.get((load, layout))
        # Reports of older programs lack it.
        return number(spread["hottest_per_second"]) if "hottest_per_second" in (spread or {}) else ""

    def milliseconds(layout, operation):
        found = runs[0].figures(layout, operation, True)
        return number(1e3 / found["per_second"]) if found else ""

    rates = ["stat", "time_period", "list_page_deep", "create", "overwrite"]
    header = ["layout", "rename a folder, ms", "deep, ms", *map(shown, rates), "bytes a file", "hottest server, 64 users", "one import"]
    table(header, ([f"`{layout}`", *(milliseconds(layout, operation) for operation in ["rename_folder", "rename_deep"])]
                   + ["1" if layout == "fullpath" else ratio(runs, operation, layout, "fullpath") for operation in rates]
                   + [number(runs[0].report["costs"][layout]["disk_bytes_per_file"])]
                   + [heat(load, layout) for load in ["64 users import", "one tree imported"]] for layout in KEYS))


def sizes(small, large):
    layouts = [layout for layout in [*EXAMPLE, "fullpath", *ADDED] if layout in large.report["layouts"]]

    def cell(layout, operation):
        for one in [False, True]:
            found = [run.figures(layout, operation, one) for run in [small, large]]
            if all(found):
                return " → ".join(number(at["per_second"]) for at in found) + ("*" if one else "")
        return ""

    table(["operations a second", *(f"`{layout}`" for layout in layouts)],
          ([shown(operation), *(cell(layout, operation) for layout in layouts)] for operation in OPERATIONS))


def check(runs, folders, sizes):
    """Only whole runs of the same program and clients can be compared, and of one size only those of all layouts with the
    same files, rounds and settings on one machine."""
    for run, folder in zip(runs, folders):
        if run.report["meta"].get("complete") is not True:
            raise Unlike(f"{folder} has no whole run: run `loadtest` again")
    alike = ["clients", "quick", "machine", "version", "versions"]
    for what in alike if sizes else [*alike, "files", "rounds", "settings"]:
        if len({json.dumps(run.report["meta"][what], sort_keys=True) for run in runs}) > 1:
            raise Unlike(f"the runs differ in {what}: name runs with the same options, of one program and one machine")
    if len({run.report["meta"]["started"] for run in runs}) < len(runs):
        raise Unlike("a run is named twice: name different runs")
    for run, folder in zip(runs, folders):
        lacks = {"fullpath", *EXAMPLE, *ADDED} - run.report["layouts"].keys()
        if lacks and not sizes:
            raise Unlike(f"{folder} lacks {min(lacks)}: run `loadtest` without --layouts")
    if sizes and runs[0].report["meta"]["files"] >= runs[1].report["meta"]["files"]:
        raise Unlike("--sizes takes the smaller run first, then the larger one")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", action="store_true", help="two runs of different sizes: a smaller and a larger one")
    parser.add_argument("folder", nargs="+", type=pathlib.Path)
    args = parser.parse_args()
    if args.sizes and len(args.folder) != 2:
        parser.error("--sizes takes two folders")
    runs = [Run(folder) for folder in args.folder]
    check(runs, args.folder, args.sizes)
    if args.sizes:
        return sizes(*runs)
    keys(runs)
    ratios(runs)


if __name__ == "__main__":
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes again when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit("load-test-tables.py: the output was closed before all tables were printed")
    except Unlike as error:
        sys.exit(f"load-test-tables.py: {error}")
    except (OSError, ValueError) as error:
        sys.exit(f"load-test-tables.py: {error}: name folders in which `loadtest` has written a whole report")
    except LookupError as error:
        sys.exit(f"load-test-tables.py: a report lacks {error}: name folders of whole runs")
