"""The syntax tree of a formula or network that the user types; nothing evaluates it (MATH F1, F6).

Notable: the depth is counted here, level by level, before any reader recurses. CPython itself counts the depth of all
trees being made in one place, and raises SystemError if two threads build one simultaneously (gh-106905).
"""

from __future__ import annotations

import ast
import threading
import warnings

from txlab.errors import LabError

TRIES = 5
IN_WORDS: dict[type[ast.AST], str] = {
    ast.IfExp: "a choice with if and else",
    ast.Compare: "a comparison",
    ast.BoolOp: "and, or",
    ast.Not: "not",
    ast.Lambda: "a function of its own",
    ast.Tuple: "a comma",
    ast.List: "a list in [ ]",
    ast.Set: "a set in { }",
    ast.Dict: "a table in { }",
    ast.Subscript: "an index in [ ]",
    ast.Attribute: "a point between names",
    ast.Call: "a function",
    ast.Starred: "a * before a name",
    ast.Constant: "a text or a truth value",
    ast.Mod: "the remainder %",
    ast.FloorDiv: "the division //",
    ast.Div: "a division /",
    ast.Mult: "such a product",
    ast.Pow: "a power **",
    ast.MatMult: "the sign @",
}
"""What a reader of mathematics calls the parts of Python that a formula may not have."""
_parsing = threading.Lock()


def syntax_tree(text: str, deepest: int) -> ast.Module:
    """The statements of a text, one thread at a time. SyntaxError if there are none that Python could read, LabError
    if more than `deepest` expressions are inside each other."""
    for _ in range(TRIES):
        with _parsing, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd literals, which are refused when they are read
            try:
                tree = ast.parse(text)
            except SystemError:  # a tree is being made elsewhere in the process
                continue
            except (ValueError, RecursionError, MemoryError) as error:
                raise SyntaxError(str(error)) from None
        if depth(tree) > deepest:
            raise LabError(f"at most {deepest} operations may be inside each other")
        return tree
    raise LabError("this could not be read just now; try again")


def in_words(node: ast.AST) -> str:
    """The part of a text that a node stands for, in the words of mathematics.

    >>> in_words(ast.parse("x if x > 0 else 0", mode="eval").body), in_words(ast.parse("x % 2", mode="eval").body)
    ('a choice with if and else', 'the remainder %')
    """
    sign = node.op if isinstance(node, ast.BinOp | ast.UnaryOp) else node
    return IN_WORDS.get(type(sign), "such a sign")


def depth(tree: ast.AST) -> int:
    """How many expressions are inside each other, at most.

    >>> depth(ast.parse("h = -x")), depth(ast.parse("h = 1 + 2*x"))
    (2, 3)
    """
    count, level = 0, [tree]
    while level:
        count += any(isinstance(node, ast.expr) for node in level)
        level = [
            child
            for node in level
            for child in ast.iter_child_nodes(node)
            if not isinstance(child, ast.expr_context | ast.operator | ast.unaryop)
        ]
    return count
