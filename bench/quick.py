"""`python -m bench.quick`: output tokens/s beside `transformers serve`, in a few minutes.

32 streams at once, 128 tokens in, 64 out, greedy, the same safetensors directory. In each
round both servers are started in turn, warmed up and measured; the order alternates. Ends
with one line `bench-quick: ok|short|void ...`: ok where the median ratio is at least 1.0,
void where other processes used more than a tenth of the machine. Exit code 0 for ok only.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shlex
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from bench.contender import PACELINE, TRANSFORMERS, Contender, ContenderError, serving
from bench.export import export
from bench.machine import CpuTimes, facts, usable_cores
from bench.streams import Burst, Load, run_burst
from bench.table import Sample, Verdict, judge, markdown

RESULTS = Path(__file__).parent / "results"
ORDER = (PACELINE, TRANSFORMERS)
WARM_UP_TOKENS = 8


def make_prompts(tokenizer: Tokenizer, count: int, length: int, seed: int) -> list[str]:
    """Distinct texts of exactly `length` tokens: words that are one token each."""
    draw = random.Random(seed)
    words = [
        text
        for text, _ in tokenizer.get_vocab().items()
        if text.startswith("Ġ") and text[1:].isascii() and text[1:].isalpha()
    ]
    words = sorted(word.replace("Ġ", " ") for word in words)
    prompts = ["".join(draw.choices(words, k=length)) for _ in range(count)]
    for prompt in prompts:
        found = len(tokenizer.encode(prompt).ids)
        if found != length:
            raise ContenderError(f"a prompt has {found} tokens instead of {length}")
    return prompts


def measure(contender: Contender, model: Path, args: argparse.Namespace, seed: int) -> Sample:
    """Starts the server, warms it up with a short burst, measures a whole one."""
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))

    def burst(part: int, output_tokens: int) -> Burst:
        load = Load(input_tokens=args.input_tokens, output_tokens=output_tokens)
        prompts = make_prompts(tokenizer, args.streams, args.input_tokens, seed * 2 + part)
        return asyncio.run(run_burst(url, contender, str(model), prompts, load))

    with serving(contender, model, args.log, args.threads) as url:
        burst(0, min(WARM_UP_TOKENS, args.output_tokens))
        before = CpuTimes.now()
        measured = burst(1, args.output_tokens)
        others = CpuTimes.now().others_since(before)
    return Sample(contender.name, measured, others)


def run(args: argparse.Namespace) -> Verdict:
    """All rounds; writes the results."""
    model = export(args.model, args.cache / "bench")
    samples: list[Sample] = []
    for turn in range(args.rounds):
        for contender in ORDER if turn % 2 == 0 else ORDER[::-1]:
            sample = measure(contender, model, args, turn)
            samples.append(sample)
            print(
                f"round {turn + 1}: {sample.name}: {sample.burst.tokens_per_s:.0f} tokens/s, "
                f"others {sample.others:.0%}",
                flush=True,
            )
    verdict = judge(samples, PACELINE.name, TRANSFORMERS.name)
    _write(samples, verdict, args)
    return verdict


def _write(samples: list[Sample], verdict: Verdict, args: argparse.Namespace) -> None:
    now = datetime.now(UTC)
    command = shlex.join(["python", "-m", "bench.quick", *sys.argv[1:]])
    setting = f"{args.streams} streams, {args.input_tokens} in, {args.output_tokens} out"
    known = {"command": command, "load": setting, "model": args.model.name} | facts(args.threads)
    text = markdown(samples, verdict, known, now)
    content: dict[str, Any] = {
        "time": now.isoformat(timespec="seconds"),
        "facts": known,
        "verdict": asdict(verdict),
        "samples": [asdict(sample) for sample in samples],
    }
    save(RESULTS, now, content, text)
    print(text)


def save(folder: Path, now: datetime, content: dict[str, Any], page: str) -> Path:
    """Writes both forms of a result under its time; never over another one.

    Returns:
        The page.

    Raises:
        FileExistsError: There is one of that second.
    """
    folder.mkdir(exist_ok=True)
    stem = f"quick-{now:%Y-%m-%d-%H%M%S}"
    with (folder / f"{stem}.json").open("x", encoding="utf-8") as data:
        data.write(json.dumps(content, indent=1) + "\n")
    path = folder / f"{stem}.md"
    path.write_text(page, encoding="utf-8")
    return path


def _arguments() -> argparse.Namespace:
    cache = Path(os.environ.get("PACELINE_CACHE") or Path.home() / ".cache" / "paceline")
    default = cache / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    parser = argparse.ArgumentParser(prog="python -m bench.quick", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--streams", type=int, default=32)
    parser.add_argument("--input-tokens", type=int, default=128)
    parser.add_argument("--output-tokens", type=int, default=64)
    parser.add_argument(
        "--threads", type=int, default=usable_cores(), help="compute threads of either server"
    )
    parser.add_argument(
        "--model", type=Path, default=Path(os.environ.get("PACELINE_MODEL") or default)
    )
    parser.add_argument("--cache", type=Path, default=cache, help="folder of the exported model")
    args = parser.parse_args()
    args.log = args.cache / "logs" / "bench-quick.log"
    args.log.parent.mkdir(parents=True, exist_ok=True)
    return args


def main() -> int:
    """Entry point; returns the exit code."""
    try:
        verdict = run(_arguments())
    except (ContenderError, OSError) as error:
        print(f"bench-quick: failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("bench-quick: interrupted", file=sys.stderr)
        return 130
    print(verdict.line)
    return 0 if verdict.word == "ok" else 1


if __name__ == "__main__":
    sys.exit(main())
