#!/usr/bin/env python3
"""Runs our recurrent layers, cuDNN's four algorithms and PyTorch's layers on a GPU and compares them.

  cmake --preset cuda -DTL_BUILD_BENCHMARKS=ON && cmake --build --preset cuda
  pip install -r benchmarks/requirements.txt
  python benchmarks/compare_gpu.py                     # everything
  python benchmarks/compare_gpu.py --short             # a few shapes
  python benchmarks/compare_gpu.py --only goal --precision bf16
  python benchmarks/compare_gpu.py --resume FILE.csv   # the same arguments again, after it was stopped
  python benchmarks/compare_gpu.py --report FILE.csv   # table and plot of results that exist

The programs stay alive and take each case in turn. Every result goes to the CSV at once, so that a run that is stopped
loses nothing. A ratio is how many times ours is faster: than the fastest of cuDNN's algorithms, eager or captured in a
CUDA graph; and than its STANDARD algorithm captured. A program that does not start or finds no GPU is left out, with its
words; without ours the ratios are PyTorch's.
"""

import argparse
import contextlib
import csv
import datetime
import json
import os
import pathlib
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from harness_cases import read_cases, read_models
from harness_drivers import Driver, DriverError
from harness_gpu_report import plot, print_report
from harness_results import CASE_FIELDS, RUN_FIELDS, VALUE_FIELDS, command_line, commit, rounded, write_provenance

HERE = pathlib.Path(__file__).resolve().parent
BUILD = HERE.parent / "build" / "cuda" / "benchmarks"
PRECISIONS = ("tf32", "bf16", "fp16", "fp32", "bf16x6")
SLOW = ("fp32", "bf16x6")  # only at the shapes marked for fp32, unless asked for
# What the others run against a precision of ours: bf16x6 is as exact as fp32, by other means.
OF_RIVALS = {"bf16x6": "fp32"}
MORE_FIELDS = ("forward_ms", "backward_data_ms", "backward_weights_ms", "reserve_bytes", "workspace_bytes",
               "output_bytes", "note", "kernels")  # fmt: skip
ENDED = "the program ended"  # the note of a row to measure again
FIELDS = ("implementation", "version", "group", *CASE_FIELDS, *RUN_FIELDS, *VALUE_FIELDS, *MORE_FIELDS)


def program(path):
    """A path that a process can be started by from anywhere."""
    return pathlib.Path(path).absolute()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="few shapes, neither fp32 nor bf16x6")
    parser.add_argument("--precision", action="append", choices=PRECISIONS,
                        help="may be repeated; default all, of which fp32 and bf16x6 only at the shapes marked for it")  # fmt: skip
    parser.add_argument("--only", action="append", metavar="WORD",
                        help="only the group of this name or cases whose name contains it (may be repeated)")  # fmt: skip
    parser.add_argument("--pass", dest="passes", action="append", choices=("forward", "train"), help="default train")
    parser.add_argument("--shapes", type=pathlib.Path, default=HERE / "shapes_gpu.json")
    parser.add_argument("--ours", type=program, default=BUILD / "turbolstm_rnn_bench", help="our program")
    parser.add_argument("--cudnn", type=program, default=BUILD / "cudnn_rnn", help="cuDNN's program")
    parser.add_argument("--python", default=sys.executable, help="interpreter that has PyTorch")
    parser.add_argument("--min-time", type=float, default=0.05, help="least seconds per measurement of ours")
    parser.add_argument("--prepare", type=int, metavar="N", default=min(16, os.cpu_count()),
                        help="processes of ours that first run every case once, untimed, so that its kernels are compiled; 0: none (default %(default)s)")  # fmt: skip
    parser.add_argument("--output", type=pathlib.Path, default=HERE / "results", help="folder of the CSV and the plot")
    parser.add_argument("--resume", type=pathlib.Path, metavar="CSV", help="add what this file lacks")
    parser.add_argument("--report", type=pathlib.Path, metavar="CSV", help="run nothing: table and plot of this file")
    parser.add_argument("--commit", help="commit to note where the checkout is without git")
    options = parser.parse_args()
    options.passes = options.passes or ["train"]
    return options


def chosen_cases(options):
    """(group, case, precision) in the order they run."""
    document = json.loads(options.shapes.read_text())
    marks = document["shapes"] + document["models"]
    chosen = []
    for mark, case in zip(marks, read_cases(options.shapes) + read_models(options.shapes)):
        named = not options.only or any(word == mark["group"] or word in case["case"] for word in options.only)
        if not named or (options.short and not mark.get("short")):
            continue
        for precision in options.precision or PRECISIONS:
            slow = precision in SLOW and (options.short or not mark.get("fp32"))
            if options.precision or not slow:
                chosen.append((mark["group"], case, precision))
    return chosen


def arguments_of_programs(options):
    arguments = ["--shapes", options.shapes, "--device", "cuda", "--serve"]
    return arguments + [part for name in options.passes for part in ("--pass", name)]


def prepare(options):
    """Our kernels of all cases are compiled, by several processes at once, and kept on disk."""
    cases = chosen_cases(options)

    def run(first):
        try:
            driver = Driver([options.ours, *arguments_of_programs(options), "--min-time", "0"])
            driver.wait()
        except DriverError:
            return  # it will be left out
        for _, case, precision in cases[first :: options.prepare]:
            with contextlib.suppress(DriverError):  # it will say so again when it is timed
                driver.ask(case["case"], precision)
        driver.stop()

    start = time.monotonic()
    with ThreadPoolExecutor(max(1, options.prepare)) as processes:
        list(processes.map(run, range(options.prepare)))
    print(f"prepared {len(cases)} cases in {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)


def start_drivers(options):
    arguments = arguments_of_programs(options)
    commands = {
        "TurboLSTM": [options.ours, *arguments, "--min-time", options.min_time],
        "cuDNN": [options.cudnn, *arguments],
        "PyTorch": [options.python, HERE / "baselines" / "pytorch_gpu.py", *arguments],
    }
    started, drivers = {}, {}
    for name, command in commands.items():
        try:
            started[name] = Driver(command)
        except DriverError as error:
            print(f"left out: {name}: {error}", file=sys.stderr)
    for name, driver in started.items():
        try:
            driver.wait()
            drivers[name] = driver
        except DriverError as error:
            driver.stop()
            print(f"left out: {name}: {error}", file=sys.stderr)
    return drivers


def gpu_driver():
    """Name of the GPU and version of its driver, as nvidia-smi says."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version,clocks.max.sm", "--format=csv,noheader"]
    try:
        return subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "unknown"


def read_rows(path):
    with path.open() as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    for row in rows:
        row.update({name: float(row[name]) for name in ("median_ms", "peak_memory_mib") if row.get(name)})
        row.update({name: int(row[name]) for name in "TBIHL"})
    return rows


class Results:
    """The CSV that grows row by row."""

    def __init__(self, options, drivers):
        stem = datetime.date.today().strftime("rnn-gpu-short-%Y%m%d" if options.short else "rnn-gpu-%Y%m%d")
        self.path = options.resume or options.output / f"{stem}.csv"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.done = set()
        if options.resume:
            rows = [row for row in read_rows(self.path) if row["note"] != ENDED]
            self.done = {(row["implementation"], row["case"], row["precision"], row["pass"]) for row in rows}
        self.file = self.path.open("a" if options.resume else "w", newline="")
        provenance = {
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "commit": options.commit or commit(),
            "gpu, driver, highest clock": gpu_driver(),
            "command": command_line("compare_gpu.py"),
        }
        for driver in drivers.values():
            head = {k: v for k, v in driver.head.items() if isinstance(v, str) and k != "implementation"}
            provenance[driver.head["implementation"]] = ", ".join(f"{k} {v}" for k, v in head.items())
        write_provenance(self.file, provenance)
        self.writer = csv.DictWriter(self.file, FIELDS, restval="", extrasaction="ignore", lineterminator="\n")
        if not options.resume:
            self.writer.writeheader()
        self.file.flush()

    def has(self, implementation, case, precision, passes):
        wanted = ["step"] if "model" in case else passes
        return all((implementation, case["case"], precision, name) in self.done for name in wanted)

    def add(self, driver, group, entries):
        labels = {"implementation": driver.head["implementation"], "version": driver.head["version"], "group": group}
        for entry in entries:
            self.writer.writerow({**labels, **rounded(entry)})
        self.file.flush()


def failed(case, precision, options, error):
    """The rows of a case at which a program ended."""
    names = ["step"] if "model" in case else options.passes
    entry = {**case, "precision": precision, "variant": "", "error": str(error), "note": ENDED}
    return [{**entry, "pass": name} for name in names]


def ask(driver, name, case, precision):
    """The entries of a case, labelled with our precision where the others run another one."""
    theirs = precision if name == "TurboLSTM" else OF_RIVALS.get(precision, precision)
    entries = driver.ask(case["case"], theirs)
    if theirs == precision:
        return entries
    words = f"runs in {theirs}"
    return [
        {**entry, "precision": precision, "note": f"{entry['note']}; {words}" if entry.get("note") else words}
        for entry in entries
    ]


def measure_cases(options, drivers, results):
    chosen = chosen_cases(options)
    start = time.monotonic()
    for number, (group, case, precision) in enumerate(chosen, 1):
        for name, driver in drivers.items():
            if results.has(name, case, precision, options.passes) or ("model" in case and not driver.head.get("models")):
                continue
            try:
                entries = ask(driver, name, case, precision)
            except DriverError as error:
                entries = failed(case, precision, options, error)
                print(f"{name} at {case['case']} {precision}: {error}", file=sys.stderr)
            results.add(driver, group, entries)
        passed = time.monotonic() - start
        print(f"{number}/{len(chosen)} {passed:.0f} s: {case['case']} {precision}", file=sys.stderr, flush=True)


def measure_all(options):
    """The path of the CSV."""
    if options.prepare > 0:
        prepare(options)
    drivers = start_drivers(options)
    if not drivers:
        sys.exit("no program runs on a GPU here")
    results = Results(options, drivers)
    try:
        measure_cases(options, drivers, results)
    except KeyboardInterrupt:
        print(f"stopped; to go on: --resume {results.path}", file=sys.stderr)
    for driver in drivers.values():
        driver.stop()
    return results.path


def main():
    options = arguments()
    path = options.report or measure_all(options)
    rows = read_rows(path)
    provenance = [line[1:].strip() for line in path.read_text().splitlines() if line.startswith("#")]
    print("\n".join(provenance))
    print_report(rows)
    versions = sorted({f"{row['implementation']} {row['version']}" for row in rows})
    gpu = next((line.split(": ", 1)[1].split(",")[0] for line in provenance if line.startswith("gpu")), "")
    plot(path.with_suffix(".png"), rows, ", ".join([gpu, *versions]))
    print(f"written: {path}, {path.with_suffix('.png')}")


if __name__ == "__main__":
    main()
