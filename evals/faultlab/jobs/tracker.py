"""Sends metrics to an experiment tracker, and tries again when it does not answer."""

import time

import requests


class Tracker:
    def __init__(self, address, log, tries=5):
        self.address, self.log, self.tries = address, log, tries
        self.session = requests.Session()

    def send(self, metrics):
        for attempt in range(1, self.tries + 1):
            try:
                answer = self.session.post(f"{self.address}/api/metrics", json=metrics, timeout=5)
                answer.raise_for_status()
                return
            except requests.RequestException as error:
                if attempt == self.tries:
                    raise
                self.log.warning("tracker: %s; trying again in 0.1 s (%d/%d)", error, attempt, self.tries)
                time.sleep(0.1)
