"""The most memory that a child process held, as source text that the child runs.

Notable: on Linux getrusage begins with what the parent had when it started the child. A child of a large process of
pytest would be found too large, and one that measures a difference would find none.
"""

PEAK = """
def peak_memory():
    '''Bytes: the most that this process held since its program began.'''
    import resource, sys
    if sys.platform == "linux":
        with open("/proc/self/status") as status:
            return int(status.read().partition("VmHWM:")[2].split()[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS, where Linux has kibibytes
"""
