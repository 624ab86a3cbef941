"""Benchmark programs that stay alive and answer one case at a time (--serve)."""

import json
import pathlib
import select
import subprocess
import tempfile

SECONDS_TO_START = 120
SECONDS_A_CASE = 300


class DriverError(Exception):
    """A program that does not start, ends or does not answer; the text says why."""


class Driver:
    """One program, which starts at once; wait() before the first question.

    `head`: what it says of itself: implementation, version, device and more.
    """

    def __init__(self, command):
        self.command = [str(part) for part in command]
        if not pathlib.Path(self.command[0]).exists():
            raise DriverError("is not built")
        self.start()

    def start(self):
        self.errors = tempfile.TemporaryFile(mode="w+")
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self.errors}
        self.process = subprocess.Popen(self.command, **pipes)
        self.buffer = b""

    def wait(self):
        """Until the program is ready."""
        self.head = self.receive(SECONDS_TO_START)
        del self.head["results"]

    def stop(self):
        self.process.kill()
        self.process.wait()

    def ask(self, case, precision):
        """The program's results of a case. After a DriverError the program runs anew, if it can."""
        try:
            self.process.stdin.write(f"{case} {precision}\n".encode())
            self.process.stdin.flush()
            return self.receive(SECONDS_A_CASE)["results"]
        except (DriverError, OSError) as error:
            self.stop()
            self.start()
            self.wait()
            raise DriverError(str(error)) from error

    def receive(self, seconds):
        """The next line of the program's output that is an object of JSON."""
        while True:
            while b"\n" not in self.buffer:
                ready, _, _ = select.select([self.process.stdout], [], [], seconds)
                chunk = self.process.stdout.read1() if ready else None
                if not chunk:
                    raise DriverError(f"no answer within {seconds} s" if chunk is None else self.last_words())
                self.buffer += chunk
            line, self.buffer = self.buffer.split(b"\n", 1)
            if line.startswith(b"{"):
                return json.loads(line)

    def last_words(self):
        self.process.wait()
        self.errors.seek(0)
        lines = [line for line in self.errors.read().splitlines() if line.strip()]
        return lines[0] if lines else f"ended with status {self.process.returncode}"
