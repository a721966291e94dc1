"""The package as a user gets it: types, names, the notebook, the wheel."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from streams import options

import dwell

ROOT = Path(__file__).resolve().parents[2]


def test_types_are_strict() -> None:
    pytest.importorskip("mypy")
    ran = subprocess.run([sys.executable, "-m", "mypy"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert ran.returncode == 0, ran.stdout


def test_the_stub_names_what_the_compiled_module_has() -> None:
    stub = ast.parse((ROOT / "python/dwell/_core.pyi").read_text())
    told = {it.name: it for it in stub.body if isinstance(it, (ast.ClassDef, ast.FunctionDef))}
    compiled = {name for name in dir(dwell._core) if not name.startswith("_")}
    assert compiled == {name for name, it in told.items() if not (isinstance(it, ast.ClassDef) and it.bases)}
    for name in ("File", "Ring", "Stream"):
        methods = {it.name for it in told[name].body if isinstance(it, ast.FunctionDef) and not it.name.startswith("_")}
        assert methods == {it for it in dir(getattr(dwell._core, name)) if not it.startswith("_")}, name


def test_every_public_name_is_there_and_described() -> None:
    for name in dwell.__all__:
        if name != "__version__":
            assert getattr(dwell, name).__doc__, name
    manifest = (ROOT / "Cargo.toml").read_text()
    assert f'version = "{dwell.__version__}"' in manifest


def test_reading_needs_no_torch(tmp_path: Path) -> None:
    stream = dwell._core.Stream.create(tmp_path / "x.tensors", options("none"))
    stream.finish()
    path = str(tmp_path / "x.tensors")
    script = f"import sys; sys.modules['torch'] = None; import dwell; print(len(dwell.open({path!r})))"
    ran = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=True)
    assert ran.stdout == "0\n"


def notebook_cells() -> list[str]:
    notebook = json.loads((ROOT / "examples/getting_started.ipynb").read_text())
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


def test_the_extra_brings_what_the_notebook_imports() -> None:
    tree = ast.parse("\n".join(notebook_cells()))
    imports = {alias.name for it in ast.walk(tree) if isinstance(it, ast.Import) for alias in it.names}
    imports |= {it.module for it in ast.walk(tree) if isinstance(it, ast.ImportFrom) and it.module}
    foreign = {name.split(".")[0] for name in imports} - set(sys.stdlib_module_names) - {"dwell"}
    (extra,) = re.findall(r"^notebook = \[(.*)\]$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    brought = set(re.findall(r'"([a-z_]+)', extra))
    assert foreign <= brought, foreign - brought
    assert "pyarrow" in brought, "to_arrow needs it"


def test_the_notebook_runs() -> None:
    pytest.importorskip("pyarrow")
    # The environment of the tests may be without it; everything else is run all the same.
    has_matplotlib = importlib.util.find_spec("matplotlib") is not None
    cells = [cell for cell in notebook_cells() if has_matplotlib or "matplotlib" not in cell]
    ran = subprocess.run(
        [sys.executable, "-W", "error::UserWarning:dwell", "-c", "\n\n".join(cells)],
        env=os.environ | {"MPLBACKEND": "Agg"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout
    assert "begins with 4 tokens" in ran.stdout and "50 packets" in ran.stdout


@pytest.mark.skipif(os.environ.get("DWELL_QUICK") == "1", reason="builds the wheel (DWELL_QUICK)")
def test_a_wheel_carries_the_module_and_the_command(tmp_path: Path) -> None:
    pytest.importorskip("maturin")
    build = "import sys, dwell_backend; print(dwell_backend.build_wheel(sys.argv[1]))"
    environment = os.environ | {
        "PYTHONPATH": str(ROOT / "python/backend"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    subprocess.run([sys.executable, "-c", build, str(tmp_path)], cwd=ROOT, env=environment, check=True)
    (wheel,) = tmp_path.glob("dwell-*-cp310-abi3-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"dwell/__init__.py", "dwell/py.typed", "dwell/_core.pyi", "dwell/_core.abi3.so"} <= set(names)
    assert not [name for name in names if "tests" in name or "__pycache__" in name]
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "fresh"], check=True)
    fresh = tmp_path / "fresh/bin"
    subprocess.run([fresh / "python", "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", wheel], check=True)
    for library in ["libdwell_preload.so", "libdwell_alloc.so"]:
        assert (tmp_path / "fresh/lib/dwell" / library).is_file(), "what is loaded into programs comes with it"
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    for command in (
        [fresh / "dwell", "--version"],
        [fresh / "python", "-c", "import dwell; print('dwell', dwell.__version__)"],
    ):
        ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=clean, check=True, cwd=tmp_path)
        assert ran.stdout.split()[:2] == ["dwell", dwell.__version__]
    doctor = subprocess.run(
        [fresh / "dwell", "doctor", "--json", "--collect", "preload"],
        stdout=subprocess.PIPE,
        env=clean,
        check=True,
        cwd=tmp_path,
    )
    (preload,) = [probe for probe in json.loads(doctor.stdout)["probes"] if probe["name"] == "preload"]
    assert preload["status"] == "works", "it finds the library that it came with"
