"""The program as a Job runs it: a process with flags, JSON lines and signals."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Any

from aiohttp import web

from e2e.job import read_log
from e2e.load.record import Outcome, read_records
from tests.e2e.load.serving import Serve, full_stream

SOURCES = Path(__file__).parents[3] / "e2e" / "load"


async def start(*flags: str, place: Path = SOURCES.parents[1]) -> Process:
    command = (sys.executable, "-m", "e2e.load", *flags)
    return await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE, cwd=place)


async def finish(process: Process) -> tuple[list[str], str]:
    out, err = await process.communicate()
    return out.decode().splitlines(), err.decode()


def flags(url: str, *more: str) -> tuple[str, ...]:
    return ("--url", url, "--model", "m", "--rate", "10", "--mix", "a:1:8:4", "--evenly", *more)


async def test_json_lines_tell_start_records_and_summary(serve: Serve) -> None:
    url = await serve(full_stream)
    step = ("--plan", "step", "--before", "1", "--after", "0", "--duration", "1", "--json")
    process = await start(*flags(url, *step))
    lines, errors = await finish(process)
    assert (process.returncode, errors) == (0, "")
    started = json.loads(lines[0])["start"]
    assert started["requests"] == 40
    assert [phase["name"] for phase in started["phases"]] == ["before", "step"]
    assert started["phases"][1]["from_s"] == started["at_s"] + 1
    records = read_records(lines)
    assert len(records) == 40
    assert all(r.outcome is Outcome.OK for r in records)
    assert started["at_s"] < records[0].sent_s
    summary = json.loads(lines[-1])["summary"]
    assert (summary["planned"], summary["ok"], summary["stopped"]) == (40, 40, False)
    assert summary["phases"]["step"]["requests"] == 30


async def test_people_get_a_table(serve: Serve) -> None:
    process = await start(*flags(await serve(full_stream), "--duration", "0.5"))
    lines, _ = await finish(process)
    assert [line.split()[:4] for line in lines[1:3]] == [
        ["all", "5", "5", "0"],
        ["steady", "5", "5", "0"],
    ]


async def test_sigterm_ends_it_with_everything_accounted_for(serve: Serve) -> None:
    hanging = asyncio.Event()

    async def handler(_request: web.Request) -> web.StreamResponse:
        hanging.set()
        await asyncio.Event().wait()
        return web.Response()

    process = await start(*flags(await serve(handler), "--duration", "600", "--json"))
    await hanging.wait()
    process.send_signal(signal.SIGTERM)
    lines, errors = await finish(process)
    assert (process.returncode, errors) == (0, "")
    records = read_records(lines)
    assert {r.outcome for r in records} == {Outcome.CANCELLED}
    summary = json.loads(lines[-1])["summary"]
    assert summary["stopped"] is True
    assert summary["cancelled"] == summary["requests"] == len(records) >= 1


async def test_sigusr1_lets_what_is_in_flight_come_to_its_end(serve: Serve) -> None:
    arrived, answered = asyncio.Event(), asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        arrived.set()
        await answered.wait()
        return await full_stream(request)

    process = await start(*flags(await serve(handler), "--duration", "600", "--json"))
    await arrived.wait()
    process.send_signal(signal.SIGUSR1)
    answered.set()
    lines, errors = await finish(process)
    assert (process.returncode, errors) == (0, "")
    summary = json.loads(lines[-1])["summary"]
    assert (summary["finished"], summary["stopped"], summary["cancelled"]) == (True, False, 0)
    assert summary["ok"] == summary["sent"] == len(read_log(lines).records) >= 1


async def test_its_sources_alone_are_enough(serve: Serve, tmp_path: Path) -> None:
    """As a ConfigMap mounts them: flat files in a folder, nothing else of the repository."""
    folder = tmp_path / "e2e" / "load"
    folder.mkdir(parents=True)
    for source in SOURCES.glob("*.py"):
        shutil.copy(source, folder)
    process = await start(*flags(await serve(full_stream), "--duration", "0.3"), place=tmp_path)
    _, errors = await finish(process)
    assert (process.returncode, errors) == (0, "")


async def test_a_wrong_flag_is_one_line_and_code_2() -> None:
    process = await start("--url", "http://x", "--model", "m", "--rate", "0", "--duration", "1")
    lines, errors = await finish(process)
    assert (process.returncode, lines) == (2, [])
    assert errors.splitlines()[-1].startswith("python -m e2e.load: error: argument --rate: 0")


def test_each_source_fits_a_config_map() -> None:
    sizes: dict[str, Any] = {
        path.name: path.stat().st_size for path in SOURCES.iterdir() if path.is_file()
    }
    assert all(name.endswith(".py") for name in sizes)
    assert sum(sizes.values()) < 512 * 1024
