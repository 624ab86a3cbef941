"""Table, means and plot of the results of compare_gpu.py."""

from harness_results import geometric_mean, text

OURS, CUDNN, PYTORCH = "TurboLSTM", "cuDNN", "PyTorch"
STANDARD = "standard/graph"
RIVALS = {"best": "the fastest of cuDNN", "standard": "cuDNN's STANDARD captured", "pytorch": "the fastest of PyTorch"}


GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1}
MEBIBYTE = 2**20


def given_mib(entry):
    """MiB that a training step is given, in what its implementation keeps it: x, the gradient of y, and the weights,
    which are fp32 in ours and in all of bf16x6."""
    half = 2 if entry["precision"] in ("bf16", "fp16") else 4
    directions = 2 if str(entry["bidirectional"]) == "True" else 1
    T, B, I, H, L = (entry[name] for name in "TBIHL")
    weights = sum(
        directions * GATES[entry["cell"]] * H * ((I if layer == 0 else directions * H) + H + 2) for layer in range(L)
    )
    steps = T * B * (I + directions * H)
    return (weights * (4 if entry["implementation"] == OURS else half) + steps * half) / MEBIBYTE


def step_mib(entry):
    """MiB of a training step beside what it is given: of cuDNN reserve, workspace and outputs. None where unknown."""
    if not entry or not entry.get("peak_memory_mib") or entry["cell"] not in GATES or entry["implementation"] == PYTORCH:
        return None
    return entry["peak_memory_mib"] - given_mib(entry)


def leanest(entries):
    return min((e for e in entries if e["median_ms"] and step_mib(e)), key=step_mib, default=None)


def fastest(entries):
    return min((e for e in entries if e["median_ms"]), key=lambda e: e["median_ms"], default=None)


def compare(rows):
    """One entry a case, precision and pass: the fastest result of each kind, or None, and the one that is `judged`
    (ours, or PyTorch's where no row of ours has a time)."""
    with_ours = any(row["implementation"] == OURS and row["median_ms"] for row in rows)
    cases = {}
    for row in rows:
        cases.setdefault((row["group"], row["case"], row["precision"], row["pass"]), []).append(row)
    compared = []
    for (group, case, precision, name), entries in cases.items():
        of = {who: [e for e in entries if e["implementation"] == who] for who in (OURS, CUDNN, PYTORCH)}
        found = {
            "group": group,
            "case": case,
            "precision": precision,
            "pass": name,
            "ours": fastest(of[OURS]),
            "best": fastest(of[CUDNN]),
            "leanest": leanest(of[CUDNN]),
            "standard": fastest(e for e in of[CUDNN] if e["variant"] == STANDARD),
            "pytorch": fastest(of[PYTORCH]),
            "eager": fastest(e for e in of[PYTORCH] if e["variant"] in ("eager", "packed/eager")),
        }
        found["judged"] = found["ours" if with_ours else "pytorch"]
        compared.append(found)
    return compared, OURS if with_ours else PYTORCH


def ratio(found, rival):
    """How many times the judged result is faster than the rival's, or None."""
    if not found[rival] or not found["judged"]:
        return None
    return found[rival]["median_ms"] / found["judged"]["median_ms"]


def cell_of(entry, width):
    return f"{entry['median_ms']:.3f}".rjust(width) if entry else "-".rjust(width)


def print_table(compared, who):
    rivals = [name for name in RIVALS if who == OURS or name != "pytorch"]
    print(f"medians in ms; ratios: how many times {who} is faster; step: its microseconds a layer and time step; MiB: "
          f"memory of a training step beside inputs and weights, {who}'s and that of the leanest of cuDNN")  # fmt: skip
    head = f"{'case':40} {'':6} {'':7} {OURS:>9} {'PyTorch':>9} {'eager':>9} {'STANDARD':>9} {'cuDNN':>9} {'fastest of cuDNN':30}"
    print(head + "".join(f" {'/' + name:>9}" for name in rivals) + f" {'step':>6} {'MiB':>11}")
    for found in compared:
        judged, best = found["judged"], found["best"]
        line = f"{found['case']:40} {found['precision']:6} {found['pass']:7} {cell_of(found['ours'], 9)}"
        line += "".join(f" {cell_of(found[name], 9)}" for name in ("pytorch", "eager", "standard", "best"))
        line += f" {best['variant'] if best else '-':30}"
        line += "".join(f" {text(ratio(found, name), '9.2f'):>9}" for name in rivals)
        step = judged["median_ms"] * 1e3 / (judged["T"] * judged["L"]) if judged else None
        memory = "/".join(text(step_mib(e), ".0f") for e in (judged, found["leanest"]))
        print(f"{line} {text(step, '6.2f'):>6} {memory:>11}")


def print_means(compared, who):
    for group in dict.fromkeys(found["group"] for found in compared):
        for precision in dict.fromkeys(found["precision"] for found in compared):
            for rival, words in RIVALS.items():
                chosen = [f for f in compared if (f["group"], f["precision"]) == (group, precision)]
                ratios = {f["case"]: ratio(f, rival) for f in chosen if ratio(f, rival)}
                if ratios and (who == OURS or rival != "pytorch"):
                    lowest = min(ratios, key=ratios.get)
                    print(f"geometric mean, {group} {precision}: {geometric_mean(ratios.values()):.3f} times {words} over "
                          f"{len(ratios)} cases, lowest {ratios[lowest]:.2f} at {lowest}")  # fmt: skip


def print_memory(compared):
    """How the memory of our training steps compares with that of cuDNN's leanest algorithm."""
    for precision in dict.fromkeys(found["precision"] for found in compared):
        ratios = {
            found["case"]: step_mib(found["ours"]) / step_mib(found["leanest"])
            for found in compared
            if (found["precision"], found["pass"]) == (precision, "train")
            and step_mib(found["ours"])
            and found["leanest"]
        }
        if ratios:
            least, most = min(ratios, key=ratios.get), max(ratios, key=ratios.get)
            above = sum(r > 1 for r in ratios.values())
            print(f"memory beside inputs and weights, {precision}: {ratios[least]:.2f} to {ratios[most]:.2f} times that of "
                  f"the leanest of cuDNN, most at {most}; more than it in {above} of {len(ratios)} cases")  # fmt: skip


def print_errors(rows):
    """How often which words stand in place of a time."""
    counts = {}
    for row in rows:
        if row["error"]:
            key = (row["implementation"], row["variant"], row["error"])
            counts[key] = counts.get(key, 0) + 1
    for (implementation, variant, error), count in counts.items():
        print(f"no time, {count} times: {implementation} {variant}: {error}")


def print_report(rows):
    compared, who = compare(rows)
    print_table(compared, who)
    print_memory(compared)
    print_errors(rows)
    print_means(compared, who)


def plot(path, rows, title):
    """The ratios of every case, a panel a precision; losses are red."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FuncFormatter, LogLocator

    compared, who = compare(rows)
    precisions = list(dict.fromkeys(found["precision"] for found in compared))
    labels = list(dict.fromkeys(f"{found['case']}  [{found['group']}]" for found in compared))
    size = (3.5 + 3.2 * len(precisions), 1.8 + 0.17 * len(labels))
    figure, axes = plt.subplots(1, len(precisions), figsize=size, sharey=True, sharex=True, squeeze=False)
    for axis, precision in zip(axes[0], precisions):
        for rival, marker in (("standard", "|"), ("pytorch", "x"), ("best", "o")):
            if who != OURS and rival == "pytorch":
                continue
            points = [(ratio(f, rival), f) for f in compared if f["precision"] == precision and ratio(f, rival)]
            heights = [labels.index(f"{f['case']}  [{f['group']}]") for _, f in points]
            colours = ["tab:red" if value < 1 else "tab:blue" for value, _ in points]
            axis.scatter([value for value, _ in points], heights, 18, colours, marker)
        axis.axvline(1, color="black", linewidth=0.8)
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_locator(LogLocator(base=2))
        axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_title(precision)
        axis.set_xlabel(f"times {who} is faster")
        axis.grid(axis="both", linewidth=0.3)
    axes[0][0].set_yticks(range(len(labels)), labels, fontsize=6)
    axes[0][0].set_ylim(len(labels) - 0.5, -0.5)
    marks = f"o over {RIVALS['best']}, eager or captured;  | over {RIVALS['standard']}"
    marks += f";  x over {RIVALS['pytorch']}" * (who == OURS)
    figure.suptitle(f"{title}\n{marks}", fontsize=9)
    figure.tight_layout(rect=(0, 0, 1, 0.985))
    figure.savefig(path, dpi=110, bbox_inches="tight")
    plt.close(figure)
