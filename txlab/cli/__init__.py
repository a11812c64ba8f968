"""The shell commands, one group per module; heavy packages are imported inside the commands.

Notable: `txlab --help` and every usage error are answered without torch, textual, numpy or pydantic (0.1 s instead of
2). Every user error ends here: one line on stderr, and exit status 2 (wrong input), 1 (the run failed) or 130
(interrupted).
"""

import contextlib
import errno
import inspect
import os
import re
import sys
import warnings
from collections import UserDict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TextIO

from txlab.errors import PLATFORMS, Guess, LabError, nearest

if os.name == "nt":  # before what imports fcntl and termios
    print(f"txlab: {PLATFORMS}", file=sys.stderr)
    sys.exit(LabError.exit_status)

import typer
import typer.core
import typer.main

from txlab.cli.alerts import alerts
from txlab.cli.analyse import analyse
from txlab.cli.attend import attend
from txlab.cli.box import box
from txlab.cli.catalogue import scenarios
from txlab.cli.completing import IN_BASH, completions_of, join_at_equals
from txlab.cli.control import control, stop
from txlab.cli.curves import export, plot
from txlab.cli.doctor import doctor
from txlab.cli.explain import explain
from txlab.cli.follow import attach
from txlab.cli.formulas import formulas
from txlab.cli.generate import generate
from txlab.cli.lecture import lecture
from txlab.cli.manual import help
from txlab.cli.match import match
from txlab.cli.plan import plan
from txlab.cli.play import play
from txlab.cli.presets import presets
from txlab.cli.rank import rank
from txlab.cli.run import resume, run
from txlab.cli.runs import name as name_run
from txlab.cli.runs import runs
from txlab.cli.score import score
from txlab.cli.serve import serve
from txlab.cli.terminal import ascii_only, ask_for_ascii, can_redraw, columns, complain, require_screen, sanitize
from txlab.cli.tokenize import tokenize
from txlab.cli.tokenizer import export as export_tokenizer
from txlab.cli.tokenizer import list_saved, train
from txlab.cli.tokenizer_compare import compare
from txlab.cli.verify import verify
from txlab.cli.watch import watch
from txlab.cli.words import analogy, evaluate, neighbours, similarity
from txlab.cli.words import explain as explain_words
from txlab.cli.words import export as export_words
from txlab.progress import listener
from txlab.runs.root import choose_root

EXAMPLES = {
    "txlab": "the console: everything below, on screens",
    "txlab run gpt-tiny": "train a small GPT, in ten seconds",
    "txlab attend latest 'the cat'": "the attention of the model just trained",
}


SERVE = "'txlab[serve]'"
INSTALL = {  # pip's names of modules, where they differ
    **dict.fromkeys(("textual_serve", "aiohttp", "aiohttp_jinja2", "jinja2"), SERVE),
    **{name: f"'txlab[{name}]'" for name in ("tokenizers", "sentencepiece", "gymnasium")},
    "tomli_w": "tomli-w",
    "yaml": "pyyaml",
}


class Command(typer.core.TyperCommand):
    """A command whose help says SCENARIO where newer typers say {SCENARIO} <str>, since the help text explains it."""

    def get_params(self, ctx: Any) -> list[Any]:
        parameters: list[Any] = list(super().get_params(ctx))
        for parameter in parameters:
            if parameter.param_type_name == "argument":
                parameter.display_type_rich = lambda ctx: ""
            parameter.shell_complete = partial(complete, parameter)
        return parameters

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)]


def complete(parameter: Any, ctx: Any, incomplete: str) -> list[Any]:
    items = completions_of(parameter.metavar, parameter.opts, ctx, incomplete)
    return type(parameter).shell_complete(parameter, ctx, incomplete) if items is None else items


class Declared(UserDict[str, Any]):
    """name → command, whose options are declared when the command is asked for: 2 ms each, and a call needs one."""

    def __getitem__(self, name: str) -> Any:
        member = super().__getitem__(name)
        if not isinstance(member, typer.core.TyperCommand | typer.core.TyperGroup):
            declaring = typer.Typer(add_completion=False, rich_markup_mode=None)
            declaring.command(name, cls=Command)(member)
            self.data[name] = member = typer.main.get_command(declaring)
        return member


class Group(typer.core.TyperGroup):
    """The commands under headings, and examples."""

    def __init__(self, *, members: "Members | None" = None, **arguments: Any) -> None:
        super().__init__(**{"rich_markup_mode": None, **arguments})
        self.members, self.examples = (COMMANDS, EXAMPLES) if members is None else (members, {})
        self.commands = Declared({name: each for under in self.members.values() for name, each in under.items()})

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for heading, members in self.members.items():
            with formatter.section(heading):
                formatter.write_dl([(name, summary(each)) for name, each in members.items()])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        if self.examples:
            with formatter.section("Examples"):
                formatter.write_dl(list(self.examples.items()))


def summary(member: Callable[..., Any] | Group) -> str:
    """The first sentence of its help, which is a function's docstring; no option is declared for it."""
    command = member if isinstance(member, Group) else Command(name=None, help=inspect.getdoc(member))
    return str(command.get_short_help_str(120))


Members = dict[str, dict[str, Callable[..., Any] | Group]]  # heading → name → function that is the command, or group
COMMANDS: Members = {
    "Start and steer a run": {
        **{"run": run, "watch": watch, "attach": attach, "stop": stop, "resume": resume, "control": control},
        "rank": rank,
    },
    "Inspect runs": {"runs": runs, "alerts": alerts, "name": name_run, "plot": plot, "export": export, "box": box},
    "Question a model": {
        **{"score": score, "generate": generate, "attend": attend, "explain": explain},
        "words": Group(
            name="words",
            help="Query, test and export word vectors.",
            members={
                "Commands": {
                    **{"neighbours": neighbours, "analogy": analogy, "similarity": similarity, "evaluate": evaluate},
                    **{"explain": explain_words, "export": export_words},
                }
            },
        ),
    },
    "Work with tokenizers": {
        "tokenize": tokenize,
        "tokenizer": Group(
            name="tokenizer",
            help="Learn, compare and export tokenizers.",
            members={"Commands": {"train": train, "compare": compare, "export": export_tokenizer, "list": list_saved}},
        ),
    },
    "Play, and judge games": {"play": play, "match": match, "analyse": analyse},
    "Look up, and serve": {
        **{"help": help, "scenarios": scenarios, "lecture": lecture, "formulas": formulas, "presets": presets},
        **{"plan": plan, "verify": verify, "doctor": doctor, "serve": serve},
    },
}

app = typer.Typer(
    cls=Group,
    help="A lab bench for the mathematics of language models. Without a command: the console.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def console(
    context: typer.Context,
    folder: Annotated[
        Path | None, typer.Option("--runs", metavar="DIR", help="the folder of runs; else $TXLAB_RUNS, else ./runs")
    ] = None,
    ascii: Annotated[bool, typer.Option("--ascii", help="draw with ASCII characters only")] = False,
    version: Annotated[bool, typer.Option("--version", help="show versions")] = False,
) -> None:
    choose_root(folder)
    ask_for_ascii(ascii)
    if version:
        from importlib.metadata import PackageNotFoundError
        from importlib.metadata import version as installed

        names = []
        for name in ("txlab", "torch", "textual"):
            try:
                names.append(f"{name} {installed(name)}")
            except PackageNotFoundError:  # txlab itself, run from a checkout
                names.append(f"{name} (not installed)")
        print(f"{', '.join(names)}, Python {sys.version.split()[0]}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        require_screen()
        from txlab.tui.launch import launch

        raise typer.Exit(launch(ascii=ascii_only()))


def main() -> None:
    """The entry point of the command `txlab`."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):  # the stream was replaced
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    warnings.showwarning = show_warning
    listener.set(show_progress)
    if IN_BASH:
        join_at_equals(os.environ)
    try:
        status = app(standalone_mode=False)
    except BrokenPipeError:  # the reader closed the pipe, as `head` does: not an error
        status = 0
    except SystemExit as ended:  # typer's own handling of it
        status = 0 if isinstance(ended.__context__, BrokenPipeError) else ended.code
    except LabError as error:
        complain(str(error))
        status = error.exit_status
    except (typer.Abort, KeyboardInterrupt):
        status = 130
    except ModuleNotFoundError as error:
        name = (error.name or "txlab").partition(".")[0]
        if sys.modules.get(name) is not None:
            raise  # a module of txlab, or of an installed package
        complain(f"this needs {name}, which is not installed: pip install {INSTALL.get(name, name)}")
        status = LabError.exit_status
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EIO) or error.filename is not None:
            raise
        status = unwritten(error)
    except Exception as error:
        if not hasattr(error, "exit_code") or not hasattr(error, "show"):
            raise  # a bug: show its traceback
        complain(usage_sentence(error))
        status = error.exit_code
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        silence(sys.stdout.fileno())
    except OSError as error:
        status = status or unwritten(error)
        silence(sys.stdout.fileno())
    sys.exit(status if isinstance(status, int) else 0)


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Show warnings about guesses to the user, and all other warnings as Python does."""
    if issubclass(category, Guess):
        complain(f"warning: {message}")
    else:
        print(warnings.formatwarning(message, category, filename, lineno), file=sys.stderr, end="")


def show_progress(what: str, done: int, total: int) -> None:
    """Overwrite a line on a terminal with what takes long, and erase it at the end; print nothing elsewhere."""
    if sys.stderr.isatty() and can_redraw():
        line = sanitize(f"{what}: {done / 1e6:.1f} of {total / 1e6:.1f} MB" if total > 1 else what)
        sys.stderr.write("\r\x1b[K" + (line[: columns() - 1] if done < total else ""))
        sys.stderr.flush()


def unwritten(error: OSError) -> int:
    """Return the exit status when standard output cannot be written: a full disk, a closed terminal."""
    complain(f"the output cannot be written: {error.strerror}")
    return 1


ALLOWED = {
    "int_parsing": "a whole number",
    "float_parsing": "a number",
    "greater_than_equal": "at least {ge}",
    "less_than_equal": "at most {le}",
}


def usage_sentence(error: Any) -> str:
    """Describe a usage error: the argument, its value, the allowed values, the nearest match.

    Typer checks values with pydantic, whose messages ("unable to parse string as an integer") do not include the value.
    """
    message = " ".join(str(error.format_message()).split()).removesuffix(".").replace("Value error, ", "")
    where, _, rest = message.partition(": ")
    for mistake in getattr(error.__cause__, "errors", list)():
        if words := ALLOWED.get(mistake["type"]):
            return f"{where}: {mistake['input']!r} is not allowed; allowed: {words.format_map(mistake.get('ctx', {}))}"
    if choice := re.fullmatch(r"'(.*)' is not one of (.*)", rest):
        close = nearest(choice[1], re.findall("'(.*?)'", choice[2]))
        return f"{where}: {choice[1]!r} is not allowed{close}; allowed: {choice[2]}"
    path = getattr(getattr(error, "ctx", None), "command_path", "")
    return f"{message}; {path} --help says more" if path else message


def silence(descriptor: int) -> None:
    """Discard what is still buffered for a closed pipe, instead of failing once more at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
