"""Drives the publisher of vLLM or SGLang: its kv_events.py is loaded unmodified, only what it imports from the rest of
its package is replaced.

    publish.py KV_EVENTS_PY

Reads one JSON command per line and answers each with one line of JSON.

    {"do": "start", "endpoint": …, "replay_endpoint": …, "topic": …, "buffer_steps": …}   starts a publisher
    {"do": "proxy", "from": …, "to": …, "drop": [numbers]}     passes its batches on, without some
    {"do": "subscribed"}                                       waits until somebody has subscribed to the proxy
    {"do": "publish", "ts": …, "events": [{"type": …, fields…}], "rank": …}
    {"do": "skip"}                                             a number that is never published
    {"do": "published", "count": n}                            waits until so many batches were sent
    {"do": "encode", "ts": …, "events": …, "rank": …}          a payload in hexadecimal and as msgspec's JSON
    {"do": "stop"}
"""

import dataclasses
import importlib.util
import json
import sys
import threading
import time
import types
from typing import Any, Optional

import msgspec
import zmq


def surroundings():
    """The modules that kv_events.py imports from its own package."""

    @dataclasses.dataclass
    class KVEventsConfig:
        enable_kv_cache_events: bool = False
        publisher: str = "null"
        endpoint: str = "tcp://*:5557"
        replay_endpoint: Optional[str] = None
        buffer_steps: int = 10_000
        hwm: int = 100_000
        max_queue_size: int = 100_000
        topic: str = ""

    class Silent:
        def __getattr__(self, name):
            return lambda *arguments, **named: None

    def unused(*arguments, **named):
        raise AssertionError("not part of publishing to a given endpoint")

    contents = {
        "vllm": {},
        "vllm.config": {},
        "vllm.config.kv_events": {"KVEventsConfig": KVEventsConfig},
        "vllm.logger": {"init_logger": lambda name: Silent()},
        "vllm.utils": {},
        "vllm.utils.network_utils": {
            name: unused for name in ("get_ip", "get_tcp_uri", "is_valid_ipv6_address", "split_zmq_path")
        },
        "vllm.v1": {},
        "vllm.v1.core": {},
        "vllm.v1.core.kv_cache_utils": {"ExternalBlockHash": Any},
        "sglang": {},
        "sglang.srt": {},
        "sglang.srt.runtime_context": {"get_parallel": unused},
        "sglang.srt.utils": {},
        "sglang.srt.utils.network": {"NetworkAddress": unused},
    }
    for name, attributes in contents.items():
        module = types.ModuleType(name)
        module.__dict__.update(attributes)
        sys.modules[name] = module


def load(path):
    surroundings()
    spec = importlib.util.spec_from_file_location("kv_events", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["kv_events"] = module
    spec.loader.exec_module(module)
    return module


class Driver:
    def __init__(self, kv_events):
        self.kv_events = kv_events
        self.publisher = None

    def batch(self, command):
        """A batch of the publisher's own classes; fields that this version does not have are left out."""

        def event(fields):
            kind = getattr(self.kv_events, fields["type"])
            known = {field.name for field in msgspec.structs.fields(kind)}
            fields = {name: value for name, value in fields.items() if name in known}
            for name in ("block_hashes", "parent_block_hash"):
                if name in fields:
                    fields[name] = hashes(fields[name])
            for name in known - fields.keys():
                field = next(field for field in msgspec.structs.fields(kind) if field.name == name)
                if field.required:
                    fields[name] = None
            return kind(**fields)

        def hashes(value):
            if isinstance(value, list):
                return [hashes(element) for element in value]
            return bytes.fromhex(value) if isinstance(value, str) else value

        rank = [] if command.get("rank") is None else [command["rank"]]
        return self.kv_events.KVEventBatch(command["ts"], [event(fields) for fields in command["events"]], *rank)

    def start(self, command):
        options = {name: command[name] for name in ("topic", "buffer_steps") if name in command}
        self.publisher = self.kv_events.ZmqEventPublisher(
            0, endpoint=command["endpoint"], replay_endpoint=command.get("replay_endpoint"), **options
        )

    def publish(self, command):
        self.publisher.publish(self.batch(command))

    def skip(self, command):
        next(self.publisher._seq_gen)

    def published(self, command):
        deadline = time.monotonic() + 20
        while len(self.publisher._buffer) < command["count"]:
            if time.monotonic() > deadline:
                return {"error": "the publisher did not send its batches"}
            time.sleep(0.005)

    def encode(self, command):
        batch = self.batch(command)
        return {"msgpack": msgspec.msgpack.encode(batch).hex(), "json": msgspec.json.encode(batch).decode()}

    def stop(self, command):
        self.publisher.shutdown()

    def proxy(self, command):
        context = zmq.Context.instance()
        source, target = context.socket(zmq.SUB), context.socket(zmq.XPUB)
        target.bind(command["to"])
        self.has_subscriber, self.is_joined = threading.Event(), threading.Event()

        def forward():
            topic = target.recv()[1:]
            source.setsockopt(zmq.SUBSCRIBE, topic)
            source.connect(command["from"])
            self.has_subscriber.set()
            while True:
                frames = source.recv_multipart()
                if frames[1] == b"joined":
                    self.is_joined.set()
                elif int.from_bytes(frames[1], "big") not in command["drop"]:
                    target.send_multipart(frames)

        threading.Thread(target=forward, daemon=True).start()

    def subscribed(self, command):
        """A publisher cannot say whom it knows, so it calls until it is heard. Its own thread is idle meanwhile."""
        if not self.has_subscriber.wait(20):
            return {"error": "nobody subscribed"}
        while not self.is_joined.wait(0.01):
            self.publisher._pub.send_multipart((self.publisher._topic_bytes, b"joined", b""))


def main():
    driver = Driver(load(sys.argv[1]))
    for line in sys.stdin:
        command = json.loads(line)
        answer = getattr(driver, command["do"])(command)
        print(json.dumps(answer or {}), flush=True)


main()
