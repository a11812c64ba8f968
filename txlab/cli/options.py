"""The arguments and options that several commands share: each is declared once, with the same meaning everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from txlab.errors import LabError

ROWS = 200  # tokens in a table, unless all are requested


def only_form(context: typer.Context, parameter: typer.CallbackParam, value: Any) -> Any:
    """Refuse a second form of the same answer, and pictures of an unknown kind."""
    if value:
        given = [name for name in FORMS if context.params.get(name) or name == parameter.name]
        if len(given) > 1:
            raise LabError(f"--{given[0]} and --{given[1]} are two forms of the same answer; give one of them")
    if isinstance(value, Path) and value.suffix.lower() not in (".png", ".svg"):
        raise LabError(f"--out {value} is neither .png nor .svg")
    return value


# The form of the answer, see output.py.

FORMS = ("ids", "table", "out", "json", "csv")

Json = Annotated[bool, typer.Option("--json", help="one JSON object", callback=only_form)]
JsonLines = Annotated[bool, typer.Option("--json", help="one JSON object per line", callback=only_form)]
Csv = Annotated[bool, typer.Option("--csv", help="the rows as CSV", callback=only_form)]
JsonLog = Annotated[bool, typer.Option("--json", help="one JSON object per line: the rows of events.jsonl")]
Picture = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", help="a picture (.png or .svg) instead of the terminal", callback=only_form),
]
EveryToken = Annotated[bool, typer.Option("--all", help=f"every token, not only the first {ROWS}")]

# Runs.

Run = Annotated[str, typer.Argument(metavar="RUN", help="a run's name or directory, or latest")]
StepColumn = Annotated[
    str | None, typer.Option("--x", metavar="COLUMN", help="of a table: the column that is the step, from now on")
]
Detach = Annotated[bool, typer.Option("--detach", help="run in the background, and return immediately")]
Timeout = Annotated[float, typer.Option("--timeout", metavar="SECONDS", help="how long to wait for the answer", min=0)]
JsonAnswer = Annotated[bool, typer.Option("--json", help="print the answer as the JSON row of the log")]

# A model, and the text that it reads.

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="a run (its name, directory, or latest; RUN@1200 = its checkpoint there), or a folder"
    ),
]
Text = Annotated[str | None, typer.Argument(metavar="TEXT", help="the text; - or no text reads standard input")]
File = Annotated[Path | None, typer.Option("--file", metavar="FILE", help="read the text from a file")]
Target = Annotated[
    str | None,
    typer.Option("--target", metavar="TEXT", help="for an encoder–decoder: the target that goes with the source"),
]
Pair = Annotated[
    str | None,
    typer.Option("--pair", metavar="TEXT", help="for BERT and similar models: a second text after the first"),
]
Site = Annotated[
    str | None, typer.Option("--site", metavar="SITE", help="for an encoder–decoder: encoder, decoder or cross")
]
Special = Annotated[
    bool, typer.Option("--special", help="read the texts of special tokens as these tokens, not as plain text")
]

# Interventions, see reading.py.

Off = Annotated[
    list[str] | None, typer.Option("--off", metavar="HEAD", help="switch off a head (2.3) or a branch (2.feed_forward)")
]
Scale = Annotated[
    list[str] | None, typer.Option("--scale", metavar="HEAD=X", help="multiply what a head or branch adds by X")
]
Cut = Annotated[
    list[str] | None,
    typer.Option("--cut", metavar="HEAD:ROW,COL", help="ROW may not attend to COL in a head, a layer (2:), or any"),
]
Allow = Annotated[
    list[str] | None,
    typer.Option("--allow", metavar="HEAD:ROW,COL", help="ROW may attend to COL, regardless of the mask"),
]
Patch = Annotated[
    list[str] | None,
    typer.Option(
        "--patch",
        metavar="PLACE:POS[=FROM]",
        help="activations of --second, e.g. blocks.1.resid_post:5; heads#3 = head 3",
    ),
]
Second = Annotated[str | None, typer.Option("--second", metavar="TEXT", help="the text that patches come from")]
Edit = Annotated[
    list[str] | None,
    typer.Option("--edit", metavar="NAME[I,J]=X", help="change one number of a parameter, only for this command"),
]
Erratum = Annotated[
    list[str] | None, typer.Option("--erratum", metavar="NAME", help="the model with a known erratum of a lecture text")
]

# Tokenizers and word vectors.

Pattern = Annotated[
    str | None,
    typer.Option(
        "--pattern",
        metavar="PATTERN",
        help="how text is split, for files that do not say (tiktoken's ranks): gpt2, gpt4, cl100k, o200k or none",
    ),
]
Replace = Annotated[bool, typer.Option("--replace", help="replace an existing file")]
Vectors = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="a run (its name, directory, latest, RUN@1200; RUN:nce of several objectives), a folder, or a file",
    ),
]
Count = Annotated[int, typer.Option("--count", metavar="N", help="answers", min=1)]
Contexts = Annotated[
    bool, typer.Option("--context", help="u, the context vectors of words, instead of v, the centre vectors")
]
Decoding = Annotated[
    Literal["replace", "ignore", "strict"],
    typer.Option("--unicode-errors", help="bytes of a file's words that are not UTF-8: replaced, left out, or refused"),
]

# Games.

Games = Annotated[Path | None, typer.Option("--record", metavar="FILE", help="write the games to this file")]
