#!/usr/bin/env python3
"""Draws a batch run: how many results there were at each time, with what happened.

    run_plot.py RECORD > run.svg

RECORD is the file that `MSWEA_SLURM_RECORD` names in the test `slurm_starts_the_workers_and_a_lost_node_loses_nothing`:
`results` (the times of the results) and `events` (`at`, `what`), in Unix seconds.
"""

import json
import sys
from pathlib import Path

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 800, 400, 70, 20, 40, 50
COLOURS = {"preemption": "#d08700", "other": "#b00020"}


def main():
    record = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    begin = min(event["at"] for event in record["events"])
    times = sorted(time - begin for time in record["results"])
    end = max(times[-1], *(event["at"] - begin for event in record["events"]))

    def x(time):
        return LEFT + (WIDTH - LEFT - RIGHT) * time / end

    def y(count):
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * count / len(times)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">']
    out.append(f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>')
    for part in range(5):
        count, time = len(times) * part // 4, end * part / 4
        out.append(f'<path d="M{LEFT} {y(count):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 8}" y="{y(count) + 4:.1f}" text-anchor="end">{count:,}</text>')
        out.append(f'<text x="{x(time):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{time:.0f} s</text>')
    preemptions = 0
    for event in record["events"]:
        at, what = x(event["at"] - begin), event["what"]
        if what == "preemption":
            preemptions += 1
            out.append(f'<path d="M{at:.1f} {HEIGHT - BOTTOM}v-8" stroke="{COLOURS["preemption"]}" stroke-width="2"/>')
        elif what not in ("submitted", "all results"):
            out.append(f'<path d="M{at:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="{COLOURS["other"]}" stroke-dasharray="4 3"/>')
            out.append(f'<text x="{at - 6:.1f}" y="{TOP + 12}" text-anchor="end" fill="{COLOURS["other"]}">{what}</text>')
    # A point for each pixel is enough.
    step = max(1, len(times) // WIDTH)
    points = [(0, 0), *((times[i], i + 1) for i in range(0, len(times), step)), (times[-1], len(times))]
    line = " ".join(f"{x(time):.1f},{y(count):.1f}" for time, count in points)
    out.append(f'<polyline points="{line}" fill="none" stroke="#0b57d0" stroke-width="2"/>')
    out.append(f'<text x="{LEFT}" y="20">{len(times):,} instances: results over time; {preemptions} requests to preempt a worker (below)</text>')
    out.append("</svg>")
    print("\n".join(out))


main()
