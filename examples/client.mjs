// A client for a Rowdrive server: upload, list, query by time, download. It needs Node.js 18 or newer, no packages.
//
//     node examples/client.mjs http://127.0.0.1:8080 photo.jpg

import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { basename } from "node:path";

/** A drive, by the address of its server. */
class Drive {
  constructor(server) {
    this.server = server.replace(/\/$/, "");
  }

  /** Stores bytes at a path, with a modified time; returns the file's entry. */
  async upload(path, bytes, modified) {
    // Without a media type, the server guesses one from the name.
    const headers = modified ? { "X-OC-Mtime": String(modified.getTime() / 1000) } : {};
    // When the answer is here, the file is on the disk of the server.
    return (await this.#send("PUT", "/v1/fs" + encode(path), { headers, body: bytes })).json();
  }

  /** Yields the entries of a folder, page by page. */
  list(folder) {
    return this.#pages("/v1/fs" + encode(folder.replace(/\/$/, "") + "/"), {});
  }

  /** Yields files by time, newest first. Filters: from, to, under, creator, type, clock, order (docs/api.md). */
  files(filters) {
    return this.#pages("/v1/files", filters);
  }

  /** Returns the bytes of a file, compared with their digest. */
  async download(path) {
    const answer = await this.#send("GET", "/v1/fs" + encode(path));
    const bytes = Buffer.from(await answer.arrayBuffer());
    const digest = `sha-256=:${createHash("sha256").update(bytes).digest("base64")}:`;
    const expected = answer.headers.get("repr-digest");
    if (digest !== expected) throw new Error(`${path} has the digest ${digest}, not ${expected}`);
    return bytes;
  }

  async *#pages(target, query) {
    for (;;) {
      const page = await (await this.#send("GET", `${target}?${new URLSearchParams(query)}`)).json();
      yield* page.entries;
      if (page.next === null) return;
      query = { ...query, cursor: page.next };
    }
  }

  async #send(method, target, options = {}) {
    const answer = await fetch(this.server + target, { method, ...options });
    if (answer.ok) return answer;
    // Errors are JSON: `type` and `status` are for programs, `detail` is for people.
    const { type, detail } = await answer.json();
    throw new Error(`${method} ${target}: ${answer.status} ${type}: ${detail}`);
  }
}

/** Percent-encodes the names of a path, not the slashes between them. */
const encode = (path) => path.split("/").map(encodeURIComponent).join("/");

const [server, local] = process.argv.slice(2);
const drive = new Drive(server);
const name = basename(local);
const path = `/examples/javascript/${name}`;

const entry = await drive.upload(path, await readFile(local), new Date("2026-01-02T03:04:05Z"));
console.log("uploaded", entry.path, entry.size, "bytes");

for await (const entry of drive.list("/examples/javascript")) console.log("listed", entry.name, entry.kind);

const january = { from: "2026-01-01T00:00:00Z", to: "2026-02-01T00:00:00Z", under: "/examples/javascript" };
for await (const entry of drive.files(january)) console.log("found", entry.path, entry.modified);

await writeFile(`downloaded-${name}`, await drive.download(path));
console.log("downloaded", `downloaded-${name}`);
