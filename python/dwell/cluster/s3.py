"""An S3-compatible store, by boto3. It finds endpoint and credentials: AWS_* variables, profiles, roles."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from dwell.cluster.runs import StoredFile
from dwell.errors import DwellError, NotFoundError, StorageError, UsageError

__all__ = ["Credentials", "S3Prefix", "credentials_here", "parse_s3"]

_SCHEME = "s3://"


@dataclass(frozen=True)
class Credentials:
    """Keys that are sent to the workers, which otherwise use their own."""

    access_key: str
    secret_key: str = field(repr=False)
    token: str | None = field(repr=False, default=None)


@dataclass(frozen=True)
class S3Prefix:
    """What lies below a prefix of a bucket. Workers get a copy of this and connect on their own."""

    bucket: str
    prefix: str
    """Without a slash at either end; may be empty."""
    endpoint_url: str | None = None
    credentials: Credentials | None = None

    @property
    def uri(self) -> str:
        return f"{_SCHEME}{self.bucket}/{self.prefix}".rstrip("/")

    def below(self, path: str) -> S3Prefix:
        return S3Prefix(self.bucket, self._key(path), self.endpoint_url, self.credentials) if path else self

    def files(self) -> list[StoredFile]:
        """Every object below the prefix."""
        start = f"{self.prefix}/" if self.prefix else ""
        with _errors(f"listing {self.uri}"):
            pages = self._client().get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=start)
            return [
                StoredFile(item["Key"][len(start) :], item["Size"], item["ETag"])
                for page in pages
                for item in page.get("Contents", [])
            ]

    def download(self, path: str, to: Path) -> None:
        with _errors(f"downloading {self.uri}/{path}"):
            self._client().download_file(self.bucket, self._key(path), str(to))

    def read_end(self, path: str, size_bytes: int) -> bytes:
        """The last bytes of an object."""
        with _errors(f"reading the end of {self.uri}/{path}"):
            found = self._client().get_object(Bucket=self.bucket, Key=self._key(path), Range=f"bytes=-{size_bytes}")
            return bytes(found["Body"].read())

    def read(self, path: str) -> bytes | None:
        """The content of an object; `None` if there is none."""
        from botocore.exceptions import ClientError

        with _errors(f"reading {self.uri}/{path}"):
            try:
                answer = self._client().get_object(Bucket=self.bucket, Key=self._key(path))
                return bytes(answer["Body"].read())
            except ClientError as error:
                if _code(error) in ("NoSuchKey", "404"):
                    return None
                raise

    def write(self, path: str, content: bytes) -> None:
        """Puts an object, which appears whole or not at all."""
        with _errors(f"writing {self.uri}/{path}"):
            self._client().put_object(Bucket=self.bucket, Key=self._key(path), Body=content)

    def remove(self, path: str) -> None:
        with _errors(f"removing {self.uri}/{path}"):
            self._client().delete_object(Bucket=self.bucket, Key=self._key(path))

    def _key(self, path: str) -> str:
        return f"{self.prefix}/{path}" if self.prefix else path

    def _client(self) -> Any:
        return _client(self.endpoint_url, self.credentials)


def parse_s3(uri: str, endpoint_url: str | None, credentials: Credentials | None = None) -> S3Prefix | None:
    """The prefix that `s3://bucket/prefix` names; `None` for other text."""
    if not uri.startswith(_SCHEME):
        return None
    bucket, _, prefix = uri.removeprefix(_SCHEME).partition("/")
    if not bucket:
        raise UsageError(f"an address of a store needs a bucket: {uri!r}", ["write it as s3://bucket/prefix"])
    return S3Prefix(bucket, prefix.strip("/"), endpoint_url, credentials)


def credentials_here() -> Credentials:
    """The credentials of this process, to be sent to the workers."""
    found = _boto3().Session().get_credentials()
    if found is None:
        raise DwellError("forwarding credentials found none here", ["set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"])
    keys = found.get_frozen_credentials()
    return Credentials(keys.access_key, keys.secret_key, keys.token)


def _boto3() -> Any:
    try:
        import boto3
    except ModuleNotFoundError as error:
        raise DwellError("reading s3:// needs the module boto3", ["pip install 'dwell[cluster]'"]) from error
    return boto3


@lru_cache
def _client(endpoint_url: str | None, credentials: Credentials | None) -> Any:
    boto3 = _boto3()
    from botocore.config import Config

    keys = {}
    if credentials is not None:
        keys = {
            "aws_access_key_id": credentials.access_key,
            "aws_secret_access_key": credentials.secret_key,
            "aws_session_token": credentials.token,
        }
    is_foreign = endpoint_url or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    config = Config(
        retries={"mode": "standard", "max_attempts": 5},
        # Stores other than Amazon's may know neither buckets as host names nor checksums that nobody asked for.
        s3={"addressing_style": "path"} if is_foreign else {},
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    region = None if boto3.Session().region_name else "us-east-1"
    return boto3.client("s3", endpoint_url=endpoint_url, region_name=region, config=config, **keys)


@contextmanager
def _errors(doing: str) -> Iterator[None]:
    """Errors of boto3 as errors of dwell, that say what was being done."""
    boto_error = _boto3().exceptions.Boto3Error
    from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError

    try:
        yield
    except (NoCredentialsError, PartialCredentialsError) as error:
        hints = ["set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY on every node, or pass --forward-credentials"]
        raise StorageError(f"{doing} found no credentials: {error}", hints) from error
    except ClientError as error:
        kind = NotFoundError if _code(error) in ("NoSuchBucket", "NoSuchKey", "404") else StorageError
        raise kind(f"{doing} failed: {error}") from error
    except (BotoCoreError, boto_error) as error:
        raise StorageError(f"{doing} failed: {error}") from error


def _code(error: Any) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))
