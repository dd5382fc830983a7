"""Publishes the results of a run when it has ended."""

import json
import os
import sys

import requests


def main():
    what = sys.argv[1]
    if what == "summary":
        with open(os.path.join("results", "summary.json"), encoding="utf-8") as file:
            print(json.load(file))
    else:
        requests.post("http://127.0.0.1:9091/runs", json={"run": os.uname().nodename}, timeout=3).raise_for_status()


if __name__ == "__main__":
    main()
