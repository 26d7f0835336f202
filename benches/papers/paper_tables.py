"""Tables of figures, ours beside theirs."""

import sys


class Tables:
    """One table for each experiment; a row may have a bound that it reaches or misses."""

    def __init__(self):
        self.tables = []
        self.missed = 0

    def begin(self, title, *columns):
        self.tables.append({"title": title, "columns": columns, "rows": []})
        print(f"{title}\n  {' | '.join(columns)}", file=sys.stderr, flush=True)

    def row(self, *cells, reached=None):
        """A row; with `reached`, its last cell says whether the bound is."""
        if reached is not None:
            self.missed += not reached
            cells = (*cells[:-1], f"{cells[-1]} {'reached' if reached else '**not reached**'}".strip())
        self.tables[-1]["rows"].append([str(cell) for cell in cells])
        print(f"  {' | '.join(map(str, cells))}", file=sys.stderr, flush=True)

    def markdown(self):
        texts = []
        for table in self.tables:
            columns = table["columns"]
            lines = [f"**{table['title']}**", "", f"| {' | '.join(columns)} |", f"|---|{'--:|' * (len(columns) - 1)}"]
            texts.append("\n".join(lines + [f"| {' | '.join(row)} |" for row in table["rows"]]))
        return "\n\n".join(texts)
