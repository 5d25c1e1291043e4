"""The numbers of CUDA, with their names and texts: `cuda.yaml`, read once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from knowledge.cache import parse_all
from knowledge.signature import Id, Text

FILE = Path(__file__).with_name("cuda.yaml")


class CudaError(BaseModel):
    """One number, of the runtime (`cudaError_t`) and of the driver (`CUresult`)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    number: int = Field(ge=1, le=999)
    runtime: str = Field(pattern=r"^cudaError[A-Z]\w+$")
    driver: str = Field(default="", pattern=r"^(CUDA_ERROR_[A-Z_]+)?$")  # empty: the driver has no such number
    text: Text  # what is printed for it
    entry: Id  # of the catalogue, which speaks for lines with that text


@cache
def cuda_errors() -> Mapping[int, CudaError]:
    """Every number with what it stands for. Raises pydantic.ValidationError or ValueError for a malformed file."""
    listed = TypeAdapter(list[CudaError]).validate_python(parse_all([FILE])[0])
    found = {error.number: error for error in listed}
    if len(found) != len(listed):
        raise ValueError(f"{FILE.name}: a number stands twice")
    return MappingProxyType(found)


def cuda_error(name: str) -> CudaError | None:
    """Return the error with this name, of the runtime or of the driver, in whatever case."""
    wanted = name.lower()
    return next(
        (error for error in cuda_errors().values() if wanted in (error.runtime.lower(), error.driver.lower())), None
    )
