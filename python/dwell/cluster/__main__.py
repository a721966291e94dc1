"""`python -m dwell.cluster`: arguments, messages, exit codes."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import asdict

from dwell.cluster.analysis import Analysis, analyse, explain
from dwell.cluster.plan import Splitting, explained_text
from dwell.cluster.pool import Limits
from dwell.errors import DwellError

# As for every command of dwell: done; done, but something is missing; not done.
DONE, INCOMPLETE, NOT_DONE, INTERRUPTED = 0, 1, 2, 130

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    # argparse would take what follows `--` for positional arguments, wherever those may stand.
    end = words.index("--") if "--" in words else len(words)
    own, passed_on = words[:end], words[end + 1 :]
    args = _parser().parse_args(own)
    args.options = passed_on
    try:
        return _explain(args) if args.explain else _analyse(args)
    except DwellError as error:
        print(f"error: {error}", file=sys.stderr)
        return NOT_DONE
    except KeyboardInterrupt:
        print("\ninterrupted: its tasks are cancelled; `--resume` goes on with the runs that are left", file=sys.stderr)
        return INTERRUPTED


def _analyse(args: argparse.Namespace) -> int:
    # Ray prints notices to standard output, which is for results alone.
    with redirect_stdout(sys.stderr):
        analysis = _analysis(args)
    if args.json:
        print(json.dumps(asdict(analysis), indent=2))
    else:
        print(_summary(analysis))
    for run in analysis.runs:
        for warning in run.warnings:
            print(f"{warning}: {run.uri}", file=sys.stderr)
    is_flawed = any(run.failure or run.warnings for run in analysis.runs)
    return INCOMPLETE if is_flawed else DONE


def _analysis(args: argparse.Namespace) -> Analysis:
    return analyse(
        args.uri,
        address=args.address,
        output=args.output,
        options=_options(args),
        splitting=_splitting(args),
        limits=_limits(args),
        force=args.force,
        resume=args.resume,
        endpoint_url=args.endpoint_url,
        forward_credentials=args.forward_credentials,
        scratch_dir=args.scratch,
        scratch_limit_bytes=args.scratch_limit,
        show_progress=not args.quiet,
    )


def _summary(analysis: Analysis) -> str:
    analysed = len(analysis.runs) - len(analysis.failed)
    counts = [f"{analysed} {'run' if analysed == 1 else 'runs'} analysed"]
    for runs, what in (
        (analysis.failed, "failed"),
        (analysis.kept, "kept"),
        (analysis.without_trace, "without a trace"),
    ):
        if runs:
            counts.append(f"{len(runs)} {what}")
    return f"{', '.join(counts)}: {analysis.output}"


def _explain(args: argparse.Namespace) -> int:
    explained = explain(
        args.uri,
        options=_options(args),
        splitting=_splitting(args),
        limits=_limits(args),
        endpoint_url=args.endpoint_url,
    )
    print(json.dumps(explained, indent=2) if args.json else explained_text(explained), end="\n" if args.json else "")
    return DONE


def _options(args: argparse.Namespace) -> list[str]:
    definitions = ["--definitions", args.definitions] if args.definitions else []
    return [*definitions, *args.options]


def _splitting(args: argparse.Namespace) -> Splitting:
    return Splitting(args.split_above, args.parts)


def _limits(args: argparse.Namespace) -> Limits:
    return Limits(args.in_flight, args.cpus_per_task, args.memory_limit, args.retries)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m dwell.cluster", description="Analyse runs on a Ray cluster.")
    commands = parser.add_subparsers(required=True)
    analyse = commands.add_parser(
        "analyse",
        help="compute the metrics of every run below a URI",
        usage="python -m dwell.cluster analyse URI [OPTION ...] [-- OPTION OF `dwell analyse` ...]",
        description="Computes the metrics of every run below a URI, one task per run; long runs are split by address.",
    )
    add = analyse.add_argument
    add(
        "uri",
        metavar="URI",
        help="run, results directory or folder of a model that every node sees; or s3://bucket/prefix",
    )
    add("--address", help="address of the cluster. Default: RAY_ADDRESS, or a cluster on this machine alone")
    add("-o", "--output", metavar="URI", help="folder or s3://bucket/prefix for the files. Default: URI-analysis")
    add("--definitions", choices=["dwell", "mrm-trace"], help="definitions of the metrics. Default: dwell")
    add("--explain", action="store_true", help="print tasks, bytes read and where they run; needs no cluster")
    add("--force", action="store_true", help="replace earlier analyses")
    add("--resume", action="store_true", help="keep earlier analyses that have the same options and version")
    add("--parts", type=int, metavar="N", help="parts of a run that is split. Default: by its size")
    _add_size(analyse, "--split-above", Splitting.above_bytes, "split runs whose trace is larger. Default: 4G")
    add("--in-flight", type=int, metavar="N", help="tasks submitted at a time. Default: twice the CPUs of the cluster")
    add("--cpus-per-task", type=float, metavar="N", default=1.0, help="CPUs that a task reserves. Default: 1")
    _add_size(analyse, "--memory-limit", None, "memory that a task reserves and keeps within. Default: none")
    add("--retries", type=int, metavar="N", default=3, help="repetitions of a task whose worker died. Default: 3")
    add("--scratch", metavar="DIR", help="folder for temporary files on every node. Default: the system's")
    _add_size(analyse, "--scratch-limit", None, "bytes of temporary files on a node. Default: half of its free space")
    add("--endpoint-url", metavar="URL", help="endpoint of the store. Default: AWS_ENDPOINT_URL, or Amazon's")
    add("--forward-credentials", action="store_true", help="send the credentials of this process to the workers")
    add("--json", action="store_true", help="print the result as JSON")
    add("-q", "--quiet", action="store_true", help="print only the result and errors: no progress")
    return parser


def _add_size(parser: argparse.ArgumentParser, name: str, default: int | None, text: str) -> None:
    parser.add_argument(name, type=_size, metavar="SIZE", default=default, help=text)


def _size(text: str) -> int:
    """Bytes from text such as 500M or 4GiB; the units are powers of 1024."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", text, re.IGNORECASE)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no size such as 500M or 4G")
    return int(float(found[1]) * _UNITS[found[2].upper()])


if __name__ == "__main__":
    sys.exit(main())
