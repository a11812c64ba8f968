"""How `txlab` and its commands present themselves: the help by groups, with examples, and what Tab completes."""

from __future__ import annotations

from functools import partial
from typing import Any

import typer.core

from txlab.cli.completing import completed

EXAMPLES = {
    "txlab": "the console: everything below, on screens",
    "txlab run gpt-tiny": "train a small GPT, which takes a minute",
    "txlab attend latest 'the cat'": "what the model just trained attends to",
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
    found = completed(parameter.metavar, parameter.opts, ctx, incomplete)
    return type(parameter).shell_complete(parameter, ctx, incomplete) if found is None else found


class Group(typer.core.TyperGroup):
    """The commands under headings, which are their `rich_help_panel`s, and examples."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        commands: dict[str, Any] = dict(self.commands)
        headings = dict.fromkeys(command.rich_help_panel for command in commands.values())
        for heading in headings:
            with formatter.section(heading or "Further"):
                members = {name: each for name, each in commands.items() if each.rich_help_panel == heading}
                formatter.write_dl([(name, each.get_short_help_str(80)) for name, each in members.items()])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Examples"):
            formatter.write_dl(list(EXAMPLES.items()))
