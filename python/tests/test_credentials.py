"""Which credentials requests to S3 are signed with: the servers here check each signature by botocore."""

from __future__ import annotations

import contextlib
import datetime
import http.server
import json
import os
import re
import ssl
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import botocore.auth
import botocore.awsrequest
import botocore.credentials
import numpy as np
import pytest
from conftest import Make

import forebay

Program = Callable[..., subprocess.CompletedProcess[str]]

# Opens the buckets that are given, and prints a value and how long that took.
READ = """
    import sys, time, forebay
    for bucket in sys.argv[1:]:
        began = time.monotonic()
        print(int(forebay.open(f"s3://{bucket}/a.h5", ["x"])[3]["x"]), time.monotonic() - began)
"""


def is_signed_with(handler: http.server.BaseHTTPRequestHandler, key: str, secret: str, service: str, body: bytes = b"") -> bool:
    """Whether the request was signed with this key and no other."""
    said = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=(\S+?)/\d+/(\S+?)/(\S+?)/aws4_request, SignedHeaders=(\S+), Signature=(\w+)",
                        handler.headers.get("Authorization", ""))
    if said is None or said[1] != key or said[3] != service:
        return False
    kind = botocore.auth.S3SigV4Auth if service == "s3" else botocore.auth.SigV4Auth
    signer = kind(botocore.credentials.Credentials(key, secret), service, said[2])
    headers = {name: handler.headers[name] for name in said[4].split(";")}
    url = f"http://{handler.headers['Host']}{handler.path}"
    request = botocore.awsrequest.AWSRequest(handler.command, url, data=body, headers=headers)
    request.context["timestamp"] = handler.headers["x-amz-date"]
    return bool(signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request) == said[5])


class Server(http.server.BaseHTTPRequestHandler):
    """What the servers of these tests have in common."""

    protocol_version = "HTTP/1.1"

    def answer(self, status: int, body: bytes | str, **headers: str) -> None:
        body = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *arguments: Any) -> None:
        pass


class Bucket(Server):
    """One object in every bucket, for requests signed with one of ``keys``: key to secret and session token; None is unsigned."""

    body = b""
    keys: dict[str | None, tuple[str, str | None]] = {}
    seen: list[dict[str, str]] = []
    state = {"ETag": '"1"', "Last-Modified": "Sat, 14 Nov 2020 10:00:00 GMT"}

    def do_GET(self) -> None:
        said = re.search(r"Credential=([^/]+)/", self.headers.get("Authorization", ""))
        key = said[1] if said else None
        self.seen.append({"key": str(key), **{name.lower(): value for name, value in self.headers.items()}})
        secret, token = self.keys.get(key, ("", None))
        is_right = key in self.keys and (key is None or is_signed_with(self, key, secret, "s3"))
        if not is_right or self.headers.get("x-amz-security-token") != token:
            self.answer(403, b"")
            return
        asked = self.headers.get("Range")
        if asked is None:
            self.answer(200, self.body, **self.state)
            return
        first, last = map(int, asked.removeprefix("bytes=").split("-"))
        self.answer(206, self.body[first : last + 1], Content_Range=f"bytes {first}-{last}/{len(self.body)}", **self.state)

    do_HEAD = do_GET


@contextlib.contextmanager
def serving(handler: Any, certificate: Path | None = None) -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http{'s' if certificate else ''}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Place:
    """A user's folder, and a server of buckets that the environment leads to."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch, handler: type[Bucket]) -> None:
        self.home, self.monkeypatch, self.handler = home, monkeypatch, handler

    def write(self, name: str, text: str) -> Path:
        path = self.home / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    def set(self, **variables: object) -> None:
        for name, value in variables.items():
            self.monkeypatch.setenv(name, str(value))

    def lets_in(self, key: str | None, secret: str = "", token: str | None = None) -> None:
        self.handler.keys[key] = (secret, token)

    def read(self) -> int:
        return int(forebay.open("s3://bucket/a.h5", ["x"])[3]["x"])

    def refusal(self) -> str:
        with pytest.raises(forebay.ForebayError) as refused:
            self.read()
        return str(refused.value)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Make) -> Iterator[Place]:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)

    class Handler(Bucket):
        body = make(x=np.arange(9)).read_bytes()
        keys: dict[str | None, tuple[str, str | None]] = {}
        seen: list[dict[str, str]] = []

    home = tmp_path / "home"
    home.mkdir()
    with serving(Handler) as url:
        place = Place(home, monkeypatch, Handler)
        # Nobody's machine answers but where a test lets it.
        place.set(HOME=home, AWS_ENDPOINT_URL=url, AWS_EC2_METADATA_DISABLED="true")
        yield place


def test_keys_of_the_default_profile_are_used_without_a_variable(place: Place) -> None:
    place.write(".aws/credentials", """
        [default]
        aws_access_key_id = AKHOME
        aws_secret_access_key = se/cr+et
        [other]
        aws_access_key_id = AKOTHER
        aws_secret_access_key = other
        aws_session_token = to/ken==
    """)
    place.lets_in("AKHOME", "se/cr+et")
    assert place.read() == 3
    place.lets_in("AKOTHER", "other", "to/ken==")
    del place.handler.keys["AKHOME"]
    place.set(AWS_PROFILE="other")
    assert place.read() == 3
    # Keys of the environment come first.
    place.set(AWS_ACCESS_KEY_ID="AKENV", AWS_SECRET_ACCESS_KEY="env")
    del place.handler.keys["AKOTHER"]
    place.lets_in("AKENV", "env")
    assert place.read() == 3


def test_files_that_variables_name_are_read_and_endpoint_and_region_come_from_them(place: Place) -> None:
    url = os.environ["AWS_ENDPOINT_URL"]
    place.monkeypatch.delenv("AWS_ENDPOINT_URL")
    config = place.write("config", f"""
        [profile near]
        region = eu-north-1
        endpoint_url = {url}
        source_profile = keys
    """)
    credentials = place.write("credentials", "[keys]\naws_access_key_id = AK\naws_secret_access_key = s\n")
    place.set(AWS_CONFIG_FILE="~/config", AWS_SHARED_CREDENTIALS_FILE=credentials, AWS_PROFILE="near")
    place.lets_in("AK", "s")
    assert config.exists() and place.read() == 3
    assert "/eu-north-1/s3/" in place.handler.seen[-1]["authorization"]
    place.set(AWS_REGION="us-west-2")
    assert place.read() == 3
    assert "/us-west-2/s3/" in place.handler.seen[-1]["authorization"]


def test_a_profile_that_is_not_there_or_cannot_be_used_is_refused_with_a_remedy(place: Place) -> None:
    place.set(AWS_PROFILE="lab")
    assert "there is no AWS profile 'lab'" in place.refusal()
    place.write(".aws/config", "[profile lab]\nsso_session = x\nsso_account_id = 1\n")
    assert "credential_process = aws configure export-credentials --profile lab" in place.refusal()
    place.write(".aws/config", "[profile lab]\nrole_arn = arn:x\nsource_profile = lab\n")
    assert "AWS profile 'lab'" in place.refusal()
    place.write(".aws/config", "[profile lab]\naws_access_key_id = AK\naws_secret_access_key = two words\n")
    assert "the secret access key" in place.refusal() and "two words" not in place.refusal()
    place.set(AWS_SKIP_SIGNATURE="true")
    place.lets_in(None)
    assert place.read() == 3, "nobody needs credentials for a public bucket"


def test_variables_with_a_line_break_are_refused_by_name(place: Place) -> None:
    place.set(AWS_ACCESS_KEY_ID="AK", AWS_SECRET_ACCESS_KEY="hidden", AWS_SESSION_TOKEN="hidden\n")
    assert "AWS_SESSION_TOKEN" in place.refusal() and "hidden" not in place.refusal()
    place.set(AWS_SESSION_TOKEN="", AWS_REGION="us-east-1\n")
    assert "AWS_REGION" in place.refusal()
    place.monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    place.set(AWS_REGION="us-east-1")
    assert "AWS_SECRET_ACCESS_KEY" in place.refusal()


def process(place: Place, source: str) -> Path:
    """A profile whose credentials the program ``source`` prints."""
    script = place.write("print.py", source)
    place.write(".aws/config", f'[default]\ncredential_process = "{sys.executable}" \'{script}\' --for "a b"\n')
    return script


def test_a_process_prints_credentials_and_is_run_again_before_they_expire(place: Place, program: Program) -> None:
    runs = place.home / "runs"
    process(place, f"""
        import datetime, json, pathlib, sys
        assert sys.argv[1:] == ["--for", "a b"]
        runs = pathlib.Path({str(runs)!r})
        number = len(runs.read_text()) if runs.exists() else 0
        runs.write_text("x" * (number + 1))
        ends = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=[4, 3600][number])
        print(json.dumps({{"Version": 1, "AccessKeyId": f"AK{{number}}", "SecretAccessKey": "s", "SessionToken": "t",
                          "Expiration": ends.isoformat()}}))
    """)
    for number in range(2):
        place.lets_in(f"AK{number}", "s", "t")
    program("""
        import time, forebay
        ends = time.monotonic() + 4.5
        while time.monotonic() < ends:
            assert int(forebay.open("s3://bucket/a.h5", ["x"])[3]["x"]) == 3
    """)
    used = [seen["key"] for seen in place.handler.seen]
    assert used == sorted(used) and set(used) == {"AK0", "AK1"}
    assert runs.read_text() == "xx", "once for all sets that are opened, and once more"


def test_a_process_that_fails_is_named_and_nothing_it_printed_is(place: Place) -> None:
    process(place, "print('hidden'); raise SystemExit(3)")
    assert "credential_process of AWS profile 'default': failed" in place.refusal() and "hidden" not in place.refusal()
    process(place, "print('hidden')")
    assert "what it printed is not understood" in place.refusal() and "hidden" not in place.refusal()
    process(place, "import os\nwhile True: os.write(1, b'hidden' * 9999)")
    assert "printed more than" in place.refusal() and "hidden" not in place.refusal()
    process(place, """print('{"Version":1,"AccessKeyId":"hidden","SecretAccessKey":"s","Expiration":"2020-01-01T00:00:00Z"}')""")
    assert "expired already" in place.refusal() and "hidden" not in place.refusal()
    place.write(".aws/config", "[default]\ncredential_process = /no/such/tool --secret hidden\n")
    assert "/no/such/tool" in place.refusal() and "hidden" not in place.refusal()


class Tokens(Server):
    """STS: a role for requests that are signed with a key of ``sources``, or have a token of ``tokens``."""

    sources: dict[str, str] = {}
    tokens: set[str] = set()
    asked: list[dict[str, list[str]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        asked = parse_qs(body.decode() or urlsplit(self.path).query)
        self.asked.append(asked)
        by_key = any(is_signed_with(self, key, secret, "sts", body) for key, secret in self.sources.items())
        by_token = asked.get("WebIdentityToken", [""])[0] in self.tokens
        action = asked["Action"][0]
        if not {"AssumeRole": by_key, "AssumeRoleWithWebIdentity": by_token}[action]:
            self.answer(403, "<ErrorResponse><Error><Code>AccessDenied</Code></Error></ErrorResponse>")
            return
        ends = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        key = "ASIA" + asked["RoleArn"][0].rpartition("/")[2]
        self.answer(200, f"<{action}Response><{action}Result><Credentials><AccessKeyId>{key}</AccessKeyId><SecretAccessKey>"
                         f"granted</SecretAccessKey><SessionToken>to/ken==</SessionToken><Expiration>{ends}</Expiration>"
                         f"</Credentials></{action}Result></{action}Response>")


@pytest.fixture
def tokens() -> type[Tokens]:
    class Handler(Tokens):
        sources: dict[str, str] = {}
        tokens: set[str] = set()
        asked: list[dict[str, list[str]]] = []

    return Handler


def test_a_role_is_taken_by_the_keys_of_its_source_profile_once(place: Place, tokens: type[Tokens]) -> None:
    place.write(".aws/credentials", "[base]\naws_access_key_id = AKBASE\naws_secret_access_key = base\n")
    place.write(".aws/config", """
        [profile first]
        role_arn = arn:aws:iam::1:role/first
        source_profile = base
        external_id = e+x
        [profile second]
        role_arn = arn:aws:iam::1:role/second
        role_session_name = mine
        source_profile = first
    """)
    tokens.sources = {"AKBASE": "base", "ASIAfirst": "granted"}
    place.lets_in("ASIAsecond", "granted", "to/ken==")
    with serving(tokens) as url:
        place.set(AWS_PROFILE="second", AWS_ENDPOINT_URL_STS=url)
        assert [place.read() for _ in range(3)] == [3, 3, 3]
        assert [asked["RoleSessionName"] for asked in tokens.asked] == [["forebay"], ["mine"]]
        assert tokens.asked[0]["ExternalId"] == ["e+x"] and "ExternalId" not in tokens.asked[1]
        tokens.sources = {}
        place.set(AWS_REGION="eu-west-1")
        assert re.search("AWS profile 'first': role arn:aws:iam::1:role/first.*not granted: 403, AccessDenied", place.refusal())


def test_a_web_identity_takes_its_role_without_another_variable(place: Place, tokens: type[Tokens], tmp_path: Path) -> None:
    certificate = tmp_path / "server.pem"
    subject = ["-subj", "/CN=127.0.0.1", "-days", "2", "-keyout", str(tmp_path / "key"), "-out", str(tmp_path / "cert")]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *subject]
    subprocess.run(command, check=True, capture_output=True)
    certificate.write_text((tmp_path / "key").read_text() + (tmp_path / "cert").read_text())
    token = place.write("token", "web-token")
    tokens.tokens = {"web-token"}
    place.lets_in("ASIApod", "granted", "to/ken==")
    with serving(tokens, certificate) as url:
        place.set(AWS_ENDPOINT_URL_STS=url, AWS_ALLOW_INVALID_CERTIFICATES="true")
        place.set(AWS_WEB_IDENTITY_TOKEN_FILE=token, AWS_ROLE_ARN="arn:aws:iam::1:role/pod")
        assert place.read() == 3
        # A profile says the same by its settings.
        for name in ("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"):
            place.monkeypatch.delenv(name)
        place.write(".aws/config", f"[default]\nrole_arn = arn:aws:iam::1:role/pod\nweb_identity_token_file = {token}\n")
        assert place.read() == 3
    place.set(AWS_WEB_IDENTITY_TOKEN_FILE=token)
    assert "AWS_ROLE_ARN" in place.refusal()


class Machine(Server):
    """The metadata of a machine with a role (version 2), and the credentials of a container."""

    asked: list[str] = []
    role: str | None = "worker"

    def do_PUT(self) -> None:
        self.asked.append(f"PUT {self.path}")
        self.answer(200, "session")

    def do_GET(self) -> None:
        self.asked.append(f"GET {self.path}")
        ends = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=6)).strftime("%Y-%m-%dT%H:%M:%SZ")
        keys = {"AccessKeyId": "ASIAMACHINE", "SecretAccessKey": "machine", "Token": "t", "Expiration": ends}
        role = "/latest/meta-data/iam/security-credentials/"
        if self.path == "/container" and self.headers.get("Authorization") == "pod-token":
            self.answer(200, json.dumps({**keys, "AccessKeyId": "ASIAPOD"}))
        elif self.headers.get("X-aws-ec2-metadata-token") != "session":
            self.answer(401, "")
        elif self.role and self.path == role:
            self.answer(200, self.role)
        elif self.role and self.path == role + self.role:
            self.answer(200, json.dumps(keys))
        else:
            self.answer(404, "")


@pytest.fixture
def machine() -> type[Machine]:
    class Handler(Machine):
        asked: list[str] = []

    return Handler


def test_a_machines_own_role_is_used_without_a_variable(place: Place, machine: type[Machine], program: Program) -> None:
    place.lets_in("ASIAMACHINE", "machine", "t")
    with serving(machine) as url:
        place.set(AWS_EC2_METADATA_SERVICE_ENDPOINT=f"{url}/", AWS_EC2_METADATA_DISABLED="false")
        assert [line.split()[0] for line in program(READ, "one", "two").stdout.splitlines()] == ["3", "3"]
        asked = len(machine.asked)
        # Whoever has keys does not ask the machine.
        place.set(AWS_ACCESS_KEY_ID="AK", AWS_SECRET_ACCESS_KEY="s")
        place.lets_in("AK", "s")
        assert program(READ, "one").stdout.split()[0] == "3"
        assert len(machine.asked) == asked > 0


def test_a_container_has_its_own_role(place: Place, machine: type[Machine]) -> None:
    place.lets_in("ASIAPOD", "machine", "t")
    with serving(machine) as url:
        token = place.write("token", "pod-token")
        place.set(AWS_CONTAINER_CREDENTIALS_FULL_URI=f"{url}/container")
        assert "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE" in place.refusal()
        place.set(AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=token)
        assert place.read() == 3


def test_a_machine_without_a_role_reads_public_buckets(place: Place, machine: type[Machine], program: Program) -> None:
    place.lets_in(None)
    machine.role = None
    with serving(machine) as url:
        place.set(AWS_EC2_METADATA_SERVICE_ENDPOINT=url, AWS_EC2_METADATA_DISABLED="false")
        assert len(program(READ, "one", "two").stdout.splitlines()) == 2
        assert len(machine.asked) == 2, "the token, and the name of a role: asked once"


def test_where_no_machine_answers_a_public_bucket_is_opened_soon_and_the_next_at_once(place: Place, program: Program) -> None:
    class Silent(http.server.BaseHTTPRequestHandler):
        asked = 0

        def do_PUT(self) -> None:
            Silent.asked += 1
            time.sleep(20)

    place.lets_in(None)
    with serving(Silent) as url:
        place.set(AWS_EC2_METADATA_SERVICE_ENDPOINT=url, AWS_EC2_METADATA_DISABLED="false")
        first, *more = [float(line.split()[1]) for line in program(READ, "one", "two", "three").stdout.splitlines()]
    assert Silent.asked == 1 and first < 8 and max(more) < 1


def test_the_requester_pays_where_he_says_so(place: Place) -> None:
    place.lets_in("AK", "s")
    place.set(AWS_ACCESS_KEY_ID="AK", AWS_SECRET_ACCESS_KEY="s")
    assert place.read() == 3
    assert all("x-amz-request-payer" not in seen for seen in place.handler.seen)
    place.handler.seen.clear()
    place.set(AWS_REQUEST_PAYER="requester")
    assert place.read() == 3
    assert {seen["x-amz-request-payer"] for seen in place.handler.seen} == {"requester"}
    assert "x-amz-request-payer" in place.handler.seen[0]["authorization"], "and it is signed"
