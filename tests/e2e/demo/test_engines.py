"""Step counts out of the engines' metrics."""

from e2e.demo.engines import StepCounts, step_counts

LINE = 'paceline_engine_step_moments_total{{class="{0}",model_name="m",term="{1}"}} {2}\n'
TEXT = (
    LINE.format("decode_only", "n", "40.0")
    + LINE.format("mixed", "n", "7.0")
    + LINE.format("prefill_only", "n", "3.0")
    + LINE.format("mixed", "nn", "999.0")
    + LINE.format("mixed", "t", "999.0")
)


def test_steps_add_up_over_engines_and_classes() -> None:
    assert step_counts([TEXT, TEXT]) == StepCounts(all_steps=100, decoding=94)


def test_other_terms_are_not_steps() -> None:
    assert step_counts([TEXT]) == StepCounts(all_steps=50, decoding=47)


def test_a_phase_is_a_difference() -> None:
    assert step_counts([TEXT, TEXT]) - step_counts([TEXT]) == step_counts([TEXT])
