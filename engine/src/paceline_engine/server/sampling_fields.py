"""Fields that completions and chat share, and those we know but do not serve.

Unknown fields are ignored. A known field that would change the answer and is not served
yet is refused, never ignored: `NEUTRAL` lists the values that ask for nothing.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from paceline_engine.request import Tier
from paceline_engine.sampling import SamplingParams

SEED_MASK = 2**64 - 1
INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1
MAX_STOPS = 32
MAX_STOP_CHARS = 512

NEUTRAL: dict[str, tuple[Any, ...]] = {
    "n": (None, 1),
    "best_of": (None, 1),
    "echo": (None, False),
    "suffix": (None, ""),
    "logprobs": (None, False),
    "top_logprobs": (None, 0),
    "prompt_logprobs": (None,),
    "presence_penalty": (None, 0),
    "frequency_penalty": (None, 0),
    "repetition_penalty": (None, 1),
    "min_p": (None, 0),
    "min_tokens": (None, 0),
    "logit_bias": (None, {}),
    "bad_words": (None, []),
    "response_format": (None, {"type": "text"}),
    "structured_outputs": (None,),
    "guided_json": (None,),
    "guided_regex": (None,),
    "guided_choice": (None,),
    "guided_grammar": (None,),
    "use_beam_search": (None, False),
    "tools": (None, []),
    "functions": (None, []),
    "modalities": (None, ["text"]),
    "audio": (None,),
    "prompt_embeds": (None,),
}


def _same(value: object, neutral: object) -> bool:
    if isinstance(value, bool) or isinstance(neutral, bool):
        return value is neutral
    return value == neutral


def _refuse_unserved(data: object) -> object:
    if isinstance(data, dict):
        for name, neutral in NEUTRAL.items():
            if name in data and not any(_same(data[name], each) for each in neutral):
                raise PydanticCustomError("unsupported_field", "{field}", {"field": name})
    return data


def _stop_list(value: object) -> object:
    return [value] if isinstance(value, str) else ([] if value is None else value)


StopString = Annotated[str, Field(min_length=1, max_length=MAX_STOP_CHARS)]
Stops = Annotated[tuple[StopString, ...], BeforeValidator(_stop_list), Field(max_length=MAX_STOPS)]


class StreamOptions(BaseModel):
    """Options of a streamed answer."""

    include_usage: bool | None = None


class SamplingFields(BaseModel):
    """What both routes accept about sampling and delivery. None means the default."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False, frozen=True)

    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    temperature: Annotated[float, Field(ge=0, le=100)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=-1, le=INT64_MAX)] | None = None
    seed: Annotated[int, Field(ge=INT64_MIN, le=INT64_MAX)] | None = None
    stop: Stops = ()
    stop_token_ids: Annotated[tuple[int, ...], Field(max_length=1024)] | None = None
    ignore_eos: bool | None = None
    service_tier: str | None = None

    @model_validator(mode="before")
    @classmethod
    def refuse_unserved(cls, data: object) -> object:
        """Refuses known fields that are not served, naming the field."""
        return _refuse_unserved(data)

    @property
    def tier(self) -> Tier:
        """Which queue serves the call."""
        return Tier.BATCH if self.service_tier == "flex" else Tier.INTERACTIVE

    @property
    def include_usage(self) -> bool:
        """Whether a stream ends with a usage chunk."""
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def output_limit(self) -> int | None:
        """Output tokens asked for; None leaves it to the route."""
        return self.max_tokens

    def params(self, *, max_tokens: int, drawn_seed: int) -> SamplingParams:
        """Settings for the engine.

        Args:
            max_tokens: Output limit of this prompt.
            drawn_seed: Used where the caller gives none.
        """
        defaults = SamplingParams()
        temperature, top_p = self.temperature, self.top_p
        return SamplingParams(
            temperature=defaults.temperature if temperature is None else temperature,
            top_p=defaults.top_p if top_p is None else top_p,
            top_k=max(0, self.top_k or 0),
            seed=(drawn_seed if self.seed is None else self.seed) & SEED_MASK,
            max_tokens=max_tokens,
            ignore_eos=bool(self.ignore_eos),
            stop_token_ids=self.stop_token_ids or (),
        )
