#!/usr/bin/env python3
"""Measures the server beside programs that people use instead, on this machine, in turns.

    loadtest/peers.py [--files 100000] [--rounds 3] [--seconds 3] [--large 1024]

It starts nginx, rclone, PostgreSQL and `rowdrive serve` on loopback, and needs wrk for requests. All are Debian packages:
apt-get install nginx-light rclone postgresql wrk. Run it as root, since PostgreSQL needs a user of its own. It prints a
table in Markdown: rates, and the CPU time that a server spends on one operation, each the median of the rounds. PostgreSQL
and SQLite are measured without HTTP. It removes what it made.

The data are files of 4 KiB in folders of a hundred. Their times are 10 minutes apart, without relation to the folders.
"""

import argparse
import os
import pathlib
import re
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIRST, STEP, SMALL, FOLDER = 1_704_067_200, 600, 4096, 100
PORT = {"rowdrive": 18080, "nginx": 18081, "rclone": 18082, "PostgreSQL": 18083}
MONTH = 30 * 86_400

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
    """Ten parts of the tree, each with folders of a hundred files."""
    return f"part{n * 10 // args.files}/folder{n // FOLDER:05}/IMG_{n:08}.jpg"


def modified(n):
    return FIRST + n * 7_919 % args.files * STEP


class Server:
    """A program, its rates, and the CPU time of its processes."""

    def __init__(self, name, command, **options):
        self.name = name
        log = open(folder / f"{name}.out", "wb")
        self.process = subprocess.Popen([str(part) for part in command], stdout=log, stderr=log, **options)
        servers.append(self)

    def cpu(self):
        """Seconds that its threads have run, of its children too; also of those that have ended."""
        ticks, pids = 0, [self.process.pid]
        pids += map(int, subprocess.run(["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True).stdout.split())
        for pid in pids:
            try:
                fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            # utime, stime and, of the first process, those of its children that it has waited for.
            ticks += sum(map(int, fields[11:15] if pid == self.process.pid else fields[11:13]))
        return ticks / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.process.terminate()
        self.process.wait()


def wait_until(is_ready, what):
    for _ in range(300):
        if is_ready():
            return
        time.sleep(0.1)
    sys.exit(f"{what} does not answer: see {folder}")


def answers(url):
    return subprocess.run(["curl", "-sfo", "/dev/null", url]).returncode == 0


def run(command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    if done.returncode:
        sys.exit(f"{command}: {done.stdout}{done.stderr}")
    return done.stdout


def wrk(server, target, connections=32, script=None):
    """Requests a second, and microseconds of CPU time for each."""
    command = ["wrk", "-t1", f"-c{connections}", f"-d{args.seconds}s", f"http://127.0.0.1:{PORT[server.name]}{target}"]
    if script:
        name = folder / "requests.lua"
        name.write_text(script)
        command[1:1] = ["-s", name]
    before = server.cpu()
    said = run(command)
    if "Non-2xx" in said or "Socket errors" in said:
        sys.exit(f"{server.name} {target}: {said}")
    count = int(re.search(r"(\d+) requests in", said)[1])
    if not count:
        sys.exit(f"{server.name} {target}: no answer")
    return float(re.search(r"Requests/sec:\s+([\d.]+)", said)[1]), (server.cpu() - before) / count * 1e6


def pgbench(server, sql, connections=8):
    """The same for a query, prepared."""
    (folder / "query.sql").write_text(sql)
    before = server.cpu()
    said = run(["pgbench", "-n", "-M", "prepared", f"-c{connections}", "-j1", f"-T{args.seconds}", "-f", folder / "query.sql", *login])
    count = int(re.search(r"actually processed: (\d+)", said)[1])
    return float(re.search(r"tps = ([\d.]+) \(without", said)[1]), (server.cpu() - before) / count * 1e6


def sqlite(sql, parameters):
    """Of one thread, in this process."""
    start, spent, count = time.monotonic(), time.process_time(), 0
    while time.monotonic() - start < args.seconds:
        assert database.execute(sql, parameters).fetchall()
        count += 1
    return count / (time.monotonic() - start), (time.process_time() - spent) / count * 1e6


def transfer(server, command):
    """MiB a second of a large file, and seconds of CPU time for each GiB."""
    before, start = server.cpu(), time.monotonic()
    run(["curl", "-sSf", *command])
    took = time.monotonic() - start
    return args.large / took, (server.cpu() - before) / args.large * 1024


def make_files():
    block = os.urandom(SMALL)
    for n in range(args.files):
        file = tree / path(n)
        if n % FOLDER == 0:
            file.parent.mkdir(parents=True)
        file.write_bytes(n.to_bytes(8, "big") + block[8:])
        os.utime(file, (modified(n), modified(n)))
    with open(folder / "large.bin", "wb") as large:
        for _ in range(args.large):
            large.write(os.urandom(1 << 20))
    os.sync()


def rows(blob):
    for n in range(args.files):
        yield path(n), *path(n).rsplit("/", 1), SMALL, "image/jpeg", "anonymous", modified(n), modified(n), blob(n)


def start_postgresql():
    data, bin = folder / "postgresql", sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))[-1]
    user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    data.mkdir()
    shutil.chown(data, "postgres", "postgres")
    run([*user, bin / "initdb", "-D", data, "-A", "trust"], cwd="/")
    settings = ["-c", "shared_buffers=1GB", "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]
    server = Server("PostgreSQL", [*user, bin / "postgres", "-D", data, "-p", PORT["PostgreSQL"], *settings], cwd="/")
    wait_until(lambda: subprocess.run(["pg_isready", "-q", *login[:4]]).returncode == 0, "PostgreSQL")
    run(["psql", "-q", *login, "-c", TABLE.format(blob="bytea")])
    lines = "".join("\t".join(map(str, row)) + "\n" for row in rows(lambda n: f"\\\\x{n:064x}"))
    run(["psql", "-q", *login, "-c", "COPY file FROM stdin"], input=lines)
    run(["psql", "-q", *login, "-c", INDEXES + "ANALYZE"])
    return server


def measures(rowdrive, nginx, rclone, postgresql):
    """What each row measures: its name, and a call for each program."""
    middle = args.files // 2
    one = path(middle)
    part, directory = one.split("/")[0], one.rsplit("/", 1)[0]
    begin = FIRST + args.files // 2 * STEP
    stamp = lambda seconds: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
    month = f"/v1/files?from={stamp(begin)}&to={stamp(begin + MONTH)}&limit=100"
    period = f"SELECT {ROW} FROM file WHERE modified >= {begin} AND modified < {begin + MONTH} "
    # `0` follows the slash.
    newest, tenth = "ORDER BY modified DESC LIMIT 100", f"AND path >= '{part}/' AND path < '{part}0' "
    page = f"SELECT {ROW} FROM file WHERE dir = '{directory}' ORDER BY name LIMIT 100"
    # Answered 304, without a body: wrk waits for that of an answer to HEAD.
    head, files = 'wrk.headers["If-Modified-Since"] = "Fri, 31 Dec 2100 23:59:59 GMT"', f"/files/{one}"
    put = 'local n = {0}\nfunction request() n = n + 1\nreturn wrk.format("PUT", "/{1}/" .. math.floor(n / 1000) .. "/" .. n, nil, string.rep("x", 4096)) end'
    fresh = iter(range(10**9, 10**12, 10**7))
    large = lambda server, to: f"http://127.0.0.1:{PORT[server.name]}{to}"
    get = lambda server, to: transfer(server, ["-o", "/dev/null", large(server, to)])
    return {
        "upload 4 KiB, 32 connections": {
            "rowdrive": lambda: wrk(rowdrive, "/", 32, put.format(next(fresh), "v1/fs/put")),
            "nginx, no sync": lambda: wrk(nginx, "/", 32, put.format(next(fresh), "put")),
        },
        "attributes of a file, 32": {
            "rowdrive": lambda: wrk(rowdrive, f"/v1/stat/files/{one}"),
            "nginx": lambda: wrk(nginx, files, script=head),
            "rclone": lambda: wrk(rclone, files, script=head),
            "PostgreSQL": lambda: pgbench(postgresql, f"SELECT {ROW} FROM file WHERE path = '{one}'", 32),
        },
        "download 4 KiB, 32": {
            "rowdrive": lambda: wrk(rowdrive, f"/v1/fs{files}"),
            "nginx": lambda: wrk(nginx, files),
            "rclone": lambda: wrk(rclone, files),
        },
        "a folder of 100 with attributes, 8": {
            "rowdrive": lambda: wrk(rowdrive, f"/v1/fs/files/{directory}/?limit=100", 8),
            "PostgreSQL": lambda: pgbench(postgresql, page),
        },
        "newest 100 of a month, 8": {
            "rowdrive": lambda: wrk(rowdrive, month, 8),
            "PostgreSQL": lambda: pgbench(postgresql, period + newest),
            "SQLite, 1": lambda: sqlite(period + newest, ()),
        },
        "the same below a tenth of the tree, 8": {
            "rowdrive": lambda: wrk(rowdrive, f"{month}&under=/files/{part}", 8),
            "PostgreSQL": lambda: pgbench(postgresql, period + tenth + newest),
            "SQLite, 1": lambda: sqlite(period + tenth + newest, ()),
        },
        f"upload {args.large} MiB": {
            "rowdrive": lambda: transfer(rowdrive, ["-o", "/dev/null", "-T", folder / "large.bin", large(rowdrive, "/v1/fs/large.bin")]),
            "nginx, no sync": lambda: transfer(nginx, ["-o", "/dev/null", "-T", folder / "large.bin", large(nginx, "/put/large.bin")]),
        },
        f"download {args.large} MiB": {
            "rowdrive": lambda: get(rowdrive, "/v1/fs/large.bin"),
            "nginx": lambda: get(nginx, "/large.bin"),
            "rclone": lambda: get(rclone, "/large.bin"),
        },
    }


def imports():
    """Seconds that a copy and an import of all files take, each synced."""
    start = time.monotonic()
    run(["cp", "-r", tree, folder / "copied"])
    os.sync()
    copied = time.monotonic() - start
    shutil.rmtree(folder / "copied")
    start = time.monotonic()
    run([program, "import", "--server", f"http://127.0.0.1:{PORT['rowdrive']}", tree, "/files"])
    return copied, time.monotonic() - start


def main():
    make_files()
    (folder / "nginx.conf").write_text(NGINX.format(folder, PORT["nginx"]))
    listen = [f"127.0.0.1:{PORT[name]}" for name in ["rowdrive", "rclone"]]
    rowdrive = Server("rowdrive", [program, "serve", "--data", folder / "data", "--listen", listen[0]])
    nginx = Server("nginx", ["nginx", "-c", folder / "nginx.conf"])
    rclone = Server("rclone", ["rclone", "serve", "http", folder, "--addr", listen[1], "--read-only"])
    wait_until(lambda: answers(f"http://{listen[0]}/healthz"), "rowdrive")
    wait_until(lambda: answers(f"http://127.0.0.1:{PORT['nginx']}/large.bin"), "nginx")
    wait_until(lambda: answers(f"http://{listen[1]}/"), "rclone")
    copied, imported = imports()
    postgresql = start_postgresql()
    database.execute(TABLE.format(blob="blob"))
    database.executemany(f"INSERT INTO file VALUES ({','.join('?' * 9)})", rows(lambda n: n.to_bytes(32, "big")))
    database.executescript(INDEXES + "ANALYZE")
    transfer(rowdrive, ["-o", "/dev/null", "-T", folder / "large.bin", f"http://{listen[0]}/v1/fs/large.bin"])
    print(f"{args.files:,} files; {args.rounds} rounds; a row's unit is a second, and µs of CPU (MiB: and s of CPU a GiB).\n")
    print("| work | program | a second | CPU | rowdrive is |\n|---|---|---:|---:|---:|")
    for work, programs in measures(rowdrive, nginx, rclone, postgresql).items():
        found = {name: [] for name in programs}
        for at in range(args.rounds):
            # In another order each time.
            for name in [*programs][at % len(programs):] + [*programs][:at % len(programs)]:
                found[name].append(programs[name]())
        for name, values in found.items():
            ratio = statistics.median(ours[0] / theirs[0] for ours, theirs in zip(found["rowdrive"], values))
            rate, cpu = (statistics.median(column) for column in zip(*values))
            print(f"| {work} | {name} | {rate:,.0f} | {cpu:,.2f} | {'' if name == 'rowdrive' else f'{ratio:.2f} x'} |", flush=True)
    print(f"| import of {args.files:,} files | rowdrive | {args.files / imported:,.0f} | | |")
    print(f"| | `cp -r` and `sync` | {args.files / copied:,.0f} | | {copied / imported:.2f} x |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=100_000, help="a multiple of 1,000")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=3, help="of each measurement")
    parser.add_argument("--large", type=int, default=1024, help="MiB of the large file")
    args = parser.parse_args()
    program, servers = ROOT / "target/release/rowdrive", []
    login = ["-h", "127.0.0.1", "-p", str(PORT["PostgreSQL"]), "-U", "postgres", "postgres"]
    with tempfile.TemporaryDirectory(dir=ROOT / "target") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        tree, database = folder / "files", sqlite3.connect(folder / "files.sqlite")
        try:
            main()
        finally:
            for server in servers:
                server.stop()
