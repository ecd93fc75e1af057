#!/usr/bin/env python3
"""Measures the server under load, beside what its machine can do, and beside other programs.

    loadtest/limits.py [--quick] [--peers] [--out DIR]

It starts `rowdrive serve` on loopback, uploads a tree of files, and sends requests with wrk. What is compared is measured
in turns; a figure is the median of the rounds, and a ratio is the median of their ratios. Each result is a line of JSON
on standard output as soon as it is known: {"http": {...}} is a load, {"limit": {...}} a figure beside its limit.

With --peers, programs that people use in place of a drive are measured too, and a table of them is printed in Markdown.
Run it as root then, since PostgreSQL needs a user of its own. PostgreSQL and SQLite are measured without HTTP.

The files have 4 KiB each. A tenth of them is in one folder, the others are in folders of a hundred. Their times are 10
minutes apart, without relation to the folders.
"""

import argparse
import collections
import itertools
import json
import math
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

FIRST, STEP, SMALL, FOLDER, MIB, MONTH = 1_704_067_200, 600, 4096, 100, 1 << 20, 30 * 86_400
# The programs that are called, and their Debian packages.
PROGRAMS = {"wrk": "wrk", "curl": "curl"}
PEERS = {"nginx": "nginx-light", "rclone": "rclone", "psql": "postgresql"}
# Of a hundred requests of `mixed`: somebody who looks around.
WEIGHTS = {"upload small": 10, "stat": 50, "list": 20, "time page": 5, "download": 15}
# What a line of the comparison tells besides.
ALSO = ["p50_us", "p99_us", "server_cpu_us", "server_cpu_s_a_GiB", "generator_cpu_share"]

# Sends requests from a file, one a line: a path for GET, or PUT and a folder, where each upload gets a new name.
REQUESTS = """
local requests, at, fresh, body = {}, 0, 0, string.rep("x", 4096)

function init(args)
    fresh = tonumber(args[2])
    for line in io.lines(args[1]) do
        local folder = line:match("^PUT (.*)")
        requests[#requests + 1] = folder and {folder} or wrk.format(wrk.method, line)
    end
end

function request()
    at = at % #requests + 1
    if type(requests[at]) == "string" then return requests[at] end
    fresh = fresh + 1
    return wrk.format("PUT", requests[at][1] .. math.floor(fresh / 1000) .. "/" .. fresh, nil, body)
end

function done(summary, latency)
    local errors = {}
    for kind, count in pairs(summary.errors) do errors[#errors + 1] = string.format('"%s": %d', kind, count) end
    io.write(string.format('RESULT {"answers": %d, "us": %d, "bytes": %d, "p50": %d, "p99": %d, "errors": {%s}}\\n',
        summary.requests, summary.duration, summary.bytes, latency:percentile(50), latency:percentile(99),
        table.concat(errors, ", ")))
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
    """Ten parts of the tree; the first one is a single folder."""
    part = n * 10 // args.size
    return f"part{part}/" + (f"folder{n // FOLDER:05}/" if part else "") + f"IMG_{n:08}.jpg"


def modified(n):
    return FIRST + n * 7_919 % args.size * STEP


def fail(why):
    sys.exit(f"limits.py: {why}")


def say(what):
    print(f"limits: {what}", file=sys.stderr, flush=True)


def emit(line):
    print(line, flush=True)
    if args.out:
        with open(args.out / "limits.txt", "a") as results:
            results.write(line + "\n")


def run(*command, **options):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)
    if done.returncode:
        fail(f"{' '.join(map(str, command))}: {done.stdout}{done.stderr}")
    return done.stdout


class Server:
    """A program that answers requests, and what its processes take for them."""

    def __init__(self, name, command, port=None, **options):
        self.name, self.port, self.log = name, port, folder / f"{name}.log"
        log = open(self.log, "ab")
        # In a session of its own: Ctrl-C on a terminal ends this program, which then ends the server.
        options |= {"stdout": log, "stderr": log, "start_new_session": True}
        self.process = subprocess.Popen(list(map(str, command)), **options)
        servers.append(self)

    def wait_until(self, is_so):
        for _ in range(3000):
            if is_so():
                return self
            if self.process.poll() is not None:
                break
            time.sleep(0.01)
        said = self.log.read_text(errors="replace").splitlines()
        fail(f"{self.name} does not answer: {said[-1] if said else self.process.returncode}")

    def url(self, target):
        return f"http://127.0.0.1:{self.port}{target}"

    def answers(self, target="/"):
        return subprocess.run(["curl", "-sfo", "/dev/null", self.url(target)]).returncode == 0

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

    def metrics(self):
        """By name, each the sum over its labels, but without the column family of content."""
        sums = collections.Counter()
        for name, labels, value in re.findall(r"^(\w+)(\{.*\})? (\S+)$", curl(self, "/metrics"), re.M):
            sums[name] += float(value) if 'family="c"' not in labels else 0
        return sums

    def stop(self):
        servers.remove(self)
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def curl(server, target, *options):
    return run("curl", "-sSf", *options, server.url(target))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start_rowdrive():
    port = free_port()
    options = ["--data", folder / "data", "--listen", f"127.0.0.1:{port}", "--memory", args.memory]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ROWDRIVE_")}
    server = Server("rowdrive", [args.program, "serve", *options], port, env=environment)
    return server.wait_until(lambda: server.answers("/readyz"))


def read_result(said):
    """The figures that wrk has printed.

    >>> result = '{"answers": 300, "us": 2000000, "bytes": 9, "p50": 5, "p99": 7, "errors": {"status": 100, "read": 0}}'
    >>> found = read_result(f"Running 60m test @ http://127.0.0.1:1/\\nRESULT {result}\\n")
    >>> found["per_second"], found["requests"], found["p99_us"], found["failures"]
    (100.0, 200, 7, {'status': 100})
    """
    found = json.loads(re.search("^RESULT (.*)$", said, re.M)[1])
    failures = {kind: count for kind, count in found["errors"].items() if count}
    # Other failures have no answer.
    requests, seconds = found["answers"] - failures.get("status", 0), found["us"] / 1e6
    return {"per_second": requests / seconds, "us": 1e6 * seconds / max(requests, 1), "p50_us": found["p50"],
            "p99_us": found["p99"], "requests": requests, "bytes_per_second": found["bytes"] / seconds,
            "seconds": seconds, "failures": failures}


def wrk(server, requests, connections=32, *options):
    """A closed loop: each connection sends its next request when the last one is answered."""
    lines, script = folder / "requests.txt", folder / "requests.lua"
    lines.write_text("\n".join(requests))
    script.write_text(REQUESTS)
    command = ["wrk", "-t1", f"-c{connections}", "-d1h", "--timeout=60s", f"-s{script}", *options]
    command += [server.url("/"), "--", lines, str(next(fresh))]
    os.truncate(server.log, 0)
    own = os.times()
    before = server.cpu()
    found = read_result(load(command, args.seconds))
    if not found["requests"]:
        fail(f"{server.name} answered no request well, as {requests[0]}: {found['failures']}")
    found["generator_cpu_share"] = (sum(os.times()[2:4]) - sum(own[2:4])) / found["seconds"]
    found["server_cpu_us"] = (server.cpu() - before) / found["requests"] * 1e6
    return found


def load(command, seconds):
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            said = process.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            # wrk counts whole seconds; interrupted, it reports what it has.
            process.send_signal(signal.SIGINT)
            said = process.communicate()[0]
        finally:
            process.kill()
    if process.returncode == -signal.SIGINT:
        # It had not begun.
        return load(command, seconds * 2)
    if "\nRESULT " not in said:
        fail(f"wrk failed: {said.strip() or process.returncode}")
    return said


def in_turns(what, calls):
    """What each call returns, by round; in another order each time."""
    rounds, names = [], [*calls]
    for at in range(args.rounds):
        say(f"{what}, round {at + 1} of {args.rounds}")
        turns = names[at % len(names):] + names[:at % len(names)]
        rounds.append({name: calls[name]() for name in turns})
    return rounds


def limit(rounds, operation, unit, ours, beside, goal, limit_is="goal", **more):
    """A line of the comparison: ours and its limit are functions of a round. The goal is one for the median ratio.

    >>> rounds = [(10, 40), (90, 100), (30, 100)]
    >>> row = limit(rounds, "stat", "1/s", lambda at: at[0], lambda at: at[1], ">= 0.3", "a constant answer")
    >>> row["ours"], row["limit"], row["ratio"], row["met"], row["limit_is"]
    (30, 100, 0.3, True, 'a constant answer')
    >>> limit([1, 2, 3], "start", "ms", lambda at: at, lambda at: 4, "<= 0.4")["met"]
    False
    """
    middle = lambda of: statistics.median(map(of, rounds))
    ratio, (sign, bound) = middle(lambda at: ours(at) / beside(at)), goal.split()
    met = ratio >= float(bound) if sign == ">=" else ratio <= float(bound)
    return {"operation": operation, "unit": unit, "ours": middle(ours), "limit": middle(beside), "ratio": ratio,
            "limit_is": limit_is, "goal": goal, "met": met, **more}


def keep(*arguments, **more):
    emit(json.dumps({"limit": limit(*arguments, **more)}))


def compare(what, calls, *rows):
    """Measures in turns, and makes rows of the comparison. Each has the name of a call, the operation, the unit, which member
    of the samples is compared, with what (a number, another call, or a function of a round), and the rest for `limit`."""
    rounds = in_turns(what, calls)
    for name, operation, unit, of, beside, *rest in rows:
        also = {other.replace("_", " "): statistics.median(at[name][other] for at in rounds)
                for other in ALSO if other in rounds[0][name]}
        bound = {"note": "wrk had no time left: its own limit"} if also.get("generator cpu share", 0) > 0.95 else {}
        limits = {int: lambda _: beside, float: lambda _: beside, str: lambda at: at[beside][of]}
        keep(rounds, operation, unit, lambda at: at[name][of], limits.get(type(beside), beside), *rest, also=also, **bound)


def make_files():
    say("making the files")
    block = os.urandom(SMALL)
    for n in range(args.size):
        file = tree / path(n)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(n.to_bytes(8, "big") + block[8:])
        os.utime(file, (modified(n), modified(n)))
    with open(folder / "large.bin", "wb") as large:
        for _ in range(args.large):
            large.write(os.urandom(MIB))
    os.sync()


def period(begin):
    begin, end = (time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at)) for at in (begin, begin + MONTH))
    return f"/v1/files?from={begin}&to={end}&limit=100"


def requests(mix, count=10_000):
    """Drawn with the seed. Uploads have content that does not matter: it is not compressed."""
    draw, targets = random.Random(f"{args.seed} {mix}"), []
    for kind in draw.choices([*WEIGHTS], WEIGHTS.values(), k=count) if mix == "mixed" else [mix] * count:
        file = path(draw.randrange(args.size))
        targets.append({
            "upload small": "PUT /v1/fs/put/", "stat": f"/v1/stat/files/{file}", "download": f"/v1/fs/files/{file}",
            "list": f"/v1/fs/files/{os.path.dirname(file)}/?limit=100",
            "time page": period(FIRST + draw.randrange(args.size) * STEP),
        }[kind])
    return targets


def measure_mixes(server):
    for mix in [*WEIGHTS, "mixed"]:
        targets = requests(mix)
        rounds = in_turns(f"http: {mix}", {many: lambda many=many: wrk(server, targets, many) for many in [1, 8, 64]})
        for many in [1, 8, 64]:
            samples = [at[many] for at in rounds]
            middle = lambda of: statistics.median(sample[of] for sample in samples)
            failures = sum((collections.Counter(sample["failures"]) for sample in samples), collections.Counter())
            emit(json.dumps({"http": {
                "mix": mix, "connections": many, "of_peak": 1, "p50_us": round(middle("p50_us")),
                "p99_us": round(middle("p99_us")), "offered_per_second": middle("per_second"),
                "requests": sum(sample["requests"] for sample in samples), "failures": failures,
                "errors": failures.total(), "seconds": sum(sample["seconds"] for sample in samples),
                "generator_bound": middle("generator_cpu_share") > 0.95,
                **{of: middle(of) for of in ["per_second", "bytes_per_second", "generator_cpu_share", "server_cpu_us"]},
            }}))


def restart(server):
    """Measures the start, and the size of what is in the store then. Returns the new server."""
    seconds, started = [], []
    for _ in range(args.rounds):
        say("starting")
        server.stop()
        seconds.append(timed(lambda: started.append(start_rowdrive())))
        server = started.pop()
    size = server.metrics()["rowdrive_store_table_bytes"] / args.size
    note = f"without content, not compacted; a path is as /files/{path(args.size - 1)}"
    keep([size], "disk per file, all tables and indexes", "bytes", float, lambda _: 400, "<= 1", note=note)
    keep(seconds, f"start with {args.size} files", "ms", lambda at: at * 1e3, lambda _: 2_000, "<= 1")
    return server


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


def measure_uploads(server):
    def upload(connections):
        plans = lambda: [server.metrics()[f"rowdrive_store_commit_plans_{of}"] for of in ("sum", "count")]
        before = plans()
        found = wrk(server, ["PUT /v1/fs/put/"], connections)
        plans, groups = (after - before for after, before in zip(plans(), before))
        return {**found, "commits": plans / max(groups, 1)}

    calls = {
        "upload": lambda: upload(32), "uploads": lambda: upload(128), "one": lambda: upload(1), "sync": syncs,
        "constant": lambda: wrk(server, ["/healthz"]), "one constant": lambda: wrk(server, ["/healthz"], 1),
    }
    composed = lambda at: 1 / (1 / at["constant"]["per_second"] + 1 / (8 * at["sync"]["per_second"]))
    alone = lambda at: at["sync"]["p50_us"] + at["one constant"]["p50_us"]
    compare(
        "uploads", calls,
        ("upload", "upload 4 KiB, durable, 32 clients", "requests/s", "per_second", composed, ">= 0.8",
         "composed: a constant answer, and an eighth of an fdatasync of 4 KiB"),
        ("upload", "commits per sync, 32 clients", "commits", "commits", 8, ">= 1"),
        ("uploads", "commits per sync, 128 clients", "commits", "commits", 40, ">= 1"),
        ("one", "upload 4 KiB, durable, 1 client, p50", "us", "p50_us", alone, "<= 1.5",
         "fdatasync of 4 KiB and a constant answer, p50 each"),
    )


def deep_page(server, files):
    """The target of the last page of the large folder: the server gives its cursor after all pages before."""
    cursor = ""
    for before in range(files - FOLDER, 0, -10_000):
        page = curl(server, f"/v1/fs/files/part0/?limit={min(before, 10_000)}{cursor}")
        cursor = f"&cursor={json.loads(page)['next']}"
    return f"/v1/fs/files/part0/?limit=100{cursor}"


def measure_reads(server):
    files, names = -(-args.size // 10), f"/v1/fs/files/{os.path.dirname(path(args.size // 2))}/"
    targets = {
        "a constant answer": ["/healthz"], "stat": requests("stat"), "get": requests("download"),
        "deep": [deep_page(server, files)], "the first page": ["/v1/fs/files/part0/?limit=100"],
        "list": [f"{names}?limit=100"], "time": requests("time page"),
    }
    calls = {name: lambda these=these: wrk(server, these) for name, these in targets.items()}
    calls["names as text"] = lambda: wrk(server, [names], 32, "-HAccept: text/plain")
    constant = ["a constant answer", ">= 0.65", "a constant answer of the same server, /healthz"]
    compare(
        "reads", calls,
        ("stat", "stat, 32 clients", "requests/s", "per_second", *constant),
        ("get", "download 4 KiB, 32 clients", "requests/s", "per_second", *constant),
        ("list", "list, page of 100 with attributes", "us", "us", "names as text", "<= 1.2", "names as text"),
        ("deep", f"list, page {files // FOLDER} of a folder", "us", "us", "the first page", "<= 1.2", "the first page"),
        ("time", "time page of 100", "requests/s", "per_second", 5_000, ">= 1"),
    )


def system_calls(server):
    """Of the server, for each stat, as strace counts them."""
    said, calls, goal = "strace is not installed", 0, ">= 1"
    if shutil.which("strace"):
        say("system calls")
        command = ["strace", "--follow-forks", "--summary-only", "--attach", str(server.process.pid)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as strace:
            time.sleep(0.3)
            done = wrk(server, requests("stat"))
            strace.send_signal(signal.SIGINT)
            said = strace.communicate()[1].strip()
        # As `100.00    0.1    3    4242    17 total`.
        if total := re.search(r"(\d+)( +\d+)? +total$", said):
            said, calls, goal = "", int(total[1]) / done["requests"], "<= 1"
    note = {"note": f"not measured: {said.splitlines()[-1]}"} if said else {}
    keep([calls], "stat, system calls", "calls", float, lambda _: 2.1, goal, **note)


def transfer(server, target, *options):
    """A large file: seconds of CPU time for each GiB, MiB of memory, and bytes written for each byte."""
    pathlib.Path(f"/proc/{server.process.pid}/clear_refs").write_text("5")
    resident, written, cpu = server.proc("status", "VmRSS"), server.proc("io", "write_bytes"), server.cpu()
    took = timed(lambda: curl(server, target, "-o/dev/null", *options))
    memory, written = server.proc("status", "VmHWM") - resident, server.proc("io", "write_bytes") - written
    return {"per_second": args.large / took, "server_cpu_s_a_GiB": (server.cpu() - cpu) / args.large * 1024,
            "memory": max(memory, 0) / 1024, "written": written / args.large / MIB}


def timed(work):
    begin = time.monotonic()
    work()
    return time.monotonic() - begin


def direct_writes():
    """Past the page cache, and a sync."""
    block, file = mmap.mmap(-1, MIB), os.open(folder / "disk.bin", os.O_WRONLY | os.O_CREAT | os.O_DIRECT)
    for at in range(args.large):
        os.pwrite(file, block, at * MIB)
    os.fdatasync(file)
    os.close(file)


def cached_reads():
    block, file = bytearray(MIB), os.open(folder / "large.bin", os.O_RDONLY)
    for at in range(args.large):
        os.preadv(file, [block], at * MIB)
    os.close(file)


def measure_large(server):
    target, up, down = "/v1/fs/large.bin", f"upload {args.large} MiB, durable", f"download {args.large} MiB"
    calls = {
        "up": lambda: transfer(server, target, "-T", folder / "large.bin"), "down": lambda: transfer(server, target),
        "writes": lambda: {"per_second": args.large / timed(direct_writes)},
        "reads": lambda: {"per_second": args.large / timed(cached_reads)},
    }
    compare(
        "large files", calls,
        ("up", up, "MiB/s", "per_second", 1_000, ">= 1"),
        ("up", f"{up}, beside the disk", "MiB/s", "per_second", "writes", ">= 0.85", "O_DIRECT writes of 1 MiB"),
        ("up", "upload, device bytes for each of the user's", "x", "written", 1.02, "<= 1"),
        ("up", "upload, memory for a stream", "MiB", "memory", 8, "<= 1"),
        ("down", down, "MiB/s", "per_second", 1_000, ">= 1"),
        ("down", f"{down}, beside the disk", "MiB/s", "per_second", "reads", ">= 0.5",
         "reads of 1 MiB from the page cache"),
        ("down", "download, memory for a stream", "MiB", "memory", 8, "<= 1"),
    )


def measure_move(server):
    times, places = [], ["/files", "/moved"]
    for _ in range(args.rounds):
        say("moving the files")
        body = json.dumps(dict(zip(["from", "to"], places)))
        times.append(timed(lambda: curl(server, "/v1/move", "-HContent-Type: application/json", "-d", body)))
        places.reverse()
        server.wait_until(lambda: not server.metrics()["rowdrive_drive_operations"])
    goal, operation = 10 + args.size / 500, f"move a folder of {args.size}"
    keep(times, operation, "ms", lambda at: at * 1e3, lambda _: goal, "<= 1", "goal: 10 ms, and 2 us a file")


def pgbench(server, sql, connections):
    """Of prepared queries."""
    (folder / "query.sql").write_text(sql)
    before = server.cpu()
    pace = [f"-c{connections}", "-j1", f"-T{math.ceil(args.seconds)}"]
    said = run("pgbench", "-n", "-M", "prepared", *pace, "-f", folder / "query.sql", *login(server))
    count = int(re.search(r"actually processed: (\d+)", said)[1])
    rate = float(re.search(r"tps = ([\d.]+) \(without", said)[1])
    return {"per_second": rate, "server_cpu_us": (server.cpu() - before) / count * 1e6}


def sqlite(database, sql):
    """Of one thread, in this process."""
    start, spent, count = time.monotonic(), time.process_time(), 0
    while (took := time.monotonic() - start) < args.seconds or not count:
        database.execute(sql).fetchall()
        count += 1
    return {"per_second": count / took, "server_cpu_us": (time.process_time() - spent) / count * 1e6}


def rows(blob):
    for n in range(args.size):
        yield path(n), *path(n).rsplit("/", 1), SMALL, "image/jpeg", "anonymous", modified(n), modified(n), blob(n)


def fill_sqlite():
    database = sqlite3.connect(folder / "files.sqlite")
    database.execute(TABLE.format(blob="blob"))
    database.executemany(f"INSERT INTO file VALUES ({','.join('?' * 9)})", rows(lambda n: n.to_bytes(32, "big")))
    database.executescript(INDEXES + "ANALYZE")
    return database


def login(server):
    return ["-h", "127.0.0.1", "-p", str(server.port), "-U", "postgres", "postgres"]


def start_postgresql():
    data, programs = folder / "postgresql", sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))[-1]
    user, port = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"], free_port()
    data.mkdir()
    shutil.chown(data, "postgres", "postgres")
    run(*user, programs / "initdb", "-D", data, "-A", "trust", cwd="/")
    settings = ["-c", "shared_buffers=1GB", "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]
    server = Server("PostgreSQL", [*user, programs / "postgres", "-D", data, "-p", port, *settings], port, cwd="/")
    server.wait_until(lambda: subprocess.run(["pg_isready", "-q", *login(server)[:4]]).returncode == 0)
    lines = "".join("\t".join(map(str, row)) + "\n" for row in rows(lambda n: f"\\\\x{n:064x}"))
    for command in [TABLE.format(blob="bytea"), "COPY file FROM stdin", INDEXES + "ANALYZE"]:
        run("psql", "-q", *login(server), "-c", command, input=lines)
    return server


def works():
    """What the table of other programs measures: connections, and what each program is asked for."""
    one, begin = path(args.size // 2), FIRST + args.size // 2 * STEP
    part, directory = one.split("/")[0], os.path.dirname(one)
    within = f"SELECT {ROW} FROM file WHERE modified >= {begin} AND modified < {begin + MONTH} "
    # `0` follows the slash.
    newest, tenth = "ORDER BY modified DESC LIMIT 100", f"AND path >= '{part}/' AND path < '{part}0' "
    # Answered 304, without a body: wrk waits for that of an answer to HEAD.
    asked = [f"/files/{one}", "-HIf-Modified-Since: Fri, 31 Dec 2100 23:59:59 GMT"]
    put = ["-T", folder / "large.bin"]
    pages = lambda under, sql: {"rowdrive": [period(begin) + under], "PostgreSQL": [within + sql], "SQLite": [within + sql]}
    return {
        "upload 4 KiB; nginx without a sync": (32, {"rowdrive": ["PUT /v1/fs/put/"], "nginx": ["PUT /put/"]}),
        "attributes of a file": (32, {
            "rowdrive": [f"/v1/stat/files/{one}"], "nginx": asked, "rclone": asked,
            "PostgreSQL": [f"SELECT {ROW} FROM file WHERE path = '{one}'"],
        }),
        "download 4 KiB": (32, {
            "rowdrive": [f"/v1/fs/files/{one}"], "nginx": [f"/files/{one}"], "rclone": [f"/files/{one}"],
        }),
        "a folder of 100 with attributes": (8, {
            "rowdrive": [f"/v1/fs/files/{directory}/?limit=100"],
            "PostgreSQL": [f"SELECT {ROW} FROM file WHERE dir = '{directory}' ORDER BY name LIMIT 100"],
        }),
        "newest 100 of a month": (8, pages("", newest)),
        "the same below a tenth of the tree": (8, pages(f"&under=/files/{part}", tenth + newest)),
        f"upload {args.large} MiB; nginx without a sync": (1, {
            "rowdrive": ["/v1/fs/large.bin", *put], "nginx": ["/put/large.bin", *put],
        }),
        f"download {args.large} MiB": (1, {
            "rowdrive": ["/v1/fs/large.bin"], "nginx": ["/large.bin"], "rclone": ["/large.bin"],
        }),
    }


def start_peers():
    (folder / "nginx.conf").write_text(NGINX.format(folder, port := free_port()))
    nginx = Server("nginx", ["nginx", "-c", folder / "nginx.conf"], port)
    options = ["--addr", f"127.0.0.1:{(port := free_port())}", "--read-only"]
    rclone = Server("rclone", ["rclone", "serve", "http", folder, *options], port)
    for server in [nginx, rclone]:
        server.wait_until(lambda: server.answers("/large.bin"))
    say("filling the databases")
    return {"nginx": nginx, "rclone": rclone, "PostgreSQL": start_postgresql(), "SQLite": fill_sqlite()}


def measure_peers(rowdrive, imported):
    copied = timed(lambda: (run("cp", "-r", tree, folder / "copied"), os.sync()))
    programs = {"rowdrive": rowdrive, **start_peers()}
    emit(f"{args.size:,} files; {args.rounds} rounds; a second, and us of CPU (MiB a second, and s of CPU a GiB)\n")
    emit("| work | connections | program | a second | CPU | rowdrive is |\n|---|---:|---|---:|---:|---:|")
    for work, (many, asked) in works().items():
        how = {"PostgreSQL": lambda server, sql: pgbench(server, sql, many), "SQLite": sqlite}
        http = transfer if many == 1 else lambda server, target, *options: wrk(server, [target], many, *options)
        calls = {name: lambda name=name, of=of: how.get(name, http)(programs[name], *of) for name, of in asked.items()}
        rounds = in_turns(work, calls)
        for name in asked:
            middle = lambda of: statistics.median(map(of, rounds))
            cpu = middle(lambda at: at[name].get("server_cpu_us", at[name].get("server_cpu_s_a_GiB")))
            ratio = middle(lambda at: at["rowdrive"]["per_second"] / at[name]["per_second"])
            rate = middle(lambda at: at[name]["per_second"])
            ratio = "" if name == "rowdrive" else f"{ratio:.2f} x"
            emit(f"| {work} | {many} | {name} | {rate:,.0f} | {cpu:,.2f} | {ratio} |")
    for name, took, ratio in [("rowdrive", imported, ""), ("`cp -r` and `sync`", copied, f"{copied / imported:.2f} x")]:
        emit(f"| import of {args.size:,} files | | {name} | {args.size / took:,.0f} | | {ratio} |")


def check_programs():
    for program, package in (PROGRAMS | PEERS if args.peers else PROGRAMS).items():
        if not shutil.which(program):
            fail(f"{program} is missing: `apt-get install {package}`; only `loadtest layouts` needs no such program")
    if not args.program.exists():
        fail(f"{args.program} is missing: `make program` builds it")
    if args.peers and os.geteuid():
        fail("--peers needs root: PostgreSQL has a user of its own")


def main():
    make_files()
    server = start_rowdrive()
    say("importing the files")
    imported = timed(lambda: run(args.program, "import", "--server", server.url(""), tree, "/files"))
    server = restart(server)
    for measure in [measure_mixes, measure_uploads, measure_reads, system_calls, measure_large]:
        measure(server)
    if args.peers:
        measure_peers(server, imported)
    # Afterwards the files are at another path.
    measure_move(server)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one short round, with few files")
    parser.add_argument("--size", type=int, default=100_000, help="files, 1,000 or more")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1, help="of each measurement with wrk")
    parser.add_argument("--large", type=int, default=1024, help="MiB of the large file")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--memory", default="1GiB", help="of the server")
    built = pathlib.Path(__file__).resolve().parent.parent / "target/release/rowdrive"
    parser.add_argument("--program", type=pathlib.Path, default=built)
    parser.add_argument("--dir", type=pathlib.Path, help="where the files are made, and removed again")
    parser.add_argument("--out", type=pathlib.Path, help="a folder: limits.txt there gets all that is printed")
    parser.add_argument("--peers", action="store_true", help="measure other programs too; as root")
    parser.add_argument("--check", action="store_true", help="only look for the programs that are needed")
    if "--quick" in sys.argv:
        parser.set_defaults(size=5_000, rounds=1, seconds=0.1, large=64)
    return parser.parse_args()


def on_ending(handler):
    for ending in [signal.SIGINT, signal.SIGTERM]:
        signal.signal(ending, handler)


if __name__ == "__main__":
    args, servers, fresh = parse(), [], itertools.count(10**9, 10**7)
    check_programs()
    if args.check:
        sys.exit()
    on_ending(lambda *_: fail("interrupted"))
    with tempfile.TemporaryDirectory(dir=args.dir) as name:
        folder = pathlib.Path(name)
        # For PostgreSQL's user.
        folder.chmod(0o755)
        tree = folder / "files"
        try:
            main()
        finally:
            on_ending(signal.SIG_IGN)
            for server in [*servers]:
                server.stop()
