"""What all sections share."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """One section of the file: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)
