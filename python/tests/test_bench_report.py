"""The pages of ``forebay bench`` in a real browser: light and dark, on the screen of a laptop and on a narrower one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

LIMIT = 300

WORKLOAD = """
model: {name: small, model_size_bytes: 1000000}
framework: pytorch
workflow: {generate_data: True, train: True, evaluation: True, checkpoint: True}
dataset: {data_folder: data, format: npz, num_files_train: 8, num_files_eval: 2, num_samples_per_file: 4, record_length_bytes: 16384}
reader: {data_loader: pytorch, batch_size: 2, read_threads: 1}
train: {epochs: 3, computation_time: 0.002}
checkpoint: {checkpoint_folder: checkpoints}
"""

# Put at the end of a copy of the page; the browser prints the page as it is then.
MEASURE = """
<script>
const box = element => element.getBoundingClientRect();
const name = element => (element.textContent || element.tagName).trim().slice(0, 60);
const light = colour => {
  const parts = colour.match(/[\\d.]+/g).slice(0, 3).map(part => part / 255)
    .map(part => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
};
const behind = element => {
  for (let at = element; at; at = at.parentElement) {
    const colour = getComputedStyle(at).backgroundColor;
    if (!colour.endsWith(', 0)') && colour !== 'transparent') return colour;
  }
  return 'rgb(255, 255, 255)';
};
const contrast = element => {
  const style = getComputedStyle(element);
  const one = light(element.closest('svg') ? style.fill : style.color), two = light(behind(element));
  return (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
};
const all = selector => Array.from(document.querySelectorAll(selector));
const leaves = all('p, h1, h2, h3, th, td, li, span.badge, svg text').filter(element => element.textContent.trim());
const outside = [];
for (const text of all('svg text')) {
  const inner = box(text), outer = box(text.closest('.card'));
  if (inner.left < outer.left - 1 || inner.right > outer.right + 1) outside.push(name(text));
}
const overlapping = [];
for (const svg of all('svg')) {
  const texts = Array.from(svg.querySelectorAll('text')).filter(text => !text.classList.contains('note'));
  texts.forEach((one, at) => texts.slice(at + 1).forEach(two => {
    const a = box(one), b = box(two);
    const width = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const height = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (width > 2 && height > 2) overlapping.push(name(one) + ' / ' + name(two));
  }));
}
document.body.dataset.measured = JSON.stringify({
  dark: matchMedia('(prefers-color-scheme: dark)').matches,
  width: innerWidth,
  page: document.documentElement.scrollWidth,
  plots: all('.card').map(card => ({
    name: name(card.querySelector('h3')), width: box(card.querySelector('svg')).width, height: box(card.querySelector('svg')).height,
    marks: card.querySelectorAll('svg path, svg polyline, svg circle, svg rect').length,
  })),
  cut: all('.tile, .tile p, h1, h2, h3, .legend').filter(element => element.scrollWidth > element.clientWidth + 1).map(name),
  small: leaves.filter(element => parseFloat(getComputedStyle(element).fontSize) < 11).map(name),
  faint: leaves.filter(element => contrast(element) < 4.5).map(element => name(element) + ' ' + contrast(element).toFixed(2)),
  outside, overlapping,
  loaded: performance.getEntriesByType('resource').map(entry => entry.name),
});
</script>
"""


class _Measured(HTMLParser):
    """Finds what the script above has left."""

    found: dict[str, Any] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        text = dict(attrs).get("data-measured")
        if tag == "body" and text:
            self.found = json.loads(text)


def chromium() -> str:
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    assert program, "Chromium is missing: apt-get install chromium, as make test does"
    return program


def measured(page: Path, folder: Path, *, width: int, dark: bool) -> dict[str, Any]:
    copy = folder / f"{page.stem}-measured.html"
    copy.write_text(page.read_text().replace("</main>", "</main>" + MEASURE))
    command = [chromium(), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}"]
    command += [f"--window-size={width},768", f"--blink-settings=preferredColorScheme={0 if dark else 1}"]
    if keep := os.environ.get("FOREBAY_SCREENSHOTS"):
        shot = Path(keep) / f"{page.stem}-{'dark' if dark else 'light'}-{width}.png"
        whole = [*command, f"--window-size={width},2400", f"--screenshot={shot}", page.as_uri()]
        subprocess.run(whole, capture_output=True, timeout=LIMIT, check=True)
    done = subprocess.run([*command, "--dump-dom", copy.as_uri()], capture_output=True, text=True, timeout=LIMIT)
    parser = _Measured()
    parser.feed(done.stdout)
    assert parser.found, done.stderr[-2000:]
    return parser.found


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The page of a run through a tier, of runs side by side, and of a sweep."""
    folder = tmp_path_factory.mktemp("bench")
    (folder / "small.yaml").write_text(WORKLOAD)
    program = os.environ.get("FOREBAY_BIN") or shutil.which("forebay")
    assert program, "set FOREBAY_BIN to the forebay command"

    def bench(*arguments: str) -> None:
        command = [program, "--no-index", "bench", *arguments]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == 0, done.stderr

    bench("small.yaml", "++workload.workflow.train=False", "++workload.workflow.checkpoint=False", "--output", "made")
    # Files that changed just now are not copied to tiers: another change might not show in their times.
    time.sleep(2.2)
    bench("small.yaml", "--tier", "memory:64MiB", "--output", "one")
    bench("small.yaml", "--ranks", "2", "--output", "two")
    bench("compare", "one", "two", "--html", "compare.html")
    axes = ["--axis", "ranks=1,2", "--axis", "sample-size=4KiB,64KiB"]
    bench("sweep", "small.yaml", *axes, "++workload.train.epochs=1", "--output", "sweep")
    return {
        "report": folder / "one/report.html",
        "compare": folder / "compare.html",
        "sweep": folder / "sweep/sweep.html",
    }


PLOTS = {
    "report": {
        "Throughput per epoch",
        "Accelerator utilisation per epoch",
        "Latency of samples (CDF)",
        "Time breakdown per stage",
        "Tier hit ratio per epoch",
        "Bytes served by each tier",
    },
    "compare": {
        "Throughput per epoch",
        "Accelerator utilisation per epoch",
        "Latency of samples (CDF)",
        "Time breakdown per stage",
        "Scaling over ranks",
    },
    "sweep": {"Throughput over ranks", "Throughput over sample-size", "Accelerator utilisation over ranks"},
}


@pytest.mark.parametrize("name", list(PLOTS))
@pytest.mark.parametrize(("width", "dark"), [(1366, False), (1366, True), (800, False)])
def test_a_page_is_readable_in_a_browser(
    pages: dict[str, Path], tmp_path: Path, name: str, width: int, dark: bool
) -> None:
    seen = measured(pages[name], tmp_path, width=width, dark=dark)
    assert (seen["dark"], seen["width"]) == (dark, width)
    assert seen["page"] <= width, "the page scrolls sideways"
    assert PLOTS[name] <= {plot["name"] for plot in seen["plots"]}
    for plot in seen["plots"]:
        assert plot["width"] > 250 and plot["height"] > 60 and plot["marks"] > 0, plot
    for wrong in ("cut", "small", "faint", "outside", "overlapping", "loaded"):
        assert seen[wrong] == [], wrong


def test_what_cannot_be_read_on_a_page_is_noticed(pages: dict[str, Path], tmp_path: Path) -> None:
    broken = tmp_path / "broken.html"
    wide = '<p style="color: #ccc; font-size: 9px">faint and small</p><div style="width: 3000px">wide</div>'
    texts = '<text x="-300" y="20">outside</text><text x="5" y="20">one</text><text x="8" y="21">two</text>'
    page = pages["report"].read_text().replace('<div class="tiles">', wide + '<div class="tiles">', 1)
    broken.write_text(page.replace("<text", texts + "<text", 1))
    seen = measured(broken, tmp_path, width=1366, dark=False)
    assert seen["page"] > 3000 and seen["small"] == ["faint and small"] and seen["outside"] == ["outside"]
    assert len(seen["faint"]) == 1 and "one / two" in seen["overlapping"]
