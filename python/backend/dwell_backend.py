"""Builds the wheel: maturin's, with the command-line program in it.

The program, and the library that it loads into other programs, are compiled first and laid where maturin takes files from,
so that one `pip install .` gives both the command `dwell` and the module.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import maturin

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "python" / "dwell.data"
# What is taken from the folder of compiled files, and where it goes.
LIBRARIES = DATA / "data" / "lib" / "dwell"
CARRIED = {"dwell": DATA / "scripts", "libdwell_preload.so": LIBRARIES, "libdwell_alloc.so": LIBRARIES}

get_requires_for_build_wheel = maturin.get_requires_for_build_wheel
get_requires_for_build_editable = maturin.get_requires_for_build_editable


class UnsupportedOperation(Exception):
    """What PEP 517 wants raised for an archive of sources that cannot be made."""


def build_sdist(directory: str, settings: dict[str, Any] | None = None) -> str:
    """The crates of the program are not dependencies of the module, so maturin's archive would lack them."""
    raise UnsupportedOperation("dwell is built from a checkout: pip install .")


def build_wheel(directory: str, settings: dict[str, Any] | None = None, metadata: str | None = None) -> str:
    """A wheel with the module and the program."""
    _prepare()
    return str(maturin.build_wheel(directory, settings, metadata))


def build_editable(directory: str, settings: dict[str, Any] | None = None, metadata: str | None = None) -> str:
    """The same, with the Python files of this checkout."""
    _prepare()
    return str(maturin.build_editable(directory, settings, metadata))


def _prepare() -> None:
    """Lays the program and its library where maturin takes them from."""
    # Tests name a build that they have made already: other packages have other features, and all would be compiled anew.
    packages = os.environ.get("DWELL_CARGO_BUILD", "--package dwell-cli --package dwell-preload --package dwell-alloc").split()
    subprocess.run(["cargo", "build", "--release", "--locked", *packages], cwd=ROOT, check=True)
    described = subprocess.run(
        ["cargo", "metadata", "--format-version", "1", "--no-deps", "--locked"],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
    )
    target = Path(json.loads(described.stdout)["target_directory"])
    for name, folder in CARRIED.items():
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy2(target / "release" / name, folder / name)
        # Names of functions and lines are half of the file; without the tool they stay.
        if shutil.which("strip"):
            subprocess.run(["strip", "--strip-unneeded", str(folder / name)], check=True)
