from collections.abc import Mapping
from os import PathLike
from typing import Any, TypedDict

__version__: str

Token = tuple[int, int, str, int, int]

class Options(TypedDict):
    codec: str
    pressure: str
    max_memory_bytes: int | None
    flush_bytes: int | None
    flush_interval_s: float | None
    workers: int | None
    direct_io: str
    spill_dir: str | None
    max_spill_bytes: int | None
    checkpoint_path: str | PathLike[str] | None
    metadata: Mapping[str, str]

class Entry(TypedDict):
    packet: int
    name: str
    layer: int | None
    step: int
    token_index: int | None
    timestamp_ns: int
    dtype: str
    shape: list[int]
    codec: str
    bound: float | None
    raw_bytes: int
    stored_bytes: int
    max_error: float | None
    mse: float | None

class Resumed(TypedDict):
    packets: int
    next_step: int
    trimmed_bytes: int

def dtype_names() -> list[str]: ...
def parse_codec(text: str) -> tuple[str, bool]: ...

class Ring:
    def __new__(cls, owner: object, address: int, bytes: int) -> Ring: ...

class Transfer:
    def __new__(cls, stream: Stream, ring: Ring, uses_cuda: bool) -> Transfer: ...
    def copy(
        self,
        name: int,
        step: int,
        token_index: int | None,
        dtype: int,
        shape: tuple[int, ...],
        address: int,
        bytes: int,
        waits: bool,
    ) -> bool: ...
    def copy_from_gpu(
        self,
        name: int,
        step: int,
        token_index: int | None,
        dtype: int,
        shape: tuple[int, ...],
        address: int,
        bytes: int,
        waits: bool,
        cuda_stream: int,
        source: object | None,
    ) -> bool: ...
    def count_dropped(
        self, name: int, step: int, token_index: int | None, dtype: int, shape: tuple[int, ...]
    ) -> None: ...
    def record_token(self, token_id: int, token_text: str) -> None: ...
    def end_pass(self) -> None: ...
    def drain(self) -> None: ...
    def close(self) -> None: ...

class Stream:
    @staticmethod
    def create(path: str | PathLike[str], options: Options) -> Stream: ...
    @staticmethod
    def resume(path: str | PathLike[str], options: Options) -> tuple[Stream, list[Token], Resumed]: ...
    def name(self, text: str, layer: int | None) -> int: ...
    def submit(
        self,
        name: int,
        step: int,
        token_index: int | None,
        dtype: int,
        shape: tuple[int, ...],
        address: int,
        bytes: int,
    ) -> bool: ...
    def record_token(self, token_id: int, token_text: str) -> int: ...
    def flush(self) -> None: ...
    def checkpoint(self) -> None: ...
    def progress(self) -> dict[str, Any]: ...
    def finish(self) -> dict[str, Any]: ...
    def leave_to_parent(self) -> None: ...
    def abandon(self) -> dict[str, Any]: ...

class File:
    def __new__(cls, path: str | PathLike[str]) -> File: ...
    def __reduce__(self) -> tuple[type[File], tuple[PathLike[str]]]: ...
    def __len__(self) -> int: ...
    def unfinished_because(self) -> str | None: ...
    def metadata(self) -> dict[str, str]: ...
    def names(self) -> list[str]: ...
    def tokens(self) -> list[Token]: ...
    def dropped(self) -> dict[str, tuple[int, int]]: ...
    def stats_json(self) -> str: ...
    def export_safetensors(self, path: str | PathLike[str]) -> int: ...
    def file_bytes(self) -> int: ...
    def find(self, name: str, step: int | None = None) -> list[int]: ...
    def entry(self, index: int) -> Entry: ...
    def elements(self, index: int) -> bytearray: ...
