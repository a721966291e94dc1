"""Turns the JSON of `capture_speed.py` into a page and a picture.

    python report.py RESULT.json... --output FOLDER
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

WIDTH, HEIGHT, MARGIN = 720, 420, 60
COLOURS = ["#1b6ca8", "#d1495b", "#3a7d44", "#8d6a9f"]


def tables(results: list[dict[str, Any]]) -> str:
    """One table for each workload: speed as part of the uncaptured speed."""
    lines = ["# Speed of a PyTorch model while it is captured", ""]
    for result in results:
        about = result["about"]
        low, high = sorted(about["disk_gb_per_s"])
        lines += [
            f"{about['device']}, {about['cores']} cores, PyTorch {about['torch']}. The disk by itself took {low:.2f} and "
            f"{high:.2f} GB/s, before and after.",
            "",
        ]
        for workload in result["results"]:
            lines += [f"## {workload['workload']}: {workload['base_tokens_per_s']:,.0f} tokens/s uncaptured", ""]
            lines += ["| captured with | inside | with closing | by CPU time | elements GB/s | stored GB/s | rounds |"]
            lines += ["| --- | --- | --- | --- | --- | --- | --- |"]
            lines += [row(condition) for condition in workload["conditions"]]
            lines += [""]
    return "\n".join(lines)


def row(condition: dict[str, Any]) -> str:
    raw = f"{condition['raw_gb_per_s']:.2f}" if condition["packets"] else "–"
    speeds = " | ".join(f"{100 * condition[kind]:.1f} %" for kind in ("hot", "whole", "cpu"))
    rounds = len(condition["ratios_hot"])
    return f"| {condition['name']} | {speeds} | {raw} | {condition['stored_gb_per_s']:.2f} | {rounds} |"


def points_by_codec(results: list[dict[str, Any]]) -> dict[str, list[tuple[float, float]]]:
    """GB/s of elements that the captured modules would give at full speed, and the speed that is left."""
    found: dict[str, list[tuple[float, float]]] = {}
    for result in results:
        for workload in result["results"]:
            for condition in workload["conditions"]:
                name, _, blocks = condition["name"].partition(", ")
                if " of " in blocks and condition["raw_gb_per_s"]:
                    asked = condition["raw_gb_per_s"] / condition["whole"]
                    found.setdefault(name, []).append((asked, condition["hot"]))
    return {name: sorted(points) for name, points in found.items()}


def picture(curves: dict[str, list[tuple[float, float]]], disk_gb_per_s: float) -> str:
    """The points as SVG: speed that is left against what is asked for, and what the disk would allow uncompressed."""
    right = max(asked for points in curves.values() for asked, _ in points)

    def place(asked: float, speed: float) -> tuple[float, float]:
        x = MARGIN + asked / right * (WIDTH - 2 * MARGIN)
        return x, HEIGHT - MARGIN - min(speed, 1.05) / 1.05 * (HEIGHT - 2 * MARGIN)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for percent in range(0, 101, 20):
        x, y = place(0, percent / 100)
        parts.append(f'<line x1="{x}" y1="{y:.1f}" x2="{WIDTH - MARGIN}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{x - 8}" y="{y + 4:.1f}" text-anchor="end">{percent} %</text>')
    for tick in range(0, int(right) + 1, 2):
        x, y = place(tick, 0)
        parts.append(f'<text x="{x:.1f}" y="{y + 20:.1f}" text-anchor="middle">{tick}</text>')
    steps = [right * step / 200 for step in range(1, 201)]
    limit = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(step, min(1.0, disk_gb_per_s / step)) for step in steps))
    parts.append(f'<polyline points="{limit}" fill="none" stroke="#888" stroke-dasharray="5 4"/>')
    for number, (name, points) in enumerate(curves.items()):
        colour = COLOURS[number % len(COLOURS)]
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>' for x, y in (place(*point) for point in points)]
        y = MARGIN + 20 * number
        parts.append(f'<rect x="{WIDTH - 260}" y="{y - 10}" width="14" height="14" fill="{colour}"/>')
        parts.append(f'<text x="{WIDTH - 240}" y="{y + 2}">{name}</text>')
    y = MARGIN + 20 * len(curves)
    parts.append(f'<line x1="{WIDTH - 260}" y1="{y - 3}" x2="{WIDTH - 246}" y2="{y - 3}" stroke="#888" stroke-dasharray="5 4"/>')
    parts.append(f'<text x="{WIDTH - 240}" y="{y + 2}">disk alone, {disk_gb_per_s:.1f} GB/s</text>')
    parts.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 12}" text-anchor="middle">GB/s of activations asked for</text>')
    parts.append(f'<text x="{MARGIN}" y="{MARGIN - 24}">speed inside the capture, of the uncaptured speed</text>')
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    results = [json.loads(path.read_text()) for path in arguments.results]
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "summary.md").write_text(tables(results))
    if curves := points_by_codec(results):
        rates = [rate for result in results for rate in result["about"]["disk_gb_per_s"]]
        (arguments.output / "curve.svg").write_text(picture(curves, sum(rates) / len(rates)))


if __name__ == "__main__":
    main()
