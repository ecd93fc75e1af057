#!/usr/bin/env python3
"""Measures what users cost, what the files of others cost a user, and whether wrong passwords hold up others.

    docs/access-costs.py costs [--seconds 5] [--rounds 5]
    docs/access-costs.py others [--files 1000000] [--rounds 5]
    docs/access-costs.py guesses [--count 100000]

It starts `rowdrive serve` on loopback and sends requests with wrk. Each result is a line of JSON on standard output.

`costs` compares a drive without users, and two with a user who may read and write everything by a grant, and whose
requests send a token on one of them, and a password on the other: requests per second of stat, list, upload and time
page, and syncs of an upload, in turns, in a random order in each round, and each when no server works any more. `others`
compares two drives on which a user has a hundred files of his own, and rights on two folders of another one: on the first
the other one has a million files, on the second these folders alone. Milliseconds of a page of a period, and of searches.
`guesses` sends wrong
passwords of many names from one address, while a user works from the same one, with a password and with a token: his
latencies, beside those of a quiet time.
"""

import argparse
import base64
import http.client
import io
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
import tarfile
import tempfile
import time
import urllib.parse

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
        before = self.syncs()
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        if "Non-2xx" in said:
            raise SystemExit(f"{method} {target} was refused: {said}")
        syncs = (self.syncs() - before) / int(re.search(r"(\d+) requests in", said)[1])
        return {"per_second": float(re.search(r"Requests/sec:\s+([\d.]+)", said)[1]), "syncs": syncs}

    def syncs(self):
        client = http.client.HTTPConnection("127.0.0.1", self.port)
        client.request("GET", "/metrics", headers=basic("admin") if self.headers else {})
        return int(re.search(r"rowdrive_store_commit_plans_count (\d+)", client.getresponse().read().decode())[1])

    def milliseconds(self, target, headers, many):
        """The median of so many requests, one after the other."""
        client, times = http.client.HTTPConnection("127.0.0.1", self.port), []
        for _ in range(many):
            begin = time.monotonic()
            client.request("GET", target, headers=headers)
            answer = client.getresponse()
            answer.read()
            times.append((time.monotonic() - begin) * 1000)
            if answer.status != 200:
                raise SystemExit(f"{target}: {answer.status}")
        return statistics.median(times)

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
        median = lambda what, of: {case: round(statistics.median(of(one, case)[what] for one in rounds), 4) for case in cases}
        beside = lambda one, case: {what: one[case][what] / (one["nobody"][what] or 1) for what in one[case]}
        found = {"request": name, "per_second": median("per_second", lambda one, case: one[case]),
                 "beside_nobody": median("per_second", beside)}
        if method == "PUT":
            found |= {"syncs": median("syncs", lambda one, case: one[case]), "syncs_beside_nobody": median("syncs", beside)}
        print(json.dumps(found), flush=True)
    for server in servers.values():
        server.end()


def store(server, folder, names, headers):
    """Stores an empty file of each of these names, with times 10 minutes apart, by tars of 10,000."""
    for at in range(0, len(names), 10_000):
        tar = io.BytesIO()
        with tarfile.open(fileobj=tar, mode="w") as writing:
            for n, name in enumerate(names[at:at + 10_000], at):
                member = tarfile.TarInfo(name)
                member.mtime = 1_704_067_200 + n * 600
                writing.addfile(member)
        client = http.client.HTTPConnection("127.0.0.1", server.port)
        client.request("PUT", f"/v1/fs{folder}?unpack=tar", tar.getvalue(), {"Content-Type": "application/x-tar", **headers})
        last = json.loads(client.getresponse().read().splitlines()[-1])
        if last.get("failed") != 0:
            raise SystemExit(f"{folder}: {last}")
        print(f"{min(at + 10_000, len(names))} of {len(names)} files in {folder}", file=sys.stderr)


def others(folder, args):
    servers = {}
    for name, many in [("many", args.files), ("none", 0)]:
        server = servers[name] = Server(folder, name)
        for user in ["tom", "ann"]:
            server.ask("POST", "/v1/users", {"name": user, "password": PASSWORD}, basic("admin"))
        store(server, "/home/ann/", [f"IMG_{n}.jpg" for n in range(100)], basic("ann"))
        for shared in ["/home/tom/a/", "/home/tom/b/"]:
            store(server, shared, [f"IMG_{n}.jpg" for n in range(100)], basic("tom"))
            grant = {"path": shared.rstrip("/"), "user": "ann", "rights": ["read"]}
            server.ask("PUT", "/v1/grants", grant, basic("tom"))
        store(server, "/home/tom/", [f"{n // 100}/IMG_{n}.jpg" for n in range(many)], basic("tom"))
    settle(servers.values())
    until = urllib.parse.quote("2024-02-01T00:00:00Z")
    targets = {"files": "/v1/files?limit=100", "files of a month": f"/v1/files?limit=100&to={until}",
               "find IMG_*": "/v1/find?name=IMG_*&limit=100", "find IMG_7.jpg": "/v1/find?name=IMG_7.jpg"}
    for name, target in targets.items():
        rounds = [{case: servers[case].milliseconds(target, basic("ann"), 300) for case in random.sample(sorted(servers), 2)}
                  for _ in range(args.rounds)]
        found = {case: round(statistics.median(one[case] for one in rounds), 3) for case in servers}
        ratio = round(statistics.median(one["many"] / one["none"] for one in rounds), 2)
        print(json.dumps({"request": name, "ms": found, "ratio": ratio}), flush=True)
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
    parser.add_argument("what", choices=["costs", "others", "guesses"])
    parser.add_argument("--seconds", type=int, default=5, help="of a load")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--files", type=int, default=1_000_000, help="of the other user")
    parser.add_argument("--count", type=int, default=100_000, help="wrong passwords")
    parser.add_argument("--quiet", type=int, default=20, help="seconds of the quiet time")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        {"costs": costs, "others": others, "guesses": guesses}[args.what](pathlib.Path(folder), args)


if __name__ == "__main__":
    main()
