#!/usr/bin/env python3
"""Measures the server under load, beside what its machine can do, and beside other programs.

    loadtest/limits.py [--quick] [--peers]

It starts `rowdrive serve` on loopback, uploads a tree of files, and sends requests with wrk. What is compared is
measured in turns: a figure is the median of the rounds, a ratio the median of their ratios. Each result is a line of
JSON on standard output as soon as it is known: {"http": {...}} is a load, {"limit": {...}} a figure beside its limit.

With --peers, programs that people use in place of a drive are measured too, and a table of them is printed in Markdown.
It has to be root then, since PostgreSQL needs a user of its own. PostgreSQL and SQLite are measured without HTTP.
"""

import argparse
import collections
import ctypes
import functools
import itertools
import json
import mmap
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

# The tree: files of 4 KiB, a tenth of them in one folder, the others in folders of a hundred. Their times are 10
# minutes apart, without relation to the folders.
FIRST, STEP, SMALL, FOLDER, MIB, MONTH = 1_704_067_200, 600, 4096, 100, 1 << 20, 30 * 86_400
# Of a hundred requests of `mixed`: somebody who looks around.
WEIGHTS = {"upload small": 10, "stat": 50, "list": 20, "time page": 5, "download": 15}
# The programs that are called, and their Debian packages.
PROGRAMS = {"wrk": "wrk", "curl": "curl"}
PEERS = {"nginx": "nginx-light", "rclone": "rclone", "psql": "postgresql"}
ENDINGS = [signal.SIGINT, signal.SIGTERM]
LIBC = ctypes.CDLL(None)
emit = functools.partial(print, flush=True)
# What a line of the comparison tells besides.
ALSO = ["p50_us", "p99_us", "server_cpu_us", "server_cpu_s_a_GiB"]

# Sends requests from a file, one a line: a path for GET, or PUT and a folder, where each upload gets a new name.
SCRIPT = """
local requests, at, fresh, body = {}, 0, 0, string.rep("x", 4096)

function init(args)
    fresh = tonumber(args[2])
    for line in io.lines(args[1]) do
        local folder = line:match("^PUT (.*)")
        requests[#requests + 1] = folder and {folder} or wrk.format("GET", line)
    end
    -- Each run begins at another request.
    at = fresh / 10000000 * 7919 % #requests
end

function request()
    at = at % #requests + 1
    if type(requests[at]) == "string" then return requests[at] end
    fresh = fresh + 1
    return wrk.format("PUT", requests[at][1] .. math.floor(fresh / 1000) .. "/" .. fresh, nil, body)
end

function done(summary, latency)
    local no = summary.errors
    io.write(string.format('RESULT {"all": %d, "refused": %d, "lost": %d, "us": %d, "bytes": %d, "p50": %d, "p99": %d}',
        summary.requests, no.status, no.connect + no.read + no.write + no.timeout, summary.duration, summary.bytes,
        latency:percentile(50), latency:percentile(99)))
end
"""
NGINX = """
worker_processes auto; daemon off; pid {0}/nginx.pid; error_log {0}/nginx.log; user root;
events {{ worker_connections 1024; }}
http {{
    access_log {0}/access.log combined buffer=64k flush=1s; sendfile on; keepalive_requests 1000000000;
    client_max_body_size 0; client_body_temp_path {0}/body; if_modified_since before; open_file_cache max=100000;
    server {{ listen 127.0.0.1:{1}; root {0}; location /put/ {{ dav_methods PUT; create_full_put_path on; }} }}
}}
"""
# What a drive needs of SQL: a row a file, found by path, by folder, and by time.
TABLE = """
CREATE TABLE file (path text PRIMARY KEY, dir text, name text, size int, mime text, creator text, modified bigint,
    added bigint, digest {blob});
"""
INDEXES = "CREATE INDEX by_name ON file (dir, name); CREATE INDEX by_time ON file (modified);"
ROW = "path, name, size, mime, creator, modified, added, digest"


def path(n):
    part = n * 10 // args.size
    return f"part{part}/" + (f"folder{n // FOLDER:05}/" if part else "") + f"IMG_{n:08}.jpg"


def modified(n):
    return FIRST + n * 7_919 % args.size * STEP


def fail(why):
    sys.exit(f"limits.py: {why}")


def say(what):
    print(f"limits: {what}", file=sys.stderr, flush=True)


def begin(command, **options):
    """A process that ends with this one, even a killed one. A signal waits until the process is known."""
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDINGS)
    try:
        prepare = lambda: (LIBC.prctl(1, signal.SIGTERM), signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDINGS))
        children.append(subprocess.Popen(list(map(str, command)), preexec_fn=prepare, text=True, **options))
        return children[-1]
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDINGS)


def run(*command, input=None, **options):
    feed = subprocess.DEVNULL if input is None else subprocess.PIPE
    process = begin(command, stdin=feed, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    said = process.communicate(input)[0]
    if process.returncode:
        fail(f"{' '.join(map(str, command))}: {said}")
    return said


def end(process):
    process.terminate()
    process.wait()


def timed(work):
    begin = time.monotonic()
    work()
    return time.monotonic() - begin


def free_port():
    """Below those that the system gives to clients, so that none of them takes it before the server does."""
    while True:
        port = random.randrange(20_000, 32_768)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                return port


def read_result(said):
    """The figures that wrk has printed.

    >>> result = '{"all": 300, "refused": 100, "lost": 1, "us": 2000000, "bytes": 9, "p50": 5, "p99": 7}'
    >>> found = read_result(f"Running 60m test @ http://127.0.0.1:1/\\nRESULT {result}")
    >>> found["per_second"], found["requests"], found["p99_us"], found["errors"]
    (100.0, 200, 7, 101)
    """
    found = json.loads(re.search("^RESULT (.*)$", said, re.M)[1])
    requests, seconds = found["all"] - found["refused"], found["us"] / 1e6
    return {"requests": requests, "errors": found["refused"] + found["lost"], "seconds": seconds,
            "per_second": requests / seconds, "bytes_per_second": found["bytes"] / seconds,
            "us": 1e6 * seconds / max(requests, 1), "p50_us": found["p50"], "p99_us": found["p99"]}


class Server:
    """A program that answers requests, and what its processes take for them."""

    def __init__(self, command, port, ready=None, **options):
        self.name, self.port, self.log = pathlib.Path(command[0]).name, port, folder / f"{port}.log"
        self.command, self.options = command, options
        self.ready = ready or ["curl", "-sfo", "/dev/null", self.url("/readyz")]

    def start(self):
        with open(self.log, "ab") as log:
            # In a session of its own: Ctrl-C on a terminal ends this program, which then ends the server.
            self.process = begin(self.command, stdout=log, stderr=log, start_new_session=True, **self.options)
        late = time.monotonic() + 60
        while begin(self.ready, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).wait():
            if self.process.poll() is not None or time.monotonic() > late:
                said = self.log.read_text(errors="replace").splitlines()
                fail(f"{self.name} does not start: {said[-1] if said else self.process.returncode}")
            time.sleep(0.01)
        return self

    def url(self, target):
        return f"http://127.0.0.1:{self.port}{target}"

    def curl(self, target, *options):
        return run("curl", "-sSf", *options, self.url(target))

    def cpu(self):
        """Seconds that its threads have run, of its children too; also of those that have ended."""
        ticks, own = 0, self.process.pid
        for pid in [own, *pathlib.Path(f"/proc/{own}/task/{own}/children").read_text().split()]:
            try:
                fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            # utime and stime, and those of the children that it has waited for.
            ticks += sum(map(int, fields[11:15]))
        return ticks / os.sysconf("SC_CLK_TCK")

    def proc(self, file, field):
        text = pathlib.Path(f"/proc/{self.process.pid}/{file}").read_text()
        return int(re.search(rf"^{field}:\s+(\d+)", text, re.M)[1])

    def wrk(self, requests, connections=32, *options):
        """A closed loop: each connection sends its next request when the last one is answered."""
        lines, script = folder / "requests.txt", folder / "requests.lua"
        lines.write_text("\n".join(requests))
        script.write_text(SCRIPT)
        command = ["wrk", "-t1", f"-c{connections}", "-d120s", "--timeout=60s", f"-s{script}", *options]
        os.truncate(self.log, 0)
        before, own = self.cpu(), os.times()
        command += [self.url("/"), "--", lines, next(fresh)]
        seconds = args.seconds
        # On a busy machine, a short time may be over before the first answer.
        while not (found := load(command, seconds))["requests"]:
            if found["errors"] or (seconds := seconds * 2) > 30:
                fail(f"{self.name} answered no request well, as {requests[0]}")
        share = (sum(os.times()[2:4]) - sum(own[2:4])) / found["seconds"]
        return {**found, "server_cpu_us": (self.cpu() - before) / found["requests"] * 1e6,
                "generator_cpu_share": share, "generator_bound": share > 0.95}

    def transfer(self, target, *options):
        """A large file: seconds of CPU time for each GiB, MiB of memory, and bytes written for each byte."""
        pathlib.Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")
        resident, written, cpu = self.proc("status", "VmRSS"), self.proc("io", "write_bytes"), self.cpu()
        took = timed(lambda: self.curl(target, "-o/dev/null", *options))
        memory, written = self.proc("status", "VmHWM") - resident, self.proc("io", "write_bytes") - written
        return {"per_second": args.large / took, "server_cpu_s_a_GiB": (self.cpu() - cpu) / args.large * 1024,
                "memory": max(memory, 0) / 1024, "written": written / args.large / MIB}


def load(command, seconds):
    wrk = begin(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        said = wrk.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        # It counts whole seconds; interrupted, it reports what it has. Before it begins, it ignores that.
        while wrk.poll() is None:
            wrk.send_signal(signal.SIGINT)
            time.sleep(0.05)
        said = wrk.communicate()[0]
    if wrk.returncode == -signal.SIGINT:
        # It had not begun.
        return load(command, seconds * 2)
    if "\nRESULT " not in said:
        fail(f"wrk failed: {said.strip() or wrk.returncode}")
    return read_result(said)


def in_turns(what, calls, may_refuse=False):
    """What each call returns, by round; in another order each time. None before them goes uncounted: of three or more
    rounds, a slow first one does not move the median."""
    rounds, names = [], [*calls]
    for at in range(args.rounds):
        say(f"{what}, round {at + 1} of {args.rounds}")
        turns = names[at % len(names):] + names[:at % len(names)]
        rounds.append({name: calls[name]() for name in turns})
        refused = sum(found.get("errors", 0) for found in rounds[-1].values())
        if refused and not may_refuse:
            fail(f"{what}: {refused} requests were not answered well")
    return rounds


def middle(rounds, name, member):
    return statistics.median(at[name][member] for at in rounds)


def limit(rounds, name, operation, unit, member, beside, goal, limit_is="goal"):
    """A line of the comparison: a member of what a call has returned, beside a number, the same of another call, or a
    function of a round. The goal is one for the median ratio.

    >>> rounds = [{"a": {"rate": one}, "b": {"rate": other}} for one, other in [(10, 40), (90, 100), (30, 100)]]
    >>> found = limit(rounds, "a", "stat", "1/s", "rate", "b", ">= 0.3")
    >>> found["ours"], found["limit"], found["ratio"], found["met"]
    (30, 100, 0.3, True)
    """
    of = {str: lambda at: at[beside][member], int: lambda _: beside, float: lambda _: beside}.get(type(beside), beside)
    ratio, (sign, bound) = statistics.median(at[name][member] / of(at) for at in rounds), goal.split()
    sample = rounds[0][name]
    sides = [side for at in rounds for key, side in at.items() if key in (name, beside) or callable(beside)]
    is_bound = any(side.get("generator_bound") for side in sides)
    return {
        "operation": operation, "unit": unit, "ours": middle(rounds, name, member), "ratio": ratio, "goal": goal,
        "limit": statistics.median(map(of, rounds)), "limit_is": limit_is,
        "met": ratio >= float(bound) if sign == ">=" else ratio <= float(bound),
        "also": {other.replace("_", " "): middle(rounds, name, other) for other in ALSO if other in sample},
        "note": sample.get("note", "wrk had no time left" if is_bound else None),
    }


def compare(what, calls, *rows):
    rounds = in_turns(what, calls)
    for row in rows:
        emit(json.dumps({"limit": limit(rounds, *row)}))


def period(begin):
    begin, end = (time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at)) for at in (begin, begin + MONTH))
    return f"/v1/files?from={begin}&to={end}&limit=100"


def requests(mix):
    count = min(max(args.size, 10_000), 200_000)
    draw, targets = random.Random(f"{args.seed} {mix}"), []
    for kind in draw.choices([*WEIGHTS], WEIGHTS.values(), k=count) if mix == "mixed" else [mix] * count:
        file = path(draw.randrange(args.size))
        targets.append({
            "upload small": "PUT /v1/fs/put/", "stat": f"/v1/stat/files/{file}", "download": f"/v1/fs/files/{file}",
            "list": f"/v1/fs/files/{os.path.dirname(file)}/?limit=100",
            "time page": period(FIRST + draw.randrange(args.size) * STEP),
        }[kind])
    return targets


def syncs():
    """An fdatasync after each 4 KiB."""
    times, file = [], os.open(folder / "disk.bin", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    while sum(times) < args.seconds:
        begin = time.monotonic()
        os.pwrite(file, b"x" * SMALL, len(times) * SMALL)
        os.fdatasync(file)
        times.append(time.monotonic() - begin)
    os.close(file)
    return {"per_second": len(times) / sum(times), "p50_us": statistics.median(times) * 1e6}


def blocks(name, flags, call):
    """MiB a second of the large file, a MiB at a time, and a sync."""
    block, file = mmap.mmap(-1, MIB), os.open(folder / name, flags)
    took = timed(lambda: ([call(file, [block], at * MIB) for at in range(args.large)], os.fdatasync(file)))
    os.close(file)
    return {"per_second": args.large / took}


class Drive(Server):
    """The real program, with its log. It has all files at /files."""

    def __init__(self):
        data, port = folder / "data", free_port()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ROWDRIVE_")}
        command = [args.program, "serve", "--data", data, "--listen", f"127.0.0.1:{port}", "--memory", args.memory]
        super().__init__(command, port, env=environment)

    def metrics(self):
        """By name, each the sum over its labels, but without the column family of content."""
        sums = collections.Counter()
        for name, labels, value in re.findall(r"^(\w+)(\{.*\})? (\S+)$", self.curl("/metrics"), re.M):
            sums[name] += float(value) if 'family="c"' not in labels else 0
        return sums

    def measure_mixes(self):
        for mix in [*WEIGHTS, "mixed"]:
            targets = requests(mix)
            loads = {many: lambda many=many: self.wrk(targets, many) for many in [1, 8, 64]}
            rounds = in_turns(f"http: {mix}", loads, may_refuse=True)
            for many in loads:
                found = {member: middle(rounds, many, member) for member in rounds[0][many]}
                found |= {"mix": mix, "connections": many, "of_peak": 1, "offered_per_second": found["per_second"]}
                found["errors"] = sum(at[many]["errors"] for at in rounds)
                emit(json.dumps({"http": found}))

    def restart(self):
        end(self.process)
        return {"ms": timed(self.start) * 1e3}

    def size(self):
        note = f"without content, not compacted; a path is as /files/{path(args.size - 1)}"
        return {"bytes": self.metrics()["rowdrive_store_table_bytes"] / args.size, "note": note}

    def measure_store(self):
        compare(
            "starting", {"start": self.restart, "size": self.size},
            ("size", "disk per file, all tables and indexes", "bytes", "bytes", 450 if args.size < 10**6 else 400, "<= 1"),
            ("start", f"start with {args.size} files", "ms", "ms", 2_000, "<= 1"),
        )

    def upload(self, connections):
        plans = lambda: [self.metrics()[f"rowdrive_store_commit_plans_{of}"] for of in ("sum", "count")]
        before = plans()
        found = self.wrk(["PUT /v1/fs/put/"], connections)
        plans, groups = (after - before for after, before in zip(plans(), before))
        return {**found, "commits": plans / max(groups, 1)}

    def measure_uploads(self):
        calls = {many: lambda many=many: self.upload(many) for many in [1, 32, 128]}
        calls |= {f"constant, {many}": lambda many=many: self.wrk(["/healthz"], many) for many in [1, 32]}
        composed = lambda at: 1 / (1 / at["constant, 32"]["per_second"] + 1 / (8 * at["sync"]["per_second"]))
        alone = lambda at: at["sync"]["p50_us"] + at["constant, 1"]["p50_us"]
        compare(
            "uploads", {**calls, "sync": syncs},
            (32, "upload 4 KiB, durable, 32 clients", "requests/s", "per_second", composed, ">= 0.8",
             "composed: a constant answer, and an eighth of an fdatasync of 4 KiB"),
            (32, "commits per sync, 32 clients", "commits", "commits", 8, ">= 1"),
            (128, "commits per sync, 128 clients", "commits", "commits", 40, ">= 1"),
            (1, "upload 4 KiB, durable, 1 client, p50", "us", "p50_us", alone, "<= 1.5",
             "fdatasync of 4 KiB and a constant answer, p50 each"),
        )

    def measure_reads(self):
        large, hundred = "/v1/fs/files/part0/", f"/v1/fs/files/{os.path.dirname(path(args.size // 2))}/"
        # The server gives the cursor of a page after all entries before.
        before = min(max(args.size // 10 - FOLDER, 1), 10_000)
        cursor = json.loads(self.curl(f"{large}?limit={before}"))["next"]
        targets = {
            "constant": ["/healthz"], "stat": requests("stat"), "get": requests("download"),
            "list": [f"{hundred}?limit=100"], "first": [f"{large}?limit=100"], "time": requests("time page"),
            "deep": [f"{large}?limit=100&cursor={cursor}"],
        }
        calls = {name: lambda these=these: self.wrk(these) for name, these in targets.items()}
        calls["names"] = lambda: self.wrk([hundred], 32, "-HAccept: text/plain")
        constant = ["per_second", "constant", ">= 0.65", "a constant answer of the same server, /healthz"]
        compare(
            "reads", calls,
            ("stat", "stat, 32 clients", "requests/s", *constant),
            ("get", "download 4 KiB, 32 clients", "requests/s", *constant),
            ("list", "list, page of 100 with attributes", "us", "us", "names", "<= 1.2", "names as text"),
            ("deep", f"list, page after {before} entries", "us", "us", "first", "<= 1.2", "the first page"),
            ("time", "time page of 100", "requests/s", "per_second", 5_000, ">= 1"),
        )

    def measure_large_files(self):
        target, up, down = "/v1/fs/large.bin", f"upload {args.large} MiB, durable", f"download {args.large} MiB"
        direct = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_DIRECT
        calls = {
            "up": lambda: self.transfer(target, "-T", folder / "large.bin"), "down": lambda: self.transfer(target),
            "writes": lambda: blocks("disk.bin", direct, os.pwritev),
            "reads": lambda: blocks("large.bin", os.O_RDONLY, os.preadv),
        }
        copied = lambda at: at["reads"]["per_second"] / 3
        compare(
            "large files", calls,
            ("up", up, "MiB/s", "per_second", 1_000, ">= 1"),
            ("up", f"{up}, beside the disk", "MiB/s", "per_second", "writes", ">= 0.85", "O_DIRECT writes of 1 MiB"),
            ("up", "upload, device bytes for each of the user's", "x", "written", 1.02, "<= 1"),
            ("up", "upload, memory for a stream", "MiB", "memory", 8, "<= 1"),
            ("down", down, "MiB/s", "per_second", copied, ">= 0.85",
             "a third of reads of 1 MiB from the page cache: each byte is copied three times"),
            ("down", "download, memory for a stream", "MiB", "memory", 8, "<= 1"),
        )

    def move(self):
        """There and back; a round has both, so that the files stay where they are."""
        for places in [("/files", "/moved"), ("/moved", "/files")]:
            body = json.dumps(dict(zip(["from", "to"], places)))
            took = timed(lambda: self.curl("/v1/move", "-HContent-Type: application/json", "-d", body))
            while self.metrics()["rowdrive_drive_operations"]:
                time.sleep(0.01)
        return {"ms": took * 1e3}

    def measure_move(self):
        name, goal = f"move a folder of {args.size}", "goal: 10 ms, and 2 us a file"
        compare("moving", {"move": self.move}, ("move", name, "ms", "ms", 10 + args.size / 500, "<= 1", goal))


class PostgreSQL(Server):
    def __init__(self):
        data, programs = folder / "postgresql", sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))[-1]
        # The last one is as in `begin`: a change of user undoes that.
        user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--pdeathsig=TERM"]
        port = free_port()
        data.mkdir()
        shutil.chown(data, "postgres", "postgres")
        run(*user, programs / "initdb", "-D", data, "-A", "trust", cwd="/")
        self.login = ["-h", "127.0.0.1", "-p", str(port), "-U", "postgres", "postgres"]
        settings = ["-c", "shared_buffers=1GB", "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]
        command = [*user, programs / "postgres", "-D", data, "-p", port, *settings]
        super().__init__(command, port, ["pg_isready", "-q", *self.login[:4]], cwd="/")

    def fill(self):
        lines = "".join("\t".join(map(str, row)) + "\n" for row in rows(lambda n: f"\\\\x{n:064x}"))
        for command in [TABLE.format(blob="bytea"), "COPY file FROM stdin", INDEXES + "ANALYZE"]:
            run("psql", "-q", *self.login, "-c", command, input=lines)
        return self

    def query(self, sql, connections):
        """Prepared, by pgbench."""
        (folder / "query.sql").write_text(sql)
        before, seconds = self.cpu(), max(round(args.seconds), 1)
        pace = ["-n", "-M", "prepared", f"-c{connections}", "-j1", f"-T{seconds}", "-f", folder / "query.sql"]
        said = run("pgbench", *pace, *self.login)
        count = int(re.search(r"actually processed: (\d+)", said)[1])
        rate = float(re.search(r"tps = ([\d.]+) \(without", said)[1])
        return {"per_second": rate, "server_cpu_us": (self.cpu() - before) / count * 1e6}


class SQLite:
    """Of one thread, in this process."""

    def __init__(self):
        self.database = sqlite3.connect(folder / "files.sqlite")
        self.database.execute(TABLE.format(blob="blob"))
        values = ",".join("?" * 9)
        self.database.executemany(f"INSERT INTO file VALUES ({values})", rows(lambda n: n.to_bytes(32, "big")))
        self.database.executescript(INDEXES + "ANALYZE")

    def query(self, sql, _):
        start, spent, count = time.monotonic(), time.process_time(), 0
        while (took := time.monotonic() - start) < args.seconds or not count:
            self.database.execute(sql).fetchall() or fail("SQLite has found nothing")
            count += 1
        return {"per_second": count / took, "server_cpu_us": (time.process_time() - spent) / count * 1e6}


def rows(blob):
    for n in range(args.size):
        yield path(n), *path(n).rsplit("/", 1), SMALL, "image/jpeg", "anonymous", modified(n), modified(n), blob(n)


def works():
    """What the table of other programs measures: connections, and what each program is asked for."""
    one, first, put = path(args.size // 2), FIRST + args.size // 2 * STEP, ["-T", folder / "large.bin"]
    part, directory = one.split("/")[0], os.path.dirname(one)
    # Answered 304, without a body: wrk waits for that of an answer to HEAD.
    head = [f"/files/{one}", "-HIf-Modified-Since: Fri, 31 Dec 2100 23:59:59 GMT"]
    row = f"SELECT {ROW} FROM file WHERE path = '{one}'"
    page = f"SELECT {ROW} FROM file WHERE dir = '{directory}' ORDER BY name LIMIT 100"
    sql = f"SELECT {ROW} FROM file WHERE modified >= {first} AND modified < {first + MONTH} "
    # `0` follows the slash.
    tenth, newest = f"AND path >= '{part}/' AND path < '{part}0' ", "ORDER BY modified DESC LIMIT 100"
    names = ["rowdrive", "nginx", "rclone", "PostgreSQL", "SQLite"]
    table = {
        "upload 4 KiB; nginx without a sync": (32, ["PUT /v1/fs/put/"], ["PUT /put/"]),
        "attributes of a file": (32, [f"/v1/stat/files/{one}"], head, head, [row]),
        "download 4 KiB": (32, [f"/v1/fs/files/{one}"], [f"/files/{one}"], [f"/files/{one}"]),
        "a folder of 100 with attributes": (8, [f"/v1/fs/files/{directory}/?limit=100"], [], [], [page]),
        "newest 100 of a month": (8, [period(first)], [], [], [sql + newest], [sql + newest]),
        "the same below a tenth of the tree": (
            8, [f"{period(first)}&under=/files/{part}"], [], [], [sql + tenth + newest], [sql + tenth + newest]),
        "upload a large file; nginx without a sync": (1, ["/v1/fs/large.bin", *put], ["/put/large.bin", *put]),
        "download a large file": (1, ["/v1/fs/large.bin"], ["/large.bin"], ["/large.bin"]),
    }
    return {work: (many, {name: of for name, of in zip(names, all) if of}) for work, (many, *all) in table.items()}


def measure_peers(drive, imported):
    copied = timed(lambda: (run("cp", "-r", tree, folder / "copied"), os.sync()))
    ports = [free_port(), free_port()]
    (folder / "nginx.conf").write_text(NGINX.format(folder, ports[0]))
    commands = [["nginx", "-c", folder / "nginx.conf"],
                ["rclone", "serve", "http", folder, "--addr", f"127.0.0.1:{ports[1]}", "--read-only"]]
    ready = lambda port: ["curl", "-sfo", "/dev/null", f"http://127.0.0.1:{port}/large.bin"]
    nginx, rclone = (Server(command, port, ready(port)).start() for command, port in zip(commands, ports))
    say("filling the databases")
    programs = {"rowdrive": drive, "nginx": nginx, "rclone": rclone}
    programs |= {"PostgreSQL": PostgreSQL().start().fill(), "SQLite": SQLite()}

    def call(program, connections, what, *options):
        if hasattr(program, "query"):
            return program.query(what, connections)
        return program.wrk([what], connections, *options) if connections > 1 else program.transfer(what, *options)

    emit(f"{args.size:,} files, a large one of {args.large} MiB, {args.rounds} rounds.")
    emit("Rates are a second, CPU time is in us; of the large file MiB a second, and s a GiB.\n")
    emit("| work | connections | program | rate | CPU | rowdrive is |\n|---|---:|---|---:|---:|---:|")
    for work, (many, asked) in works().items():
        rounds = in_turns(work, {name: lambda name=name: call(programs[name], many, *asked[name]) for name in asked})
        for name in asked:
            cpu = middle(rounds, name, "server_cpu_us" if many > 1 else "server_cpu_s_a_GiB")
            ratio = statistics.median(at["rowdrive"]["per_second"] / at[name]["per_second"] for at in rounds)
            rate = middle(rounds, name, "per_second")
            emit(f"| {work} | {many} | {name} | {rate:,.0f} | {cpu:,.2f} | {ratio:.2f} x |")
    for name, took in [("rowdrive", imported), ("`cp -r` and `sync`", copied)]:
        emit(f"| import of the files | 1 | {name} | {args.size / took:,.0f} | | {took / imported:.2f} x |")


def main():
    say("making the files")
    block = os.urandom(SMALL)
    for n in range(args.size):
        file = tree / path(n)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(n.to_bytes(8, "big") + block[8:])
        os.utime(file, (modified(n), modified(n)))
    run("dd", "if=/dev/urandom", f"of={folder / 'large.bin'}", "bs=1M", f"count={args.large}", "conv=fsync")
    drive = Drive().start()
    say("importing the files")
    imported = timed(lambda: run(args.program, "import", "--server", drive.url(""), tree, "/files"))
    drive.measure_store()
    drive.measure_mixes()
    drive.measure_uploads()
    drive.measure_reads()
    drive.measure_large_files()
    drive.measure_move()
    if args.peers:
        measure_peers(drive, imported)


def parse():
    formatter = type("Formatter", (argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter), {})
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("--quick", action="store_true", help="one short round, with few files")
    parser.add_argument("--peers", action="store_true", help="measure other programs too; as root")
    parser.add_argument("--dir", default=tempfile.gettempdir(), help="where the files are made, and removed again")
    parser.add_argument("--size", type=int, default=100_000, help="files, 1,000 or more")
    parser.add_argument("--large", type=int, default=1024, help="MiB of the large file")
    parser.add_argument("--rounds", type=int, default=5, help="of all that is compared")
    parser.add_argument("--seconds", type=float, default=1, help="of each measurement with wrk")
    parser.add_argument("--seed", type=int, default=1, help="of the requests")
    parser.add_argument("--memory", default="1GiB", help="of the server")
    built = pathlib.Path(__file__).resolve().parent.parent / "target/release/rowdrive"
    parser.add_argument("--program", type=pathlib.Path, default=built, help="the server")
    parser.add_argument("--with-parent", action="store_true", help="end when the program that started it ends")
    parser.add_argument("--check", action="store_true", help="only look for the programs that are needed")
    if "--quick" in sys.argv:
        parser.set_defaults(size=5_000, rounds=1, seconds=0.1, large=64)
    args = parser.parse_args()
    if args.size < 1_000 or min(args.rounds, args.large) < 1 or args.seconds <= 0:
        parser.error("--size is 1000 or more, --rounds and --large are 1 or more, --seconds is more than 0")
    args.size -= args.size % 1_000
    for program, package in (PROGRAMS | (PEERS if args.peers else {})).items():
        if not shutil.which(program):
            fail(f"{program} is missing: `apt-get install {package}`; only `loadtest layouts` needs no such program")
    if not args.program.exists():
        fail(f"{args.program} is missing: `make program` builds it")
    if args.peers and os.geteuid():
        fail("--peers needs root: PostgreSQL has a user of its own")
    return args


if __name__ == "__main__":
    args, children, fresh = parse(), [], itertools.count(10**9, 10**7)
    if args.check:
        sys.exit()
    if args.with_parent:
        # 1 is PR_SET_PDEATHSIG.
        LIBC.prctl(1, signal.SIGTERM)
    for ending in ENDINGS:
        signal.signal(ending, lambda *_: fail("interrupted"))
    with tempfile.TemporaryDirectory(dir=args.dir) as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        tree = folder / "files"
        try:
            main()
        finally:
            signal.pthread_sigmask(signal.SIG_BLOCK, ENDINGS)
            for child in reversed(children):
                end(child)
