"""What an enemy of the service has: bytes on a socket that no client would send, archives
that no tool would make, tokens that nobody signed."""
import base64
import contextlib
import hashlib
import hmac
import io
import json
import os
import pathlib
import re
import socket
import struct
import subprocess
import tarfile
import time
import zipfile

BASE = "/api/v1/sandbox"
STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) ")


# --- HTTP ---------------------------------------------------------------------------


def dial(server, seconds=5):
    return socket.create_connection(("127.0.0.1", server.port), timeout=seconds)


def listen(connection, seconds):
    """All that comes until the peer closes, or says nothing for a while."""
    connection.settimeout(seconds)
    heard = b""
    with contextlib.suppress(OSError):
        while piece := connection.recv(65536):
            heard += piece
    return heard


def say(server, text, seconds=1):
    """Sends bytes; what is answered."""
    with dial(server) as connection:
        connection.sendall(text if isinstance(text, bytes) else text.encode("latin-1"))
        return listen(connection, seconds)


def head(server, line, *fields, key=True):
    """The head of a request, with a Host and, unless told otherwise, the key."""
    lines = [f"{line} HTTP/1.1", f"Host: 127.0.0.1:{server.port}"]
    lines += [f"X-API-KEY: {server.key}"] if key else []
    return "\r\n".join([*lines, *fields, "", ""])


def statuses(heard):
    """Of every answer in there."""
    return [int(n) for n in STATUS.findall(heard)]


# --- processes ----------------------------------------------------------------------


def status_of(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def memory_of(pid):
    return int(status_of(pid)["VmRSS"].split()[0]) << 10


def growth_of(server, before):
    """How much memory it took since; a sanitizer has its own share of it."""
    is_sanitized = b"__asan_init" in pathlib.Path(server.belljar.path).read_bytes()
    return (memory_of(server.process.pid) - before) // (4 if is_sanitized else 1)


def keepers_of(server):
    return [pid for pid, line in server.processes().items() if line.startswith("belljar keeper")]


def files_with(top, *tokens):
    """Files below `top` that hold one of the tokens."""
    found = set()
    for where, _, names in os.walk(top):
        for path in (pathlib.Path(where) / name for name in names):
            with contextlib.suppress(OSError):
                content = path.read_bytes() if path.is_file() else b""
                if any(token.encode() in content for token in tokens):
                    found.add(str(path.relative_to(top)))
    return found


# --- archives -----------------------------------------------------------------------


def tar(*members):
    """Of (name, content), or (name, type, target)."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, *rest in members:
            info = tarfile.TarInfo(name)
            if len(rest) == 1:
                info.size = len(rest[0])
                archive.addfile(info, io.BytesIO(rest[0]))
                continue
            info.type, info.linkname = rest
            archive.addfile(info)
    return made.getvalue()


def zipped(*members):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return made.getvalue()


def form(*parts, boundary="frontier"):
    """A multipart body of (filename as it is written, content), and its type."""
    body = b"".join(
        b"--%s\r\nContent-Disposition: form-data; name=\"files\"; filename=\"%s\"\r\n\r\n%s\r\n"
        % (boundary.encode(), name, content) for name, content in parts)
    return body + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


# --- WebSockets ---------------------------------------------------------------------


class BareSocket:
    """A WebSocket that keeps to no rule but the handshake."""

    def __init__(self, server, run_id):
        self.connection = dial(server)
        key = base64.b64encode(os.urandom(16)).decode()
        self.connection.sendall(head(
            server, f"GET {BASE}/runs/{run_id}/stream", "Upgrade: websocket",
            "Connection: Upgrade", "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {key}").encode())
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self.connection.recv(1)
        assert statuses(answer) == [101], answer

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def send(self, opcode, payload=b"", final=True, masked=True, size=None):
        size = len(payload) if size is None else size
        mask = 0x80 if masked else 0
        if size < 126:
            length = struct.pack("!B", mask | size)
        elif size < 65536:
            length = struct.pack("!BH", mask | 126, size)
        else:
            length = struct.pack("!BQ", mask | 127, size)
        self.connection.sendall(bytes([(0x80 if final else 0) | opcode]) + length +
                                (bytes(4) if masked else b"") + payload)

    def _take(self, size):
        taken = b""
        while len(taken) < size:
            piece = self.connection.recv(size - len(taken))
            if not piece:
                raise ConnectionError("the socket just ended")
            taken += piece
        return taken

    def close_code(self, seconds=5):
        """The code of the close frame that comes."""
        self.connection.settimeout(seconds)
        while True:
            opcode, size = self._take(2)
            wide = {126: 2, 127: 8}.get(size, 0)
            if wide:
                size = int.from_bytes(self._take(wide), "big")
            payload = self._take(size)
            if opcode & 15 == 8:
                return int.from_bytes(payload[:2], "big")


# --- JSON Web Tokens ----------------------------------------------------------------


def plain64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unsigned(header, claims):
    return ".".join(plain64(json.dumps(part).encode()) for part in (header, claims))


class Issuer:
    """Somebody with a key pair for RS256, which openssl keeps."""

    def __init__(self, directory):
        self.private, self.public = directory / "issuer.key", directory / "issuer.pem"
        self._openssl("genrsa", "-out", self.private, "2048")
        self._openssl("rsa", "-in", self.private, "-pubout", "-out", self.public)
        self.public.chmod(0o644)

    @staticmethod
    def _openssl(*argv, **options):
        return subprocess.run(["openssl", *map(str, argv)], check=True, capture_output=True,
                              **options).stdout

    def claims(self, **changes):
        claims = {"sub": "ann", "aud": "box", "exp": int(time.time()) + 600, **changes}
        return {name: value for name, value in claims.items() if value is not None}

    def sign(self, header=None, digest="-sha256", **changes):
        text = unsigned({"alg": "RS256", "typ": "JWT", **(header or {})}, self.claims(**changes))
        signature = self._openssl("dgst", digest, "-sign", self.private, input=text.encode())
        return f"{text}.{plain64(signature)}"

    def by_secret(self, secret, **changes):
        """Signed as if `secret` were one that both share."""
        text = unsigned({"alg": "HS256", "typ": "JWT"}, self.claims(**changes))
        return f"{text}.{plain64(hmac.new(secret, text.encode(), hashlib.sha256).digest())}"
