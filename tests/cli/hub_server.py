"""A server that speaks as much of the Hugging Face hub's API as a download takes."""

import hashlib
import json
import re
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

REPO = "org/tiny-GGUF"
COMMIT = "0123456789abcdef" * 2 + "01234567"


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def git_hash(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        hub = self.server
        hub.requests.append((self.command, self.path, dict(self.headers)))
        try:
            if hub.hook is None or not hub.hook(self):
                self.serve()
        except (BrokenPipeError, ConnectionResetError):
            pass

    def serve(self):
        hub = self.server
        url = urllib.parse.urlsplit(self.path)
        path = urllib.parse.unquote(url.path)
        if listing := re.fullmatch("/api/models/([^/]+/[^/]+)/tree/main", path):
            self.list(listing[1], urllib.parse.parse_qs(url.query))
        elif resolved := re.fullmatch("/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            content = hub.files.get((resolved[1], resolved[3]))
            if content is None or resolved[2] not in ("main", hub.commit):
                return self.answer(404, X_Error_Code="EntryNotFound")
            headers = {"X-Repo-Commit": hub.commit,
                       "X-Linked-Etag": f'"{sha256(content)}"' if hub.is_large(resolved[3])
                       else f'"{git_hash(content)}"'}
            if hub.cdn is not None:
                hub.cdn.blobs[sha256(content)] = content
                return self.answer(302, Location=f"{hub.cdn.url}/blob/{sha256(content)}", **headers)
            self.send_file(content, headers)
        elif path.startswith("/blob/"):
            self.send_file(hub.blobs[path[6:]], {})
        else:
            self.answer(404, X_Error_Code="RepoNotFound")

    def list(self, repo, query):
        hub = self.server
        entries = hub.entries(repo)
        if not entries:
            return self.answer(404, X_Error_Code="RepoNotFound")
        at = int(query.get("cursor", ["0"])[0])
        headers = {}
        if hub.page and at + hub.page < len(entries):
            headers["Link"] = (f'<{hub.url}/api/models/{repo}/tree/main?recursive=true'
                               f'&cursor={at + hub.page}>; rel="next"')
        page = entries[at:at + hub.page] if hub.page else entries
        self.answer(200, json.dumps(page).encode(), **headers)

    def send_file(self, content, headers):
        """To the end, or as much as hub.cuts says; a part if the request has a Range."""
        hub = self.server
        start, status = 0, 200
        if (given := self.headers.get("Range")) and hub.ranges:
            start = int(re.fullmatch(r"bytes=(\d+)-", given)[1])
            if start >= len(content):
                return self.answer(416, Content_Range=f"bytes */{len(content)}")
            status = 206
        self.send_response(status)
        if status == 206:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - start))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        end = start + hub.cuts.pop(0) if hub.cuts else len(content)
        hub.sent += min(end, len(content)) - start  # first: the client may go on at the last byte
        for at in range(start, end, hub.piece):
            self.wfile.write(content[at:min(at + hub.piece, end)])
            self.wfile.flush()
            time.sleep(hub.pause)
        if end < len(content):
            hub.halted.set()
            hub.proceed.wait(60)
            self.close_connection = True


class Hub(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.files, self.blobs = {}, {}
        self.commit = COMMIT
        self.requests = []  # (method, path, headers)
        self.hook = None  # called with the handler; true: it has answered
        self.cdn = None  # another server that has the files
        self.page = 0  # entries of a page of the list; 0: all
        self.ranges = True
        self.cuts = []  # after so many bytes the next answers end
        self.sent = 0  # bytes of files
        self.piece, self.pause = 1 << 20, 0  # bytes at a time, and seconds after each
        self.halted, self.proceed = threading.Event(), threading.Event()
        self.proceed.set()
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02},
                         daemon=True).start()

    def put(self, path, content, repo=REPO):
        self.files[repo, path] = content
        return content

    @staticmethod
    def is_large(path):
        return path.endswith((".gguf", ".safetensors"))

    def entries(self, repo):
        listed = []
        for (of, path), content in sorted(self.files.items()):
            entry = {"type": "file", "path": path, "size": len(content), "oid": git_hash(content)}
            if self.is_large(path):
                entry["lfs"] = {"oid": sha256(content), "size": len(content), "pointerSize": 135}
            if of == repo:
                listed.append(entry)
        return listed

    def fetched(self):
        """The Range of every request for a file's bytes; None: the whole file."""
        return [headers.get("Range") for method, path, headers in self.requests
                if method == "GET" and "/api/" not in path]

    def close(self):
        self.proceed.set()
        self.shutdown()
        self.server_close()
