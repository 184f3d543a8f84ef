from __future__ import annotations

from pathlib import Path

import pytest

from e2e.load.options import API_KEY, parser, read

NEEDED = ("--url", "http://x:8000", "--model", "m", "--rate", "2", "--duration", "10")


@pytest.mark.parametrize(
    ("flags", "phases", "requests"),
    [
        ((), ["steady"], 20),
        (("--plan", "step", "--before", "5", "--after", "0"), ["before", "step"], 70),
        (("--plan", "ramp", "--factor", "2"), ["ramp"], 30),
        (
            ("--plan", "burst", "--every", "5", "--burst", "1"),
            ["quiet", "burst", "quiet", "burst"],
            28,
        ),
        (("--plan", "stages", "--stages", "low:1:5,high:4:10"), ["low", "high"], 90),
    ],
)
def test_plans(flags: tuple[str, ...], phases: list[str], requests: int) -> None:
    plan, _, _ = read([*NEEDED, "--evenly", *flags])
    assert [phase.name for phase in plan.phases] == phases
    assert len(plan.requests) == requests


def test_what_is_not_said_is_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(API_KEY, raising=False)
    plan, target, as_json = read(NEEDED)
    assert (target.url, target.model, target.route) == ("http://x:8000", "m", "chat")
    assert (target.ignore_eos, target.api_key, as_json) == (True, None, False)
    assert all(request.streamed for request in plan.requests)


def test_the_key_comes_from_a_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arguments can be read by everybody on the machine, and stand in the Job's spec."""
    (tmp_path / "key").write_text("of-the-file\n")
    monkeypatch.setenv(API_KEY, "of-the-environment")
    assert read(NEEDED)[1].api_key == "of-the-environment"
    flags = ("--api-key-file", str(tmp_path / "key"))
    assert read([*NEEDED, *flags])[1].api_key == "of-the-file"


def test_help_documents_every_flag() -> None:
    text = parser().format_help()
    for flag in ("--seed", "--mix", "--plan", "--json", "refused (429 with Retry-After)"):
        assert flag in text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (("--rate", "0", "--duration", "1"), "argument --rate: 0 is not above zero"),
        (("--rate", "x", "--duration", "1"), "argument --rate: 'x' is not a number"),
        (("--rate", "999", "--duration", "999"), "the plan holds about 998001 requests"),
        (("--rate", "1", "--duration", "1", "--mix", "x"), "argument --mix: mix 'x' is not"),
        (("--rate", "inf", "--duration", "1"), "argument --rate: inf is not above zero"),
        (("--rate", "nan", "--duration", "1"), "argument --rate: nan is not above zero"),
        (("--rate", "1", "--duration", "1", "--before", "-1"), "argument --before: -1 is below"),
        (("--rate", "1", "--duration", "1", "--streamed", "2"), "argument --streamed: 2 is not"),
        (
            ("--rate", "1", "--duration", "1", "--api-key", "k"),
            "unrecognized arguments: --api-key k",
        ),
        (
            ("--rate", "1", "--duration", "1", "--api-key-file", "/absent"),
            "argument --api-key-file: /absent cannot be read: No such file",
        ),
        (
            ("--rate", "1", "--duration", "1", "--api-key-file", "/dev/null"),
            "argument --api-key-file: /dev/null begins with an empty line",
        ),
        (("--duration", "1"), "the following arguments are required: --rate"),
        (
            ("--rate", "1", "--duration", "1", "--plan", "burst", "--burst", "30"),
            "--burst 30 must be below --every 30",
        ),
        (("--rate", "1"), "--plan steady needs --duration"),
        (("--rate", "1", "--plan", "stages"), "--plan stages needs --stages"),
        (
            ("--rate", "1", "--plan", "stages", "--stages", "a:1"),
            "argument --stages: 'a:1' is not PHASE:LEVEL:SECONDS",
        ),
        (
            ("--rate", "1", "--plan", "stages", "--stages", "a:0:5"),
            "argument --stages: 0 is not above zero",
        ),
    ],
)
def test_wrong_flags_are_one_line_and_code_2(
    capsys: pytest.CaptureFixture[str], changes: tuple[str, ...], message: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        read(["--url", "http://x", "--model", "m", *changes])
    assert ended.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(f"python -m e2e.load: error: {message}")
