"""moto as a store that speaks S3, behind a door that checks signatures with botocore and plays faults."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote

KEY, SECRET, REGION = "AKIDHUGEWISE", "a/secret+key", "eu-central-1"


class Store:
    """Two doors to the same buckets: `address` for hugewise, `client()` for the test."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
        from werkzeug.serving import WSGIRequestHandler, make_server

        class Quiet(WSGIRequestHandler):
            def log(self, *_: Any) -> None:
                pass

        self._app = DomainDispatcherApplication(create_backend_app)
        self._gone = threading.Event()
        # What is played at the next requests for a path, one after another: `busy`, `broken`, `silent`.
        self.faults: dict[str, list[str]] = {}
        self.asked: dict[str, int] = {}
        # Every so many requests one is refused, whoever asks; none where it is 0.
        self.busy_every = 0
        self._requests = 0
        doors = ((host, port, self._door), ("127.0.0.1", 0, self._app))
        self._servers = [make_server(*door, threaded=True, request_handler=Quiet) for door in doors]
        for server in self._servers:
            threading.Thread(target=server.serve_forever, daemon=True).start()
        self.address, self._bare = (f"http://127.0.0.1:{server.server_port}" for server in self._servers)

    def client(self) -> Any:
        import boto3

        return boto3.client("s3", endpoint_url=self._bare, aws_access_key_id="test", aws_secret_access_key="test", region_name=REGION)

    def close(self) -> None:
        self._gone.set()
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def _door(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        # A client whose body is not read takes the answer for a broken connection.
        environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)))
        self._requests += 1
        if self.busy_every and self._requests % self.busy_every == 0:
            return _refused(start, 503, "SlowDown")
        path = environ["RAW_URI"].split("?")[0]
        self.asked[path] = self.asked.get(path, 0) + 1
        played = self.faults.get(path, [])
        fault = played.pop(0) if played else ""
        if fault == "silent":
            # Longer than anybody waits.
            self._gone.wait(300)
            return _refused(start, 503, "SlowDown")
        if fault == "busy":
            return _refused(start, 503, "SlowDown")
        if wrong := _wrong(environ):
            return _refused(start, *wrong)
        answer = self._app(environ, start)
        if fault == "broken":
            body = b"".join(answer)
            return [body[: len(body) // 2]]
        return answer


def _refused(start: Any, status: int, code: str) -> list[bytes]:
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>no</Message></Error>".encode()
    start(f"{status} {code}", [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
    return [body]


def _wrong(environ: dict[str, Any]) -> tuple[int, str] | None:
    """What Amazon would answer to an address whose signature is not the one that botocore makes."""
    from botocore.auth import S3SigV4QueryAuth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    if authorization := environ.get("HTTP_AUTHORIZATION"):
        # Of another's client, whose signatures are its own concern.
        return None if f"Credential={KEY}/" in authorization else (403, "InvalidAccessKeyId")
    path, _, query = environ["RAW_URI"].partition("?")
    pairs = [part.partition("=")[::2] for part in query.split("&") if part]
    signed = {name: unquote(value) for name, value in pairs if name.startswith("X-Amz-")}
    rest = "&".join(f"{name}={value}" for name, value in pairs if not name.startswith("X-Amz-"))
    key, _, region, *_ = signed.get("X-Amz-Credential", "///").split("/")
    if key != KEY:
        return 403, "InvalidAccessKeyId"
    if region != REGION:
        return 400, "AuthorizationQueryParametersError"
    request = AWSRequest(environ["REQUEST_METHOD"], f"http://{environ['HTTP_HOST']}{path}?{rest}")
    request.context["timestamp"] = signed["X-Amz-Date"]
    auth = S3SigV4QueryAuth(Credentials(KEY, SECRET), "s3", REGION, int(signed["X-Amz-Expires"]))
    auth._modify_request_before_signing(request)
    signature = auth.signature(auth.string_to_sign(request, auth.canonical_request(request)), request)
    return None if signature == signed.get("X-Amz-Signature") else (403, "SignatureDoesNotMatch")
