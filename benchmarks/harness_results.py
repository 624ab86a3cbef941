"""What the scripts that compare programs share: fields of a result, provenance, means."""

import math
import pathlib
import shlex
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
CASE_FIELDS = ("case", "cell", "T", "B", "I", "H", "L", "bidirectional", "lengths")
RUN_FIELDS = ("precision", "pass", "variant")
VALUE_FIELDS = ("runs", "median_ms", "min_ms", "q1_ms", "q3_ms", "gflop", "peak_memory_mib", "error")


def commit():
    answer = subprocess.run(["git", "-C", HERE, "describe", "--always", "--dirty"], capture_output=True, text=True)
    return answer.stdout.strip() or "unknown"


def command_line(script):
    """The command that runs, without the folders of this machine."""
    arguments = [pathlib.Path(a).name if a.startswith("/") else a for a in sys.argv[1:]]
    return shlex.join([f"benchmarks/{script}", *arguments])


def write_provenance(file, provenance):
    """Comment lines (#) that say where the numbers below come from."""
    file.writelines(f"# {key}: {value}\n" for key, value in provenance.items())


def rounded(entry):
    return {k: float(f"{v:.5g}") if isinstance(v, float) else v for k, v in entry.items()}


def geometric_mean(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def text(value, form):
    return "-" if value is None else format(value, form)
