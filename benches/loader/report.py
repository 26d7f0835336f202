"""Tables of what was measured: on the terminal and for docs/benchmarks.md."""

import machine

MIB = 1 << 20
BEGIN, END = "<!-- bench-loader:begin -->", "<!-- bench-loader:end -->"
COLUMNS = ("contestant", "samples/s", "of the limit", "first epoch", "fastest epoch", "first batch, s", "CPU s per epoch",
           "memory, MiB", "must reach")


def _rate(value):
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}"


def _verdict(verdict):
    said = "pass" if verdict["passed"] else "FAIL"
    return f"{said}: {verdict['value']:.3g} {verdict['what']}, bound {verdict['bound']:g}"


def rows(workload_results):
    """One row of texts per contestant of a workload."""
    results, verdicts = workload_results["results"], workload_results["verdicts"]
    for name, result in results.items():
        if "error" in result:
            yield [name, *[""] * (len(COLUMNS) - 2), f"did not run: {result['error']}"]
            continue
        limit = results.get(result["limit"])
        ratio = ""
        if limit and "error" not in limit:
            ratio = f"{result['samples_per_s'] / limit['samples_per_s']:.2f}"
        own = [_verdict(verdict) for verdict in verdicts if verdict["contestant"] == name]
        yield [name, _rate(result["samples_per_s"]), ratio, _rate(result["first_epoch_samples_per_s"]),
               _rate(result["fastest_epoch_samples_per_s"]), f"{result['first_batch_s']:.3f}", f"{result['cpu_s_per_epoch']:.2f}",
               f"{result['rss_above_start'] / MIB:.0f}", "; ".join(own)]


def terminal(workload_results):
    lines = [COLUMNS, *rows(workload_results)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(COLUMNS))]
    text = [f"\n{workload_results['name']}: {workload_results['title']}"]
    for line in lines:
        cells = [cell.ljust(width) if column in (0, len(COLUMNS) - 1) else cell.rjust(width)
                 for column, (cell, width) in enumerate(zip(line, widths))]
        text.append("  ".join(cells).rstrip())
    return "\n".join(text) + "\n"


def markdown(report):
    lines = [BEGIN, "", f"Machine: {machine.in_words(report['machine'])}", "", f"Command: `{report['command']}`", ""]
    lines += [
        f"Best of {report['rounds']} interleaved rounds, every contestant in a process of its own, page cache "
        "and free memory warm. Epochs follow each other for at least 2 s, those of W3 in new processes: it has one each. "
        "*samples/s* is all samples by all of that time, with opening the files, first batches and the turns between epochs; "
        "*first epoch* and *fastest epoch* are those of one epoch without opening; "
        "*of the limit* compares with the limit of as many threads; *first batch* counts from opening the files; "
        "*memory* is the peak of resident memory above its start, pages of mapped files and private memory of "
        "workers included.", ""]
    busy = max((one["busy_cores"] for one in report["workloads"]), default=0)
    if busy > 0.1:
        lines += [f"The machine was not quiet: before some workload, others kept {busy:.1f} cores busy.", ""]
    for workload_results in report["workloads"]:
        lines += [f"### {workload_results['name']}: {workload_results['title']}", "",
                  f"{workload_results['sample_count']:,} samples, batches of {workload_results['batch']}.", "",
                  "| " + " | ".join(COLUMNS) + " |", "|---|" + "--:|" * (len(COLUMNS) - 2) + "---|"]
        lines += ["| " + " | ".join(row) + " |" for row in rows(workload_results)] + [""]
    return "\n".join([*lines, END])


def put_markdown(report, path):
    """Puts the tables between the marks in a file, or at its end where it has none."""
    put_between(BEGIN, END, markdown(report), path)


def put_between(begin, end, made, path):
    """Puts `made`, which has both marks, in their place in a file, or at its end where it has none."""
    text = path.read_text() if path.exists() else ""
    if begin in text and end in text:
        before, after = text.split(begin, 1)[0], text.split(end, 1)[1]
        text = before + made + after
    else:
        text += ("\n" if text else "") + made + "\n"
    path.write_text(text)
