"""Sections and claims in, one text of tables and one page for a browser out."""

import base64
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cutlearn.report.page.html import render
from cutlearn.run.progress import clock
from cutlearn.store import atomic_write
from cutlearn_papers.contents import CONTENTS, Shown
from cutlearn_papers.course import VERDICTS, Claim, Section
from cutlearn_papers.papers import PAPERS

TITLES = ("claim", "paper", "here", "verdict")
# For each scale: the options of the command, and what they mean for the figures.
SAID = {
    "full": (" --data DIR -o DIR", ""),
    "brief": (" --scale brief --data DIR -o DIR", " **Reduced: less was run than the command can, "
              "as the words below each table tell.**"),
    "quick": (" --quick -o DIR", " The images are small and made by a program: it shows that "
              "everything runs, and no more."),
}  # fmt: skip


def markdown_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write a table in Markdown.

    Examples
    --------
    >>> print(markdown_table(["a", "b"], [["1", "2"]]))
    | a | b |
    | --- | --- |
    | 1 | 2 |
    """
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def markdown_of(about: dict[str, Any], sections: Sequence[Section], claims: Sequence[Claim]) -> str:
    """Write everything as Markdown."""
    texts = [f"# {about['paper']}: {PAPERS[about['paper']].title}", made(about)]
    if claims:
        texts += ["## Claims", markdown_table(TITLES, claim_rows(claims))]
    for section in sections:
        texts.append(f"## {section.heading}")
        if section.rows:
            texts.append(markdown_table(section.titles, section.rows))
        texts += [section.words] if section.words else []
        texts += [f"![{section.heading}]({name})" for name in section.pictures]
        texts += [f"*The command writes {name} here: it shows images of the data set, which are "
                  "not ours to pass on.*" for name in section.photographs]  # fmt: skip
    return "\n\n".join(texts) + "\n"


def page_of(
    folder: Path, about: dict[str, Any], sections: Sequence[Section], claims: Sequence[Claim]
) -> str:
    """Write everything as one page of HTML with the pictures of the folder inside."""
    counts = [sum(claim.verdict == verdict for claim in claims) for verdict in VERDICTS]
    return render(
        "paper.html",
        title=f"{about['paper']}: {PAPERS[about['paper']].title}",
        headlines=[
            *((verdict, str(count), f"of {len(claims)} claims")
              for verdict, count in zip(VERDICTS, counts)),
            ("processor time", clock(about["cpu_seconds"]), "for all parts together"),
        ],
        made=made(about),
        titles=TITLES,
        claims=claim_rows(claims),
        sections=sections,
        sources={
            name: _source(folder / name)
            for s in sections for name in (*s.pictures, *s.photographs)
        },
    )  # fmt: skip


def made(about: dict[str, Any]) -> str:
    """Say how it was made."""
    options, note = SAID[about["scale"]]
    if about.get("unfinished"):
        note += " **Unfinished: some splits or tables were not run, as the words below tell.**"
    return (
        f"Made by `cutlearn reproduce {about['paper']}{options}`, version {about['version']}, in "
        f"{about['cpu_seconds']:.0f} seconds of processor time.{note}"
    )


def claim_rows(claims: Sequence[Claim]) -> list[list[str]]:
    """Give the rows of the table of claims."""
    return [[c.text, c.paper, c.ours, f"{c.verdict} ({c.table})"] for c in claims]


def _source(path: Path) -> str:
    return f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}"


def claims_page(folder: Path) -> Path:
    """Write README.md: one line for every claim of the papers whose figures are in a folder."""
    told = {name: runs for name in PAPERS if (runs := _runs(folder, name))}
    texts = [
        "# Five papers, claim by claim",
        "Written by `cutlearn reproduce`, which computes every verdict from the figures. A verdict "
        "leads to its table; every paper has its own page of tables, pictures, and departures from "
        "the paper's protocol. Intervals are of 95 %. *Brief* rows are from a reduced run "
        "(`--scale brief`). `cutlearn reproduce all --quick` shows on made images that everything "
        "runs: 42 seconds of processor time, 2 to 12 a paper.",
        markdown_table(
            ["", "run", *VERDICTS, "processor time"],
            [_count_row(name, told.get(name, {})) for name in PAPERS],
        ),
    ]
    for name, runs in told.items():
        rows = [_linked(stem, runs[stem]["scale"], claim) for stem, claim in _claims(runs)]
        texts += [f"## [{name}: {PAPERS[name].title}]({name}.md)", markdown_table(TITLES, rows)]
        if name in CONTENTS:
            rows = [_became(name, shown) for shown in CONTENTS[name]]
            texts.append(markdown_table(["in the paper", "here"], rows))
    path = folder / "README.md"
    atomic_write(path, ("\n\n".join(texts) + "\n").encode())
    return path


def _runs(folder: Path, name: str) -> dict[str, dict[str, Any]]:
    """Give what the runs of a paper have told, by the names of their files; its own comes first.

    Others are of tables that were run apart, in a folder of their own (`yang2014-pedestrians`).
    """
    own = folder / f"{name}.json"
    files = [own, *sorted(folder.glob(f"{name}-*.json"))] if own.exists() else []
    return {file.stem: json.loads(file.read_text()) for file in files}


def _claims(runs: dict[str, dict[str, Any]]) -> list[tuple[str, dict[str, str]]]:
    """Give all claims with the runs that told them; one that was tested elsewhere is left out."""
    every = [(stem, claim) for stem, run in runs.items() for claim in run["claims"]]
    tested = {c["text"].split(":")[0] for _, c in every if c["verdict"] != VERDICTS[2]}
    own = next(iter(runs))
    return [
        (stem, claim)
        for stem, claim in every
        if claim["verdict"] != VERDICTS[2]
        or (stem == own and claim["text"].split(":")[0] not in tested)
    ]


def _count_row(name: str, runs: dict[str, dict[str, Any]]) -> list[str]:
    """How many claims of a paper have each verdict, and what was run."""
    title = f"{name}: {PAPERS[name].title}"
    if not runs:
        return [title, "not run", *[""] * (len(VERDICTS) + 1)]
    verdicts = [claim["verdict"] for _, claim in _claims(runs)]
    counts = [str(verdicts.count(verdict)) for verdict in VERDICTS]
    own = runs[name]
    run = own["scale"] + (", unfinished" if own.get("unfinished") else "")
    seconds = sum(one["cpu_seconds"] for one in runs.values())
    return [f"[{title}]({name}.md)", run, *counts, clock(seconds)]


def _became(name: str, shown: Shown) -> list[str]:
    """Give the row of a table or figure of a paper: links to what became of it, and words."""
    links = [f"[{heading}]({name}.md#{anchor(heading)})" for heading in shown.headings]
    return [shown.name, "; ".join([*links, *([shown.words] if shown.words else [])])]


def _linked(name: str, scale: str, claim: dict[str, str]) -> list[str]:
    """Give the row of a claim whose verdict leads to its table."""
    verdict = claim["verdict"]
    if claim["table"] != "none":
        verdict = f"[{verdict}]({name}.md#{anchor(claim['table'])})"
    reduced = "" if scale == "full" else f" *({scale})*"
    return [claim["text"], claim["paper"], claim["ours"] + reduced, verdict]


def anchor(heading: str) -> str:
    """Give the name under which a heading of a Markdown page is found.

    Examples
    --------
    >>> anchor("Table 1, horses: errors")
    'table-1-horses-errors'
    """
    kept = re.sub(r"[^\w\- ]", "", heading.lower())
    return kept.replace(" ", "-")
