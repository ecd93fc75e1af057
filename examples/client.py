"""A client for a Rowdrive server: upload, list, query by time, download. It needs the standard library only.

    python3 examples/client.py http://127.0.0.1:8080 photo.jpg
"""

import base64
import hashlib
import json
import mimetypes
import os
import sys
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen


class Drive:
    """A drive, by the address of its server."""

    def __init__(self, server):
        self.server = server.rstrip("/")

    def upload(self, path, local, modified=None):
        """Stores a local file at a path, with a modified time in seconds since 1970; returns its entry."""
        with open(local, "rb") as file:
            # Without a media type, urllib would send that of a form.
            media_type = mimetypes.guess_type(path)[0] or "application/octet-stream"
            headers = {"Content-Length": str(os.path.getsize(local)), "Content-Type": media_type}
            if modified is not None:
                headers["X-OC-Mtime"] = str(modified)
            # When the answer is here, the file is on the disk of the server.
            with self._open("PUT", "/v1/fs" + quote(path), headers=headers, data=file) as answer:
                return json.load(answer)

    def list(self, folder):
        """Yields the entries of a folder, page by page."""
        return self._pages("/v1/fs" + quote(folder.rstrip("/") + "/"), {})

    def files(self, **filters):
        """Yields files by time, newest first. Filters: from, to, under, creator, type, clock, order (docs/api.md)."""
        return self._pages("/v1/files", filters)

    def download(self, path, local):
        """Downloads a file and compares its digest."""
        digest = hashlib.sha256()
        with self._open("GET", "/v1/fs" + quote(path)) as answer, open(local, "wb") as file:
            while chunk := answer.read(1 << 20):
                digest.update(chunk)
                file.write(chunk)
            expected = answer.headers["Repr-Digest"]
        actual = "sha-256=:" + base64.b64encode(digest.digest()).decode() + ":"
        if actual != expected:
            raise OSError(f"{local} has the digest {actual}, not {expected}")

    def _pages(self, target, query):
        while True:
            with self._open("GET", target + "?" + urlencode(query)) as answer:
                page = json.load(answer)
            yield from page["entries"]
            if page["next"] is None:
                return
            query = {**query, "cursor": page["next"]}

    def _open(self, method, target, headers={}, data=None):
        try:
            return urlopen(Request(self.server + target, data=data, headers=headers, method=method))
        except HTTPError as error:
            # Errors are JSON: `type` and `status` are for programs, `detail` is for people.
            problem = json.load(error)
            raise OSError(f"{method} {target}: {error.code} {problem['type']}: {problem['detail']}") from None


def main():
    server, local = sys.argv[1:]
    drive = Drive(server)
    name = os.path.basename(local)

    entry = drive.upload("/examples/python/" + name, local, modified=1767323045)
    print("uploaded", entry["path"], entry["size"], "bytes")

    for entry in drive.list("/examples/python"):
        print("listed", entry["name"], entry["kind"])

    january = {"from": "2026-01-01T00:00:00Z", "to": "2026-02-01T00:00:00Z"}
    for entry in drive.files(**january, under="/examples/python"):
        print("found", entry["path"], entry["modified"])

    drive.download("/examples/python/" + name, "downloaded-" + name)
    print("downloaded", "downloaded-" + name)


if __name__ == "__main__":
    main()
