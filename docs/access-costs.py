#!/usr/bin/env python3
"""Measures what users cost, and whether wrong passwords hold up others.

    docs/access-costs.py costs [--seconds 5] [--rounds 5]
    docs/access-costs.py guesses [--count 100000]

It starts `rowdrive serve` on loopback and sends requests with wrk. Each result is a line of JSON on standard output.

`costs` compares a drive without users, and two with a user who may read and write everything by a grant, and whose
requests send a token on one of them, and a password on the other: requests per second of stat, list, upload and time
page, in turns, in a random order in each round, and each when no server works any more. `guesses` sends wrong
passwords of many names from one address, while a user works from the same one, with a password and with a token: his
latencies, beside those of a quiet time.
"""

import argparse
import base64
import http.client
import json
import os
import pathlib
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

PROGRAM = pathlib.Path(__file__).resolve().parent.parent / "target/release/rowdrive"
PASSWORD = "correct horse"
FILES, FOLDERS = 2_000, 20


def basic(name):
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{PASSWORD}".encode()).decode()}


# Sends one request with a header again and again; an upload gets a new name each time.
SCRIPT = """
local fresh = 0
function request()
    fresh = fresh + 1
    local path = (method == "PUT") and string.format("%s%d/%d", target, math.floor(fresh / 1000), first + fresh) or target
    return wrk.format(method, path, headers, (method == "PUT") and string.rep("x", 4096) or nil)
end
"""
# Another name and another password each time: no rule but that of the address slows them.
GUESSES = """
local n = 0
function request()
    n = n + 1
    local body = string.format('{"user": "%s%d", "password": "guess no. %d"}', "n", n % 5000, n)
    return wrk.format("POST", "/v1/session", {["Content-Type"] = "application/json"}, body)
end
function done(summary)
    io.write(string.format("RESULT %d %d\\n", summary.requests, summary.errors.status))
end
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A server on a data folder of its own, with users or without."""

    def __init__(self, folder, name, with_users=True):
        self.port, self.data, self.headers = free_port(), folder / name, {}
        command = [PROGRAM, "serve", "--data", self.data, "--listen", f"127.0.0.1:{self.port}"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while subprocess.call(["curl", "-sfo", "/dev/null", f"http://127.0.0.1:{self.port}/readyz"]):
            time.sleep(0.05)
        if with_users:
            name, secret = (self.data / "first-user-secret").read_text().strip().split(": ")
            self.ask("POST", "/v1/users", {"name": "admin", "password": PASSWORD}, {name: secret})
            self.ask("POST", "/v1/users", {"name": "eve", "password": PASSWORD, "home": None}, basic("admin"))
            grant = {"path": "/", "user": "eve", "rights": ["read", "write"]}
            self.ask("PUT", "/v1/grants", grant, basic("admin"))
            made = self.ask("POST", "/v1/tokens", {"name": "t"}, basic("eve"))
            self.headers = {"token": {"Authorization": f"Bearer {made['secret']}"}, "password": basic("eve")}
        self.some = next(iter(self.headers.values()), {})

    def ask(self, method, target, body, headers):
        client = http.client.HTTPConnection("127.0.0.1", self.port)
        client.request(method, target, json.dumps(body), {"Content-Type": "application/json", **headers})
        answer = client.getresponse()
        said = answer.read()
        if answer.status >= 400:
            raise SystemExit(f"{method} {target}: {answer.status} {said}")
        return json.loads(said or "null")

    def fill(self):
        client = http.client.HTTPConnection("127.0.0.1", self.port)
        for n in range(FILES):
            client.request("PUT", f"/v1/fs/d/{n % FOLDERS}/{n}.jpg", b"x" * 4096, self.some)
            client.getresponse().read()

    def wrk(self, folder, method, target, headers, seconds):
        script = folder / "script.lua"
        fields = ", ".join(f'["{name}"] = "{value}"' for name, value in headers.items())
        first = random.randrange(1 << 30)
        begin = f'method, target, headers, first = "{method}", "{target}", {{{fields}}}, {first}\n'
        script.write_text(begin + SCRIPT)
        command = ["wrk", "-t1", "-c32", f"-d{seconds}s", f"-s{script}", f"http://127.0.0.1:{self.port}/"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        if "Non-2xx" in said:
            raise SystemExit(f"{method} {target} was refused: {said}")
        return float(re.search(r"Requests/sec:\s+([\d.]+)", said)[1])

    def memory(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def settle(servers):
    """Waits until no server works: each merges tables for a while after uploads, and the next load would pay for it."""
    used = lambda: [server.cpu_seconds() for server in servers]
    before, deadline = used(), time.monotonic() + 30
    while time.monotonic() < deadline:
        time.sleep(0.5)
        now = used()
        if all(after - earlier < 0.02 for after, earlier in zip(now, before)):
            return
        before = now
    print("a server works on after 30 s", file=sys.stderr)


def costs(folder, args):
    # Each has a drive of its own: uploads of one would make the drive of another larger.
    servers = {name: Server(folder, name, with_users=name != "nobody") for name in ["nobody", "token", "password"]}
    cases = {name: (server, server.headers.get(name, {})) for name, server in servers.items()}
    for server in servers.values():
        server.fill()
    requests = {"stat": ("GET", "/v1/stat/d/3/43.jpg"), "list": ("GET", "/v1/fs/d/3/?limit=100"),
                "upload": ("PUT", "/v1/fs/up/"), "time page": ("GET", "/v1/files?limit=100")}
    for name, (method, target) in requests.items():
        rounds = []
        for _ in range(args.rounds):
            found = {}
            for case in random.sample(sorted(cases), len(cases)):
                settle(servers.values())
                server, headers = cases[case]
                found[case] = server.wrk(folder, method, target, headers, args.seconds)
            rounds.append(found)
        per_second = {case: round(statistics.median(one[case] for one in rounds)) for case in cases}
        ratios = {case: round(statistics.median(one[case] / one["nobody"] for one in rounds), 3) for case in cases}
        print(json.dumps({"request": name, "per_second": per_second, "beside_nobody": ratios}), flush=True)
    for server in servers.values():
        server.end()


def work(server, headers, seconds, stop=lambda: False):
    """One client's requests: their statuses, and milliseconds at the percentiles."""
    client, times, statuses, late = http.client.HTTPConnection("127.0.0.1", server.port), [], {}, time.monotonic() + seconds
    while time.monotonic() < late and not stop():
        n = len(times)
        method, target, body = [("GET", "/v1/stat/d/3/43.jpg", None), ("GET", "/v1/fs/d/3/?limit=100", None),
                                ("PUT", f"/v1/fs/up/{random.getrandbits(60)}", b"x" * 4096)][n % 3]
        begin = time.monotonic()
        client.request(method, target, body, headers)
        answer = client.getresponse()
        answer.read()
        times.append((time.monotonic() - begin) * 1000)
        statuses[answer.status] = statuses.get(answer.status, 0) + 1
        time.sleep(0.005)
    times.sort()
    at = lambda part: round(times[min(int(len(times) * part), len(times) - 1)], 2)
    return {"requests": len(times), "statuses": statuses, "p50_ms": at(0.5), "p99_ms": at(0.99), "max_ms": at(1)}


def guesses(folder, args):
    server = Server(folder, "users")
    server.fill()
    for name, headers in server.headers.items():
        quiet, memory = work(server, headers, args.quiet), server.memory()
        script, sent, refused, busy, begin = folder / "guesses.lua", 0, 0, [], time.monotonic()
        script.write_text(GUESSES)
        while sent < args.count:
            command = ["wrk", "-t1", "-c16", "-d5s", "--timeout=60s", f"-s{script}", f"http://127.0.0.1:{server.port}/"]
            attack = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            busy.append(work(server, headers, 60, lambda: attack.poll() is not None))
            all_sent, bad = re.search(r"RESULT (\d+) (\d+)", attack.communicate()[0]).groups()
            sent, refused = sent + int(all_sent), refused + int(bad)
        worst = max(busy, key=lambda one: one["p99_ms"])
        seconds = round(time.monotonic() - begin, 1)
        statuses = sorted({status for one in busy for status in one["statuses"]})
        found = {"by": name, "wrong_passwords": sent, "refused": refused, "seconds": seconds, "quiet": quiet,
                 "worst_5_s": worst, "statuses": statuses, "memory_MiB": [round(memory), round(server.memory())]}
        print(json.dumps(found), flush=True)
    server.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["costs", "guesses"])
    parser.add_argument("--seconds", type=int, default=5, help="of a load")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=100_000, help="wrong passwords")
    parser.add_argument("--quiet", type=int, default=20, help="seconds of the quiet time")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        {"costs": costs, "guesses": guesses}[args.what](pathlib.Path(folder), args)


if __name__ == "__main__":
    main()
