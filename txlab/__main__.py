"""`python -m txlab`, and so `torchrun -m txlab`.

Notable: `python -m` puts the current folder before everything else, so a torch.py or a json.py there, or a package's
metadata that declares a kind, would run. As in pip, the folder is removed from the path again, unless txlab itself was
found in it. A txlab/ in the current folder has already run by then, as Python prescribes for -m; the command `txlab` is
not affected.
"""

import os
import sys

if __name__ == "__main__":
    here, package = sys.path[0], os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    if not sys.flags.safe_path and here != package and os.path.isdir(here) and os.path.samefile(here, os.curdir):  # noqa: PTH112, PTH121
        del sys.path[0]
    from txlab.cli import main

    main()
