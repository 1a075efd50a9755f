"""TLS, and what a service manager and the server tell each other."""

import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import time
import warnings

import pytest

from service import BIN


CURVE = "ec", "-pkeyopt", "ec_paramgen_curve:P-256"


def make(folder, name, kind=CURVE):
    """A key and a certificate that it signed itself."""
    files = folder / f"{name}.crt", folder / f"{name}.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", *kind, "-nodes",
                    "-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-out", files[0], "-keyout", files[1]], check=True, capture_output=True)
    return files


def ask(service, trusted, path="/health", **context_options):
    context = ssl.create_default_context(cafile=str(trusted))
    for name, value in context_options.items():
        setattr(context, name, value)
    connection = http.client.HTTPSConnection("127.0.0.1", service.port, timeout=10, context=context)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_tls(begin_module, tmp_path):
    certificate, key = make(tmp_path, "first")
    service = begin_module("--tls-cert", certificate, "--tls-key", key, "-t", "1")
    assert b"https://127.0.0.1" in service.said
    assert ask(service, certificate) == (200, b'{"status":"ok"}')
    # A stream ends with the connection: nothing of it may be lost.
    context = ssl.create_default_context(cafile=str(certificate))
    body = b'{"prompt": "Once", "max_tokens": 20, "stream": true}'
    with context.wrap_socket(socket.create_connection(("127.0.0.1", service.port)),
                             server_hostname="127.0.0.1") as stream:
        stream.sendall(b"POST /v1/completions HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" %
                       len(body) + body)
        got = b""
        while part := stream.recv(65536):
            got += part
    assert got.endswith(b"data: [DONE]\n\n")
    # A client that is refused while it sends gets to read why.
    for _ in range(5):
        with context.wrap_socket(socket.create_connection(("127.0.0.1", service.port), timeout=20),
                                 server_hostname="127.0.0.1") as stream:
            stream.sendall(b"POST /tokenize HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 40000000\r\n\r\n")
            for _ in range(20):
                stream.sendall(b" " * 50_000)
            assert stream.recv(65536).startswith(b"HTTP/1.1 413")
    # Neither plain HTTP nor older versions get an answer, and the server goes on.
    assert service.raw(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")[:4] != b"HTTP"
    with pytest.raises((ssl.SSLError, OSError)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            ask(service, certificate, maximum_version=ssl.TLSVersion.TLSv1_1)
    assert ask(service, certificate)[0] == 200
    # After SIGHUP new connections get the new certificate; a broken one changes nothing.
    other, other_key = make(tmp_path, "second")
    other.replace(certificate)
    other_key.replace(key)
    service.process.send_signal(signal.SIGHUP)
    end = time.monotonic() + 10
    while True:
        try:
            assert ask(service, certificate)[0] == 200
            break
        except ssl.SSLError:
            assert time.monotonic() < end
    good = certificate.read_bytes()
    certificate.write_text("no certificate")
    service.process.send_signal(signal.SIGHUP)
    while b"expected a certificate" not in service.said:
        assert time.monotonic() < end
        time.sleep(0.02)
    certificate.write_bytes(good)
    assert ask(service, certificate)[0] == 200


def test_files_of_tls_that_are_wrong(tmp_path):
    def refused(*arguments):
        done = subprocess.run([BIN, "serve", "--port", "0", *map(str, arguments)], capture_output=True,
                              text=True, timeout=60)
        assert done.returncode != 0
        return done.stderr
    certificate, key = make(tmp_path, "one")
    _, stranger = make(tmp_path, "two")
    assert "both or neither" in refused("--tls-cert", certificate)
    assert f"{stranger}: expected the private key" in refused("--tls-cert", certificate, "--tls-key", stranger)
    # Keys of two kinds do not shut each other out in OpenSSL.
    _, other_kind = make(tmp_path, "three", ("rsa:2048",))
    assert f"{other_kind}: expected the private key" in refused("--tls-cert", certificate, "--tls-key", other_kind)
    absent = tmp_path / "absent"
    assert f"{absent}: cannot open the file: No such file" in refused("--tls-cert", absent, "--tls-key", key)
    assert f"{absent}: cannot open the file: No such file" in refused("--tls-cert", certificate, "--tls-key", absent)
    assert f"{key}: expected a certificate" in refused("--tls-cert", key, "--tls-key", key)
    # It asks nobody for a passphrase.
    locked = tmp_path / "locked.key"
    subprocess.run(["openssl", "pkey", "-in", key, "-aes256", "-passout", "pass:secret", "-out", locked], check=True)
    assert f"{locked}: the key is encrypted" in refused("--tls-cert", certificate, "--tls-key", locked)
    # It takes no place of keys.
    assert "--api-key-file" in refused("--tls-cert", certificate, "--tls-key", key, "--host", "0.0.0.0")


def test_a_service_manager(tmp_path):
    """sd_notify and socket activation, as systemd does them."""
    told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    told.bind(str(tmp_path / "notify"))
    told.settimeout(30)
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]

    def hand_over():
        os.dup2(listening.fileno(), 3)
        os.environ["LISTEN_PID"] = str(os.getpid())
        os.environ["LISTEN_FDS"] = "1"
        os.environ["NOTIFY_SOCKET"] = str(tmp_path / "notify")
        os.execv(BIN, [BIN, "serve", "-t", "1", "-q", "--no-api-key"])
    pid = os.fork()
    if pid == 0:
        try:
            hand_over()
        finally:
            os._exit(1)
    assert told.recv(100) == b"READY=1"
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", "/health")
    health = connection.getresponse()
    assert (health.status, health.read()) == (200, b'{"status":"ok"}')
    streamed = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    streamed.request("POST", "/v1/completions", json.dumps(
        {"prompt": "Once", "max_tokens": 900, "n": 16, "ignore_eos": True, "stream": True}))
    answer = streamed.getresponse()
    os.kill(pid, signal.SIGTERM)
    assert told.recv(100) == b"STOPPING=1"
    # While it ends, connections wait for the next server that gets the socket.
    end = time.monotonic() + 20
    while True:
        connection.request("GET", "/health/ready")
        ready = connection.getresponse()
        ready.read()
        if ready.status == 503:
            break
        assert time.monotonic() < end
    with socket.create_connection(("127.0.0.1", port), timeout=10):
        listening.settimeout(10)
        listening.accept()[0].close()
    assert answer.read().endswith(b"data: [DONE]\n\n")
    listening.close()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    told.close()
