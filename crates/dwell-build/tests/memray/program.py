"""Allocates known sizes in known functions, for memray to record. Arguments: fork, die."""

import mmap
import os
import sys
import threading


def weights(count):
    return [bytearray(100_000 + 1000 * number) for number in range(count)]


def recursive(depth):
    if depth == 0:
        return bytearray(54_321)
    return recursive(depth - 1)


def grown():
    data = bytearray(300_000)
    data.extend(bytes(400_000))
    return data


def mapped():
    gone = mmap.mmap(-1, 8 << 20)
    gone.close()
    return mmap.mmap(-1, 3 << 20)


def worker():
    for _ in range(50):
        kept = [bytearray(70_001) for _ in range(10)]
        del kept


def main():
    kept = [weights(30), recursive(20), grown(), mapped()]
    thread = threading.Thread(target=worker, name="worker-thread")
    thread.start()
    thread.join()
    if "fork" in sys.argv:
        child = os.fork()
        if child == 0:
            del kept[0]
            kept.append(weights(5))
            return kept
        os.waitpid(child, 0)
    if "die" in sys.argv:
        kept.append(weights(300))
        os.kill(os.getpid(), 9)
    return kept


kept = main()
