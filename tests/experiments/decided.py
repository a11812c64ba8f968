"""How the experiments of these tests compute: everything is decided, so that nothing is timed beforehand."""

DECIDED = {
    "device": "cpu",
    "dtype": "float32",
    "attention": "sdpa",
    "threads": 1,
    "thread_mode": "operations",
    "compile": False,
}
