"""One cell of the table: one solver does one task on one instance, in this process alone.

    python benchmarks/cell.py FILE SOLVER TASK

Prints JSON: CPU milliseconds of each call, the growth of the peak memory in the first, the values.
"""

import ctypes
import json
import sys
import time
from pathlib import Path

from instances import Instance
from peers import PEERS


def memory_mb(field):
    """VmRSS (now) or VmHWM (peak) of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    raise OSError(f"no {field} on this system")


def measured(work):
    """CPU milliseconds and the result."""
    start = time.process_time()
    result = work()
    return 1e3 * (time.process_time() - start), result


def watched(work):
    """The growth of the peak memory while `work` runs, beside its CPU milliseconds and result."""
    ctypes.CDLL(None).malloc_trim(0)  # what the allocator kept would hide what the work takes
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = memory_mb("VmRSS")
    spent, result = measured(work)
    return memory_mb("VmHWM") - before, spent, result


def main(file, solver, task):
    instance = Instance.load(file)
    calls = PEERS[solver]()[task](instance)
    grown, spent, (value, labels) = watched(calls[0])
    times, values = [spent], [float(value)]
    for call in calls[1:]:
        spent, (value, labels) = measured(call)
        times.append(spent)
        values.append(float(value))
    if task == "cut":
        values.append(instance.value(labels))
    print(json.dumps({"times": times, "mb": grown, "values": values}))


if __name__ == "__main__":
    main(*sys.argv[1:])
