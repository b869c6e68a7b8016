"""The table of docs/performance.md: the workloads of `benches/workloads` here and on other frameworks, in one run.

    python peers/workloads.py [--python PYTHON] [--executable PATH] [--rounds N] [--seconds N] [--threads N] [--write]
        [WORKLOAD ..]

The executable is that of the benchmark, which is built unless it is given. PYTHON has torch and, if it is to be measured,
jax; torch.compile needs g++. Every framework is one process; workload by workload, all are measured by turns, and the
median of the rounds is taken. With `--write`, the table replaces the one in docs/performance.md. The roofline is the time that
the operations and bytes of a workload need at the rates of memory and vector multiply-adds, measured in the same run.
"""

import argparse
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[1]
PEERS = {"torch": "PyTorch", "torch-compile": "torch.compile", "jax": "JAX"}
BEGIN, END = "<!-- begin: peers/workloads.py -->", "<!-- end -->"


def bench():
    """Builds the benchmark; returns its executable."""
    command = ["cargo", "bench", "--bench", "workloads", "--no-run"]
    told = subprocess.run(command, cwd=ROOT, check=True, stderr=subprocess.PIPE, text=True).stderr
    return ROOT / re.search(r"Executable .*\((.*)\)", told)[1]


class Peer:
    """A process that measures workloads."""

    def __init__(self, name, command, threads):
        self.name = name
        environment = os.environ | {"MS_NUM_THREADS": str(threads)}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment
        )

    def measure(self, workload, seconds):
        """The answer; `None` if this has no such workload."""
        self.process.stdin.write(f"{workload} {seconds}\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            print(f"{self.name}, {workload}: {answer['error']}", file=sys.stderr)
        return answer if "us" in answer else None


def processor():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines() if os.path.exists("/proc/cpuinfo") else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def short(us):
    """Microseconds with three digits."""
    return f"{us:,.0f}" if us >= 100 else f"{us:.1f}" if us >= 10 else f"{us:.2f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--executable", type=pathlib.Path)
    parser.add_argument("--peers", default="torch,torch-compile,jax")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    executable = options.executable or bench()
    known = subprocess.run([executable, "--list"], check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    peers = [Peer("ms", [executable, "--serve"], options.threads)]
    for name in options.peers.split(","):
        command = [options.python, ROOT / "peers" / "frameworks.py", name, "--threads", str(options.threads)]
        peers.append(Peer(name, command, options.threads))
    loads = [os.getloadavg()[0]]
    rows = []
    for workload in options.workloads or known:
        answers = {peer.name: [] for peer in peers}
        for _ in range(options.rounds):
            for peer in peers:
                answer = peer.measure(workload, options.seconds)
                if answer:
                    answers[peer.name].append(answer)
                    print(json.dumps(answer), flush=True)
        loads.append(os.getloadavg()[0])
        us = {name: statistics.median(it["us"] for it in told) for name, told in answers.items() if told}
        best = min((it for it in us if it != "ms"), key=us.get, default=None)
        roof = answers["ms"][0]["roof_us"]
        fastest = min(us.values())
        cells = [(f"**{short(us[it])}**" if us[it] == fastest else short(us[it])) if it in us else "" for it in ("ms", *PEERS)]
        ratio = f"{us[best] / us['ms']:.2f}" if best else ""
        part = f"{100 * roof / us['ms']:.0f} %" if roof > 1 else ""
        rows.append(f"| `{workload}` | {' | '.join(cells)} | {ratio} | {short(roof)} | {part} |")
    table = "\n".join(
        [
            f"{processor()}, {options.threads} threads, medians of {options.rounds} rounds of {options.seconds:g} s in"
            f" microseconds; load of the machine {min(loads):.1f} to {max(loads):.1f}.",
            "",
            f"| workload | ms | {' | '.join(PEERS.values())} | fastest peer / ms | roofline | of roofline |",
            "|---|---|---|---|---|---|---|---|",
            *rows,
        ]
    )
    print(table)
    if options.write:
        page = ROOT / "docs" / "performance.md"
        text = page.read_text()
        before, rest = text.split(BEGIN)
        page.write_text(f"{before}{BEGIN}\n{table}\n{END}{rest.split(END, 1)[1]}")
    for peer in peers:
        peer.process.stdin.close()
        peer.process.wait()


if __name__ == "__main__":
    main()
