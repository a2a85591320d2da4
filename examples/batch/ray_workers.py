"""Workers on the nodes of a Ray cluster, until the queue is empty.

    JOEY_BATCH_STORE=postgresql://… python ray_workers.py --workers 8

Ray only starts processes; if it loses a node, another worker continues what that one was driving.
`joey` must be installed on each node; Ray's environment may be another one.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

import ray


@ray.remote(num_cpus=2, max_retries=-1)
def work(command: list[str], environment: dict[str, str]) -> int:
    return subprocess.run(command, env={**os.environ, **environment}, check=True).returncode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--width", type=int, default=4)
    parser.add_argument("--joey", default="joey", help="the program on the nodes")
    arguments = parser.parse_args()
    store = os.environ.get("JOEY_BATCH_STORE")
    if not store:
        sys.exit("set JOEY_BATCH_STORE to the address of the store")
    ray.init(address="auto")
    command = [arguments.joey, "worker", "--store", store, "--width", str(arguments.width)]
    command += ["--until-empty", "--may", "all"]
    keys = {name: value for name, value in os.environ.items() if name.endswith("_API_KEY")}
    ray.get([work.remote(command, keys) for _ in range(arguments.workers)])


if __name__ == "__main__":
    main()
