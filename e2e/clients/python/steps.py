"""What the scripts of the Python clients share: steps that print one line each,
and the reading side of a load. The package comment in doc.go tells the contract."""

import os
import sys
import threading
import time
import traceback

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
PATIENCE = 60  # seconds that a step waits for what must come
TROUBLE = []  # errors of threads; whoever waits for the thread raises them


def login():
    """Mechanism, user and password out of $KAFKA_LOGIN, or None."""
    words = os.environ.get("KAFKA_LOGIN", "").split()
    return words or None


def check(holds, what):
    if not holds:
        raise AssertionError(what)


def equal(got, want, what):
    check(got == want, f"{what}: got {got!r}, want {want!r}")


def until(what, holds, pause=0.02):
    """Polls until holds() is true."""
    end = time.monotonic() + PATIENCE
    while not holds():
        if TROUBLE:
            raise AssertionError(f"{what}: {TROUBLE.pop()!r}")
        if time.monotonic() > end:
            raise AssertionError(f"not within {PATIENCE} s: {what}")
        time.sleep(pause)


def run(steps):
    """Runs (name, function) pairs, prints a line for each, gives the exit code."""
    failed = 0
    for name, step in steps:
        begin = time.monotonic()
        try:
            said = step()
        except Exception as err:  # whatever a client raises fails the step
            failed += 1
            print(f"FAIL {name}: {type(err).__name__}: {err}", flush=True)
            traceback.print_exc()
            continue
        print(f"ok {name}: {said} ({time.monotonic() - begin:.1f} s)", flush=True)
    return 1 if failed else 0


def prefix(family):
    """Names that no earlier run has used."""
    return f"{family}-{time.time_ns() // 1_000_000}"


def values(n):
    """n records as (key, value, headers); long enough that codecs find work."""
    return [(b"key-%d" % i, b"value %d %s" % (i, b"lorem ipsum " * 8), [("n", b"%d" % i)]) for i in range(n)]


class Stop:
    """Set when the one who started the script closes its standard input."""

    def __init__(self):
        self.event = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        while sys.stdin.readline():
            pass
        self.event.set()

    def __bool__(self):
        return self.event.is_set()


class Acks:
    """Counts acknowledgements of a load and prints every 200th."""

    def __init__(self):
        self.lock = threading.Lock()
        self.count, self.errors = 0, []

    def done(self, err=None):
        with self.lock:
            if err is not None:
                self.errors.append(str(err))
                return
            self.count += 1
            if self.count % 200 == 0:
                print(f"acked {self.count}", flush=True)


class Seen:
    """What a group has read of a load: (partition, value) pairs."""

    def __init__(self):
        self.lock = threading.Lock()
        self.distinct, self.again = set(), 0

    def add(self, partition, value):
        with self.lock:
            before = len(self.distinct)
            self.distinct.add((partition, bytes(value)))
            self.again += before == len(self.distinct)

    def __len__(self):
        with self.lock:
            return len(self.distinct)


def finish_load(acks, produced, seen):
    """Prints the result of a load, gives the exit code."""
    print(f"produced {produced}", flush=True)
    if acks.errors or acks.count != produced:
        print(f"FAIL load: {acks.count} of {produced} acknowledged; {acks.errors[:3]}", flush=True)
        return 1
    try:
        until("the group has read everything", lambda: len(seen) >= produced)
    except AssertionError as err:
        print(f"FAIL load: {err}: {len(seen)} of {produced}", flush=True)
        return 1
    print(f"ok load: the group read {len(seen)}, {seen.again} of them again", flush=True)
    return 0


def main(steps, load):
    """steps(bootstrap) gives the pairs for run; load(bootstrap, topic) an exit code."""
    if len(sys.argv) == 3 and sys.argv[1] == "steps":
        sys.exit(run(steps(sys.argv[2])))
    if len(sys.argv) == 4 and sys.argv[1] == "load":
        sys.exit(load(sys.argv[2], sys.argv[3]))
    sys.exit(f"usage: {sys.argv[0]} steps BOOTSTRAP | load BOOTSTRAP TOPIC")
