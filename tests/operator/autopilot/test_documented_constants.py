"""The figures in `docs/autopilot.md` are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from paceline_operator.autopilot import hindsight, learning, pilot
from paceline_operator.autopilot.demand import forecast, trend
from paceline_operator.autopilot.knobs import account as knob_account
from paceline_operator.autopilot.knobs import (
    itl_rules,
    margin,
    pacing_rules,
    probe_rules,
    reversal,
    trial_rules,
    ttft_rules,
)
from paceline_operator.autopilot.knobs import loop as knob_loop
from paceline_operator.autopilot.measurement import attainment, cold_starts, error_budget, waiting
from paceline_operator.autopilot.plant import capacity, drift, fit, pace, plant, workload
from paceline_operator.autopilot.replicas import account as replica_account
from paceline_operator.autopilot.replicas import (
    bursts,
    capacity_evidence,
    hit_shares,
    pending,
    recommendation,
    regret,
    scale_in_guard,
    unseen,
)
from paceline_operator.autopilot.replicas import feedback as replica_feedback
from paceline_operator.autopilot.replicas import limits as replica_limits
from paceline_operator.autopilot.replicas import loop as replica_loop
from paceline_operator.autopilot.replicas import need as replica_need
from paceline_operator.autopilot.situation import scene, situation
from paceline_operator.autopilot.vocabulary import fleet, memory, slices
from paceline_operator.metrics import scraper

DOCS = Path(__file__).parents[3] / "docs"
TEXT = re.sub(r"\s+", " ", (DOCS / "autopilot.md").read_text(encoding="utf-8"))
REASONS = (DOCS / "reasons.md").read_text(encoding="utf-8")


def percent(share: float) -> str:
    return f"{round(100 * share, 6):g} %"


def seconds(value: float) -> str:
    return f"{value:g} s"


def minutes(value: float) -> str:
    return f"{value / 60:g} minutes"


_WORD = {5: "five"}

SAID = {
    "fresh": f"within {seconds(scraper.STALE_AFTER_S)}",
    "stale": f"*stale* up to {seconds(scraper.ABSENT_AFTER_S)}",
    "lost": f"has told nothing for {seconds(fleet.LOST_AFTER_S)} is *lost*",
    "full engine": f"or {percent(waiting.FULL_SHARE)} of the KV blocks in use",
    "fresh wait": f"within {waiting.FRESH_S:.0f} s and as long as the longest",
    "longest wait": f"within {waiting.LONGEST_S:.0f} s where none was taken",
    "most lost": f"more than one and more than {percent(unseen.MOST_LOST)} are lost",
    "outlier": f"longest of the last {_WORD[learning.COLD_STARTS_KEPT]}, at most "
    f"{cold_starts.MOST_TIMES_USUAL:g} C'",
    "samples": f"*missed* needs {attainment.LEAST_SAMPLES} samples",
    "history": f"last five minutes of them are kept{'' if slices.HISTORY_S == 300 else '!'}",
    "fading": f"Of the evidence {fit.FORGET_PER_WINDOW} is kept from slice to slice",
    "idle steps": f"of the usual ({percent(1 - fit.FORGET_PER_WINDOW)} of those remembered)",
    "gate": f"nine times the expected square{'' if fit.GATE == 9 else '!'}",
    "gate's spread": f"of {percent(fit.GATE_SPREAD)} of a step",
    "reopened": f"{percent(1 - fit.REOPEN_KEEP)} of the evidence is dropped",
    "settled": f"ready less than {seconds(learning.SETTLED_S)} ago",
    "trusted": f"is at most {percent(plant.TRUSTED_SD)}, *usable* up to {percent(plant.USABLE_SD)}",
    "pace": f"kept with a half-life of {seconds(pace.HALF_LIFE_S)}",
    "slow": f"exceeds {pace.SLOW} times the lower median",
    "persists": f"for {seconds(pace.PERSISTS_S)} (of at least {pace.LEAST_STEPS:g} steps)",
    "sound": f"until it is below {pace.SOUND} times",
    "verdict": f"is neither after {seconds(pace.KNOWN_FOR_S)}",
    "paces": f"more than {pace.MOST_KEPT} pods",
    "factor": f"between {drift.LEAST_FACTOR} and {drift.MOST_FACTOR:g}, is `step_factor`",
    "mismatch": f"at a limit for {minutes(drift.MISMATCH_S)}",
    "knob loop": f"The budget loop, every {seconds(knob_loop.KNOB_EVERY_S)}",
    "unjudged": f"a trial {seconds(reversal.GRACE_S)} after its longest time",
    "blind": f"a squeeze after {seconds(reversal.BLIND_S)} without fresh data",
    "restored": f"restored, {seconds(itl_rules.SQUEEZE_LASTS_S)} later",
    "cut": f"by a quarter, and m rises{'' if itl_rules.CUT_FACTOR == 0.75 else '!'}",
    "learned": f"by {itl_rules.MARGIN_PER_CUT} at most; not within "
    f"{seconds(itl_rules.CUT_COOLDOWN_S)} of a cut",
    "late": f"more than half of S_ttft to start{'' if ttft_rules.LATE_SHARE == 0.5 else '!'}",
    "pressure": f"more than {percent(ttft_rules.PRESSURE_SHARE)} of the capacity is expected",
    "proven": f"in the last {minutes(learning.PROVEN_LASTS_S)}; beyond it",
    "raise": f"next rung or {situation.RAISE_FACTOR} times that",
    "after a cut": f"Not within {seconds(ttft_rules.RAISE_AFTER_LOWER_S)} of a cut",
    "after a raise": f"({seconds(ttft_rules.RAISE_COOLDOWN_S)} else)",
    "near the cap": f"less than {percent(ttft_rules.DEAD_BAND)} above B",
    "refused": f"gone back to for {minutes(ttft_rules.REFUSED_LASTS_S)}",
    "full steps": f"With n >= {trial_rules.LEAST_FULL_STEPS:g} (and "
    f"{trial_rules.LEAST_CONTROL_STEPS:g} steps of the others",
    "failed": f"not tried for {minutes(trial_rules.FAILED_LASTS_S)} unless d95 falls below "
    f"{trial_rules.LIGHTER} of",
    "trial": f"tries for up to a minute{'' if trial_rules.LONGEST_S == 60 else '!'}",
    "uncertain": f"above {percent(probe_rules.UNCERTAIN_SD)} of b",
    "probes": f"at most every five minutes{'' if probe_rules.PROBE_EVERY_S == 300 else '!'}",
    "margin": f"m begins at {memory.Memory().margin:.2f}",
    "margin's worth": f"{margin.JUDGED_AFTER:.2f} more have not taken {percent(margin.WORTH)} off",
    "useless margin": f"tried again for {minutes(margin.FAILED_LASTS_S)}",
    "integral": f"m += {60 * margin.PER_SECOND:g}/min",
    "margins": f"between {margin.LEAST} and {margin.MOST:.2f}, only",
    "reserve": f"1.645 standard deviations, {plant.MOST_RESERVED} at most",
    "dead band": f"anew where it differs by {percent(pacing_rules.DEAD_BAND)}",
    "replica loop": f"The replica loop, every {seconds(situation.REPLICA_EVERY_S)}",
    "sure": f"z is {forecast.SURE_SIGMAS}, since many",
    "step": f"lies {forecast.STEP_SIGMAS:g} standard deviations above the rest of the minute it is "
    f"known for a step, and z is {forecast.KNOWN_SIGMAS:g}",
    "young": f"or less than {seconds(forecast.YOUNG_S)} of anything",
    "remembered": f"until {workload._ENOUGH_REQUESTS:g} of them were seen, or "
    f"{workload._LEAST_REQUESTS:g} that "
    f"chance does not explain, for {minutes(workload._REMEMBERED_S)}",
    "queued": f"; {forecast.QUEUED_SIGMAS:g} are enough while prompts wait for more than half of "
    f"the TTFT target{'' if situation.QUEUED_SHARE == 0.5 else '!'}",
    "spend": f"late x (serving / left)^{capacity_evidence.GROWTH} <= "
    f"{capacity_evidence.AIM} (1 - share)",
    "aim": f"aim = {capacity_evidence.AIM} (1 - share)",
    "beyond": f"Beyond {replica_feedback.MOST_BEYOND:g} times, and "
    f"{replica_feedback.LEAST_BEYOND} more than it asks for",
    "taken back": f"A scale-in is not taken back within {regret.TURN_S:g} s for little",
    "regret": f"at no more than {regret.SAME_LOAD} times the load that was expected when it was "
    f"made, "
    f"it was one too many: for an hour no scale-in goes below what was needed then, "
    f"at most what there was before it, until "
    f"{regret.LESS_LOAD} times less{'' if regret.REMEMBERED_S == 3600 else '!'}",
    "bursts": "for an hour the next one that asks for more than one replica is answered when it "
    f"has lasted {bursts.LONGER} times"
    f"{'' if bursts.REMEMBERED_S == 3600 else '!'}",
    "spans": "what " + ", ".join(f"{s:g}" for s in forecast.SPANS_S[:-2]) + f" and "
    f"{forecast.SPANS_S[-2]:g} s prove",
    "fall": f"lie {forecast.FALL_SIGMAS:g} standard deviations below it",
    "slope": f"up to {forecast.MOST_CARRIED:g} times the level",
    "lines": f"the last five and ten minutes{'' if forecast.LINES_S == (300, 600) else '!'}",
    "tenths": f"while tenths of them{'' if forecast.LINE_PARTS == 10 else '!'}",
    "line": f"within {trend.LINE_SIGMAS:g} standard deviations): a step",
    "surge": f"lies {forecast.SURGE_SIGMAS:g} standard deviations above what came before",
    "surge tick": f"the loop looks every {seconds(pilot.SURGE_EVERY_S)}",
    "reliable": f"standard deviation {percent(situation.RELIABLE_SD)} at most",
    "overhead": f"plus the running step and {capacity.OVERHEAD_MS:g} ms",
    "limits": f"within {capacity.TTFT_SHARE} S_ttft, decode-only",
    "limits of work": f"<= {capacity.MOST_BUSY}, d (I + O) <= {capacity.MOST_KV:.2f}",
    "bisection": f"(bisection, to {percent(capacity._CLOSE)})",
    "evidence": f"factor between {capacity_evidence.LEAST_FACTOR} and "
    f"{capacity_evidence.MOST_FACTOR}",
    "growth": f"as R^{capacity_evidence.GROWTH}",
    "stretch": f"steady stretch of {capacity_evidence.SHORTEST_S:g} to "
    f"{capacity_evidence.WINDOW_S:g} s with at least {attainment.ENOUGH_SAMPLES} requests",
    "farthest": f"(no more than {capacity_evidence.FARTHEST} R",
    "recovery": f"goes back by {percent(capacity_evidence.RECOVERY - 1)} in "
    f"{seconds(capacity_evidence.EVERY_S)}",
    "rise": f"it rises, by {percent(capacity_evidence.RAISE_STEP - 1)} in "
    f"{seconds(capacity_evidence.EVERY_S)}",
    "drain": f"backlog / max({seconds(pending.SHORTEST_DRAIN_S)}, 2 C')",
    "known": f"missed for {seconds(replica_feedback._KNOWN_WINDOW_S)} "
    f"({seconds(replica_feedback._QUIET_WINDOW_S)} while",
    "noise": f"plus {forecast.NOISE_SIGMAS} \N{GREEK SMALL LETTER SIGMA} over that horizon",
    "returns": f"back within {seconds(recommendation.RETURN_S)}: the down window grows by as "
    f"long as they were gone, up to {recommendation.MOST_WINDOWS:g} times",
    "returns last": f"once an hour{'' if recommendation.RETURN_LASTS_S == 3600 else '!'} has",
    "hits": f"in the last {seconds(hit_shares.REMEMBERED_S)} (each over "
    f"{seconds(hit_shares.MEASURED_S)}, once it had served as it was for "
    f"{seconds(hit_shares.WARM_S)}, of {hit_shares.LEAST_REQUESTS:g} requests",
    "other hits": f"finds {hit_shares.OTHERS} more or less",
    "sizes": f"less than {hit_shares.APART} times say nothing, {hit_shares.DOUBT} is added",
    "longer": f"with {workload._LEAST_REQUESTS:g} ends at least",
    "longest": f"requests that ended, {workload._MOST_LONGER:g} times that mean at most",
    "hit rounds": f"in {replica_need.HIT_ROUNDS} rounds at most",
    "late times": f"min({replica_feedback.MOST_TIMES:g}, (late / aim)^(1 / "
    f"{capacity_evidence.GROWTH}))",
    "waited out": f"longer than {bursts.WAITED_SHARE} C' ({seconds(bursts.WAITED_S)} at least)",
    "told": f"of which {minutes(bursts.TOLD_S)} were seen",
    "out": f"at most max({replica_loop.MOST_NEW}, 100 %) in "
    f"{seconds(replica_account.OUT_WINDOW_S)}",
    "in": f"for {replica_need.DOWN_INFLATION} times the expected load, by at most max(1, "
    f"{percent(1 / replica_account.IN_SHARE)} rounded)",
    "in again": f"once a minute{'' if scale_in_guard.IN_COOLDOWN_S == 60 else '!'}",
    "down window": f"at least {recommendation.COLD_STARTS:g} C'",
    "schedules": f"ordered C + {2 * replica_limits.REPLICA_EVERY_S:g} s ahead",
    "buckets": f"buckets of five minutes{'' if error_budget.BUCKET_S == 300 else '!'}",
    "judged": f"of a budget {seconds(knob_account.JUDGED_AFTER_S)} later",
    "replicas judged": f"a cold start and "
    f"{seconds(scene.SETTLE_S + replica_account.JUDGED_OVER_S)} later",
}


@pytest.mark.parametrize("figure", SAID)
def test_a_figure_of_the_law_is_said_as_it_is(figure: str) -> None:
    assert SAID[figure] in TEXT


def test_what_is_looked_back_on_was_measured_and_kept() -> None:
    assert hindsight.LONGEST_S < slices.HISTORY_S
    assert slices.SHARES_KEPT_S >= trial_rules.LONGEST_S + reversal.GRACE_S


def test_the_headroom_that_reasons_tell_of_is_the_laws() -> None:
    assert f"not for {replica_need.DOWN_INFLATION} times the load" in REASONS
