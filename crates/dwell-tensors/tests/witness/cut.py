"""For every length of a tensor stream from the end of its schema on: how many batches pyarrow reads of it."""

import io
import struct
import sys

import pyarrow

with open(sys.argv[1], "rb") as file:
    content = file.read()
schema_bytes = 8 + struct.unpack_from("<i", content, 4)[0]
for length in range(schema_bytes, len(content)):
    batches = 0
    try:
        for _ in pyarrow.ipc.open_stream(io.BytesIO(content[:length])):
            batches += 1
    except pyarrow.ArrowInvalid:
        pass
    except OSError:
        pass
    print(batches)
