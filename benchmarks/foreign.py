"""Models and tokenizers from elsewhere in txlab, compared with their own libraries.

python benchmarks/foreign.py tokenizers [FOLDER]   tokenizers × strings: ids, decoding, offsets (foreign_tokenizers.py)
python benchmarks/foreign.py models [NAME]         models × quantities (foreign_models.py)
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

TABLES = {"tokenizers": "foreign_tokenizers", "models": "foreign_models"}


def main() -> None:
    table, *others = sys.argv[1:] or [""]
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    if table not in TABLES:
        print(__doc__.strip())
        raise SystemExit(2 if table else 0)
    importlib.import_module(TABLES[table]).main(others)


if __name__ == "__main__":
    main()
