"""Fields that completions and chat share. None means the default, wherever it is given.

Types are strict: a number in quotes is no number, as with OpenAI, so that the served
OpenAPI document says exactly what is taken.
"""

from __future__ import annotations

from typing import Annotated, Final, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from paceline_engine.request import Tier
from paceline_engine.sampling import SamplingParams
from paceline_engine.server.known_fields import (
    at_most,
    check_extra,
    contradiction,
    describe_unserved,
)

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
MAX_STOPS: Final = 32
MAX_STOP_CHARS: Final = 512
MAX_STOP_TOKENS: Final = 1024
MAX_CHOICES: Final = 128
MAX_TOP_LOGPROBS: Final = 20
MAX_BIASED_TOKENS: Final = 1024
MAX_BAD_WORDS: Final = 256

TIERS: Final = {
    "auto": Tier.INTERACTIVE,
    "default": Tier.INTERACTIVE,
    "priority": Tier.INTERACTIVE,
    "scale": Tier.INTERACTIVE,
    "flex": Tier.BATCH,
}
"""OpenAI's `service_tier` -> ours."""
SERVED_TIERS: Final = {Tier.INTERACTIVE: "default", Tier.BATCH: "flex"}
"""What an answer says it was served as: `priority` and `scale` buy nothing more here."""


def _stop_list(value: object) -> object:
    if isinstance(value, str):
        return (value,)
    return tuple(value or ()) if value is None or isinstance(value, list) else value


StopString = Annotated[str, Field(min_length=1, max_length=MAX_STOP_CHARS)]
StopStrings = Annotated[tuple[StopString, ...], Field(fail_fast=True, max_length=MAX_STOPS)]
Stops = Annotated[
    StopStrings,
    BeforeValidator(_stop_list, json_schema_input_type=StopString | StopStrings | None),
]
TopLogprobs = Annotated[int, Field(ge=0, le=MAX_TOP_LOGPROBS)]
Penalty = Annotated[float, Field(ge=-2, le=2)]
TokenIdText = Annotated[str, Field(pattern=r"^[0-9]{1,10}$")]
Bias = Annotated[float, Field(ge=-100, le=100)]
BadWord = Annotated[str, Field(min_length=1, max_length=MAX_STOP_CHARS)]


class StreamOptions(BaseModel):
    """Options of a streamed answer."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class SamplingFields(BaseModel):
    """What both routes accept about sampling and delivery."""

    model_config = ConfigDict(
        extra="allow",  # looked through once, then left alone
        allow_inf_nan=False,
        frozen=True,
        strict=True,
        json_schema_extra=describe_unserved,
    )

    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Annotated[int, Field(ge=1, le=MAX_CHOICES)] | None = None
    max_tokens: Annotated[int, Field(ge=0)] | None = None
    min_tokens: Annotated[int, Field(ge=0, le=INT64_MAX)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=-1, le=INT64_MAX)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    repetition_penalty: Annotated[float, Field(ge=0.01, le=100)] | None = None
    logit_bias: (
        Annotated[
            dict[TokenIdText, Bias],
            Field(max_length=MAX_BIASED_TOKENS),
            at_most(MAX_BIASED_TOKENS),
        ]
        | None
    ) = None
    bad_words: (
        Annotated[tuple[BadWord, ...], Field(fail_fast=True, max_length=MAX_BAD_WORDS)] | None
    ) = None
    seed: Annotated[int, Field(ge=INT64_MIN, le=INT64_MAX)] | None = None
    stop: Stops = ()
    stop_token_ids: (
        Annotated[tuple[int, ...], Field(fail_fast=True, max_length=MAX_STOP_TOKENS)] | None
    ) = None
    include_stop_str_in_output: bool | None = None
    skip_special_tokens: bool | None = None
    ignore_eos: bool | None = None
    prompt_logprobs: TopLogprobs | None = None
    return_token_ids: bool | None = None
    service_tier: Annotated[str, Field(pattern=f"^({'|'.join(TIERS)})$")] | None = None
    cache_salt: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    user: str | None = None

    @model_validator(mode="after")
    def check_together(self) -> Self:
        """Refuses what is not served and fields that do not go together."""
        check_extra(self.model_extra or {})
        if self.stream_options is not None and not self.stream:
            raise contradiction("stream_options", "needs stream: true")
        if self.prompt_logprobs is not None and self.stream:
            raise contradiction("prompt_logprobs", "are not available with stream: true")
        limit = self.output_limit
        if limit is not None and (self.min_tokens or 0) > limit:
            raise contradiction("min_tokens", f"is above the limit of {limit} output tokens")
        return self

    @property
    def choices(self) -> int:
        """Choices in the answer for each prompt."""
        return self.n or 1

    @property
    def candidates(self) -> int:
        """Outputs generated for each prompt, of which the best `choices` are shown."""
        return self.choices

    @property
    def tier(self) -> Tier:
        """Tier that serves the call."""
        return TIERS[self.service_tier or "auto"]

    @property
    def include_usage(self) -> bool:
        """Whether a stream ends with a usage chunk."""
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def continuous_usage(self) -> bool:
        """Whether each chunk tells its choice's usage so far, as vLLM: only with the former."""
        options = self.stream_options
        return self.include_usage and bool(options and options.continuous_usage_stats)

    @property
    def shown_logprobs(self) -> int | None:
        """Best tokens shown at each output position; None shows no log-probabilities."""
        return None

    @property
    def echoes(self) -> bool:
        """Whether the answer begins with the prompt."""
        return False

    @property
    def output_limit(self) -> int | None:
        """Output tokens asked for; None leaves it to the route."""
        return self.max_tokens

    @property
    def output_scores(self) -> int:
        """Log-probabilities drawn with each output token: its own and those of the best ones."""
        if self.shown_logprobs is not None:
            return self.shown_logprobs + 1
        return int(self.candidates > self.choices)  # the best of many is told by them

    def needed_prompt_logprobs(self) -> int | None:
        """Best tokens the engine must report for each prompt position, if any."""
        echoed = self.shown_logprobs if self.echoes else None
        wanted = [count for count in (self.prompt_logprobs, echoed) if count is not None]
        return max(wanted, default=None)

    def params(
        self, *, max_tokens: int, seed: int, bad_words: tuple[tuple[int, ...], ...] = ()
    ) -> SamplingParams:
        """Settings for the engine, without prompt log-probabilities.

        Args:
            max_tokens: Output limit of this prompt, at least 1.
            seed: 64-bit seed of this choice.
            bad_words: `bad_words` as token ids.
        """
        defaults = SamplingParams()
        bias = (self.logit_bias or {}).items()
        return SamplingParams(
            temperature=_or(self.temperature, defaults.temperature),
            top_p=_or(self.top_p, defaults.top_p),
            top_k=max(0, self.top_k or 0),
            min_p=self.min_p or 0.0,
            seed=seed,
            max_tokens=max_tokens,
            min_tokens=min(self.min_tokens or 0, max_tokens),
            ignore_eos=bool(self.ignore_eos),
            stop_token_ids=self.stop_token_ids or (),
            presence_penalty=self.presence_penalty or 0.0,
            frequency_penalty=self.frequency_penalty or 0.0,
            repetition_penalty=_or(self.repetition_penalty, defaults.repetition_penalty),
            logit_bias=tuple(sorted((int(token_id), value) for token_id, value in bias)),
            bad_words=bad_words,
            logprobs=self.output_scores - 1 if self.output_scores else None,
        )


def _or(given: float | None, default: float) -> float:
    return default if given is None else given
