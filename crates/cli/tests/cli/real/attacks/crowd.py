"""Keeps so many connections open to a port, each of which does what the attack is; what is closed is opened anew."""
import base64
import resource
import selectors
import socket
import sys
import time

kind, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
number = 0


def ask(path, more=""):
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n".encode()


def size():
    global number
    number = number % 900000 + 1
    return ask(f"/api/v1/size?sessions={number}")


def password():
    global number
    number += 1
    encoded = base64.b64encode(f"scraper:{number}".encode()).decode()
    return ask("/metrics", f"Authorization: Basic {encoded}\r\n")


# What each says first.
FIRST = {
    "idle": lambda: b"",
    "slow": lambda: b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: ",
    "large": lambda: b"GET /" + b"x" * 15000,
    "hello": lambda: b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc\x03\x03" + bytes(12000),
    "keep": lambda: ask("/style.css"),
    "deaf": lambda: ask("/api/v1/openapi.json") * 40,
    "events": lambda: ask("/api/v1/events"),
    "sizes": size,
    "pipeline": lambda: ask("/metrics") * 20,
    "passwords": password,
    "same": lambda: ask("/metrics", "Authorization: Basic c2NyYXBlcjp3cm9uZw==\r\n"),
    "churn": lambda: b"",
}
# Those who ask again when they are answered, and those who say a little more now and then.
ASKS, DRIPS = {"sizes", "pipeline", "passwords", "same"}, {"slow": b"x", "large": b"x", "keep": ask("/style.css")}
watch, connections = selectors.DefaultSelector(), set()


def begin():
    one = socket.socket()
    one.setblocking(False)
    if kind == "deaf":
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    one.connect_ex(("127.0.0.1", port))
    watch.register(one, selectors.EVENT_WRITE)
    connections.add(one)


def end(one):
    if one in watch.get_map():
        watch.unregister(one)
    connections.discard(one)
    one.close()


def happens(one, events):
    if events & selectors.EVENT_WRITE:
        if one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) or kind == "churn":
            return end(one)
        one.send(FIRST[kind]())
        if kind == "deaf":
            watch.unregister(one)
        else:
            watch.modify(one, selectors.EVENT_READ)
    elif not one.recv(65536):
        end(one)
    elif kind in ASKS:
        one.send(FIRST[kind]())


def tried(one, what):
    try:
        what()
    except BlockingIOError:
        pass
    except OSError:
        end(one)


said, begun, last = False, time.monotonic(), time.monotonic()
while True:
    while len(connections) < count:
        begin()
    for key, events in watch.select(0.1):
        tried(key.fileobj, lambda: happens(key.fileobj, events))
    now = time.monotonic()
    if now - last > 2:
        last = now
        more = FIRST["deaf"]() if kind == "deaf" else DRIPS.get(kind)
        for one in list(connections) if more else []:
            tried(one, lambda: one.send(more))
    if not said and now - begun > 2:
        said = True
        print("ready", flush=True)
