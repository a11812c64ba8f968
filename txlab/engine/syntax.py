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
