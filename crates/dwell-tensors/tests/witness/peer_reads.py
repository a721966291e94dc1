"""What llm-instrumentation's own reader finds in a packet file: peer_reads.py FILE CODEC."""

import sys

from llm_instrumentation.analysis.visualization import load_stream_packets

for packet in load_stream_packets(sys.argv[1], sys.argv[2]):
    print(packet["packet_index"], packet["layer_name"], packet["uncompressed_bytes"], f"{packet['l2_norm']:.4f}")
