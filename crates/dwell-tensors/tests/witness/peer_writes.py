"""Two tensors written by llm-instrumentation's own serializer: peer_writes.py FILE CODEC."""

import asyncio
import sys

import torch
from llm_instrumentation import StreamingSerializer


async def write():
    serializer = StreamingSerializer(buffer_size=1 << 20, num_workers=1, compression_algo=sys.argv[2])
    await serializer.start_streaming(sys.argv[1])
    await serializer.enqueue_tensor("block", torch.tensor([1.0, 2.0, 3.0]))
    await serializer.enqueue_tensor("lm_head", torch.zeros(4, 4))
    await serializer.stop_streaming()


asyncio.run(write())
