"""What memray itself reads of a capture, as JSON: `oracle.py CAPTURE`."""

import json
import sys

from memray import AllocatorType, FileReader
from memray._memray import compute_statistics

FREES = {AllocatorType.FREE, AllocatorType.MUNMAP, AllocatorType.PYMALLOC_FREE}


def call(record, has_native):
    is_free = record.allocator in FREES
    return {
        "thread_id": record.tid,
        "thread": record.thread_name,
        "allocator": AllocatorType(record.allocator).name.lower(),
        "address": record.address,
        "size_bytes": record.size,
        "stack": [] if is_free else [list(frame) for frame in record.stack_trace()],
        "native": [] if is_free or not has_native else [frame[0] for frame in record.native_stack_trace()],
    }


def site(record):
    return {
        "thread_id": record.tid,
        "allocator": AllocatorType(record.allocator).name.lower(),
        "calls": record.n_allocations,
        "bytes": record.size,
        "stack": [list(frame) for frame in record.stack_trace()],
    }


def main(path):
    reader = FileReader(path)
    has_native = reader.metadata.has_native_traces
    said = {
        "pid": reader.metadata.pid,
        "command_line": reader.metadata.command_line,
        "peak_bytes": reader.metadata.peak_memory,
        "samples": [[it.time, it.rss, it.heap] for it in reader.get_memory_snapshots()],
    }
    try:
        stats = compute_statistics(path, num_largest=10_000)
    except NotImplementedError:  # A capture with sums.
        said["peak"] = [site(it) for it in reader.get_high_watermark_allocation_records(merge_threads=False)]
        said["leaked"] = [site(it) for it in reader.get_leaked_allocation_records(merge_threads=False)]
    else:
        said["allocations"] = stats.total_num_allocations
        said["allocated_bytes"] = stats.total_memory_allocated
        said["peak_bytes"] = stats.peak_memory_allocated
        said["by_allocator"] = {name.lower(): count for name, count in stats.allocation_count_by_allocator.items()}
        said["by_size"] = {str(size): count for size, count in stats.allocation_count_by_size.items()}
        said["bytes_of_places"] = [[list(place), size] for place, size in stats.top_locations_by_size]
        said["calls_of_places"] = [[list(place), count] for place, count in stats.top_locations_by_count]
        said["calls"] = [call(it, has_native) for it in reader.get_allocation_records()]
    json.dump(said, sys.stdout)


main(sys.argv[1])
