"""A server of the program, and plain HTTP to talk to it."""

import http.client
import json
import os
import pathlib
import re
import socket
import subprocess
import threading

BIN = os.environ.get("INFER_BIN", "")


class Service:
    """infer serve on a free port, with the built-in model if the arguments name none."""

    def __init__(self, *arguments, env=None, cwd=None):
        environment = {k: v for k, v in os.environ.items() if k != "INFER_API_KEY"} | (env or {})
        self.process = subprocess.Popen([BIN, "serve", "--port", "0", *map(str, arguments)],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        env=environment, cwd=cwd)
        self.said = b""
        self.port = None
        while self.port is None:
            line = self.process.stderr.readline()
            self.said += line
            assert line, self.said.decode()
            found = re.search(rb"served at https?://.*:(\d+)$", line.strip())
            if found:
                self.port = int(found[1])
        # Nobody else reads what it says later: a full pipe would stop it.
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stderr:
            self.said += line

    def ask(self, method, path, body=None, headers=None, timeout=60):
        """Status, headers in lower case, and the body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, path, data, headers or {})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, text

    def post(self, path, body, expect=200, **options):
        """The JSON of an answer that must succeed, or have another status that is expected."""
        status, _, text = self.ask("POST", path, body, **options)
        assert status == expect, text.decode()
        return json.loads(text)

    def get(self, path, **options):
        status, _, text = self.ask("GET", path, **options)
        assert status == 200, text.decode()
        return json.loads(text)

    def error(self, path, body, method="POST", **options):
        """Status and error of a request that must fail."""
        status, _, text = self.ask(method, path, body, **options)
        assert status >= 400, text.decode()
        return status, json.loads(text)["error"]

    def events(self, path, body):
        """The events of a streamed answer, without the last mark."""
        status, headers, text = self.ask("POST", path, body | {"stream": True})
        assert status == 200, text.decode()
        assert headers["content-type"] == "text/event-stream; charset=utf-8"
        lines = [line for line in text.decode().split("\n\n") if line]
        assert all(line.startswith("data: ") for line in lines)
        assert lines[-1] == "data: [DONE]"
        return [json.loads(line[6:]) for line in lines[:-1]]

    def raw(self, data, timeout=20):
        """What comes back for these bytes until the connection ends."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout) as connection:
            connection.sendall(data)
            got = b""
            while True:
                try:
                    part = connection.recv(65536)
                except ConnectionResetError:
                    return got
                if not part:
                    return got
                got += part

    def metric(self, name, labels=""):
        """The sum of a metric's values whose labels contain this text."""
        _, _, text = self.ask("GET", "/metrics")
        found = [line for line in text.decode().splitlines()
                 if line.startswith((name + "{", name + " ")) and labels in line]
        return sum(float(line.rsplit(" ", 1)[1]) for line in found)

    def files(self):
        return len(list(pathlib.Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def memory(self):
        """Resident bytes."""
        text = pathlib.Path(f"/proc/{self.process.pid}/statm").read_text()
        return int(text.split()[1]) * 4096

    def end(self):
        """Ends it as a service manager does; its exit code."""
        if self.process.poll() is None:
            self.process.terminate()
        code = self.process.wait(timeout=60)
        self.reader.join(timeout=10)
        return code
