"""Validation of a task's result against a JSON schema, with a limited number of attempts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from joey.core.prompts import messages_to_model
from joey.core.structured_output import (
    JsonSchema,
    parse_structured_result,
    render_schema_instructions,
)
from joey.engine.outcomes import RunStopped
from joey.errors import FailureCode, ToolError
from joey.ports.content import SchemaValidator

MAX_RESULT_ATTEMPTS = 3


class ResultValidator:
    """Validates the results of one task; those of its subtasks are not checked here."""

    def __init__(self, schema: JsonSchema, validator: SchemaValidator) -> None:
        self._schema = schema
        self._validator = validator
        self._failed_attempts = 0
        self.instructions = render_schema_instructions(schema)
        """What the system prompt says about it."""

    async def validate(self, result: str) -> None:
        """Validate a result. Raises ToolError, which tells the model what is wrong, or RunStopped
        after too many attempts."""
        problems = await self._find_problems(result)
        if not problems:
            self._failed_attempts = 0
            return
        self._failed_attempts += 1
        if self._failed_attempts >= MAX_RESULT_ATTEMPTS:
            self._failed_attempts = 0
            raise RunStopped(
                FailureCode.INVALID_RESULT,
                f"The model's result did not fit the JSON schema in {MAX_RESULT_ATTEMPTS} "
                f"attempts. The last one: {problems[0]}",
            )
        raise ToolError(messages_to_model.render_invalid_result(problems))

    async def _find_problems(self, result: str) -> Sequence[str]:
        try:
            value = (await asyncio.to_thread(parse_structured_result, result)).value
        except ValueError as error:
            return [f"It is not JSON: {error}."]
        return await self._validator.find_problems(self._schema, value)
