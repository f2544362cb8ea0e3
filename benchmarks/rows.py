"""Rows that benchmarks keep as files: measured once, each in a process of its own; their tables."""

import argparse
import json
import os
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import numpy as np

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

HEAD = ("| source | seed | threshold | cut | the cut adds (95 %) | calibration error (noise), % "
        "| areas covered; width | features; cut, CPU s | an image, CPU s | peak, GB | at |\n"
        + "| --- " * 11 + "|")  # fmt: skip


def parser_of(words, folder):
    """The options that benchmarks with rows share."""
    parser = argparse.ArgumentParser(description=words.split("\n", 1)[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--json", type=Path, default=Path(folder), help="folder for figures")
    parser.add_argument("--table", type=Path, help="print the figures of this folder and stop")
    parser.add_argument("--page", type=Path, help="put the tables into this page instead")
    parser.add_argument("--picture", type=Path, help="with --table: draw the curves here")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    return parser


def measured(script, given, words, options, measure):
    """Measure a row in a process of its own, unless its file is there: `measure(file)` writes it.

    The process is the same script with the options that ask for this row alone.
    """
    file = given.json / f"{'-'.join(name_of(str(word)) for word in words)}.json"
    if file.exists():
        return
    if given.here:
        measure(file)
        return
    given.json.mkdir(parents=True, exist_ok=True)
    call = [sys.executable, script, "--here", "--data", given.data, "--json", given.json]
    call += [part for pair in options.items() for part in pair]
    done = subprocess.run([str(c) for c in call], env=os.environ | ONE_THREAD, check=False)
    print(*words, "FAILED" if done.returncode else "done", flush=True)


def name_of(words):
    """A file's name for a set's."""
    return words.replace(", ", "-").replace(" ", "")


def kept(folder):
    """All rows of a folder."""
    return [json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))]


def into_page(page, mark, text):
    """Put text between two marks of a page, which must have them."""
    begin, end = f"<!-- {mark}: made by a benchmark -->", f"<!-- {mark}: end -->"
    before, found, rest = page.read_text().partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise SystemExit(f"{page} has no lines {begin} and {end} to put the tables between.")
    page.write_text(f"{before}{begin}\n{text.strip()}\n\n{end}{after}")


def told(pair):
    """A figure with its deviation."""
    return "" if pair is None else f"{pair[0]:.1f} ± {pair[1]:.1f}"


def line(row):
    """A row of a set's table."""
    seconds, gain = row["seconds"], row.get("gain")
    calibration = row.get("calibration")
    covered = row.get("covered")
    parts = [
        row["source"],
        row["seed"],
        told(row.get("plain")),
        told(row.get("cut")),
        "" if gain is None else "{:+.1f} ({:+.1f} to {:+.1f})".format(*gain),
        "" if calibration is None else "{:.2f} ({:.2f})".format(*calibration),
        "" if covered is None else "{} of {}; {:.2f}".format(*covered, row["width"]),
        "{features:.0f}; {cut:.0f}".format(**seconds),
        f"{seconds['predict']:.2f}",
        f"{row['peak_GB']:.2f}",
        row["commit"],
    ]
    return "| " + " | ".join(str(part) for part in parts) + " |"


def mean_of(rows, way):
    """The mean of a figure over seeds, with their number and spread if there are several."""
    values = [row[way][0] for row in rows if way in row]
    if not values:
        return ""
    spread = f" ± {np.std(values, ddof=1):.1f} ({len(values)})" if len(values) > 1 else ""
    return f"{np.mean(values):.1f}{spread}"


def summary(rows, sources):
    """A line a set: the mean figure of every source, thresholds before the cut."""
    shown = [s for s in sources if any(row["source"] == s for row in rows)]
    lines = [f"| set (train / test) | {' | '.join(shown)} |", "| --- " * (len(shown) + 1) + "|"]
    for (name, _), part in grouped(rows):
        cells = [f"{name} ({part[0]['train']} / {part[0]['test']})"]
        for source in shown:
            of_source = [row for row in part if row["source"] == source]
            pair = [mean_of(of_source, way) for way in ("plain", "cut")]
            cells.append(" / ".join(pair) if any(pair) else "")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def grouped(rows):
    """Rows by set."""
    key = lambda row: (row["set"], row["labels"])  # noqa: E731
    return [(k, list(part)) for k, part in groupby(sorted(rows, key=key), key)]


def page_of(rows, sources):
    """The summary, a table a set, and what our models said of their choice."""
    rows = sorted(rows, key=lambda row: (sources.index(row["source"]), row["seed"]))
    out = [summary(rows, sources)]
    for (name, labels), part in grouped(rows):
        out.append(f"\n### {name}, {part[0]['train']} training and {part[0]['test']} test images\n")
        if labels > 2:
            accuracy = [f"{row['source']}, seed {row['seed']}: {row['plain_accuracy']:.1f} / "
                        f"{row.get('cut_accuracy', np.nan):.1f}" for row in part]  # fmt: skip
            out.append(f"{labels} labels: the mean IoU of all of them. Pixels that are right in %, "
                       f"threshold / cut: {'; '.join(accuracy)}.\n")  # fmt: skip
        out += [HEAD, *map(line, part)]
    out.append("\n### What they said\n")
    out += ["- {set}, {source}, seed {seed}: {remark}".format(**row) for row in
            sorted(rows, key=lambda row: (row["set"], row["source"], row["seed"]))]  # fmt: skip
    return "\n".join(out)
