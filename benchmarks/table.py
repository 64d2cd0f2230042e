"""Rows that also tell the share of what the machine can do, and how busy others kept it meanwhile."""
from __future__ import annotations

import argparse
import dataclasses

from harness import Row, write_rows

BUSY = 0.05  # cores' worth of other programs' work above which a figure is not to be trusted


@dataclasses.dataclass
class PeakRow(Row):
    """`percent` of the machine's measured peak of `percent_of` (FMA or copying), or None; `busy`: cores that others
    used. `ours` may be missing."""

    ours: float | None = None
    percent: float | None = None
    percent_of: str = "FMA"
    busy: float = 0.0

    @property
    def ratio(self) -> float | None:
        return None if self.ours is None else super().ratio

    @property
    def holds(self) -> bool | None:
        return (None if self.limit is None else False) if self.ours is None else super().holds

    def as_object(self) -> dict:
        more = {"percent_of_peak": self.percent, "peak": self.percent_of, "others_busy_cores": round(self.busy, 3)}
        return super().as_object() | more


def figure(value: float | None) -> str:
    return "none yet" if value is None else f"{value:.4g}" if value < 1000 else f"{value:.0f}"


def report(rows: list[PeakRow], options: argparse.Namespace) -> int:
    """As harness.report, with the two columns more, and a warning below the table."""
    verdicts = {True: "holds", False: "MISSED", None: ""}
    table = [("name", "unit", "ours", "% of peak", "peers", "ratio", "bar", "", "others")]
    for row in rows:
        peers = ", ".join(f"{name} {figure(value)}" for name, value in row.peers.items())
        percent = "" if row.percent is None else f"{row.percent:.0f} {row.percent_of}"
        table.append((row.name, row.unit, figure(row.ours), percent, peers,
                      "" if row.ratio is None else f"{row.ratio:.3g}", row.bar if row.limit is not None else "",
                      verdicts[row.holds], f"BUSY {row.busy:.2f}" if row.busy > BUSY else ""))
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    for line in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
    busy = [row.busy for row in rows if row.busy > BUSY]
    if busy:
        print(f"\nTHE MACHINE WAS BUSY: in {len(busy)} of {len(rows)} rows other programs used up to {max(busy):.2f} "
              "cores. These figures are not to be published; run it again on an idle machine.")
    write_rows(rows, options)
    return 1 if any(row.holds is False for row in rows) else 0
