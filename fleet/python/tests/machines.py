"""Machines that share nothing but a network: each has host name, address, processes and /tmp of its own."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PREFIX = "10.77.0"
# Where each machine has the Python of the tests and hugewise, as if they were installed there.
VENV, PROGRAM = "/mnt/venv", "/usr/local/bin/hugewise"
PATIENCE = 120

# Nothing of them outlives the tests, however these end.
_BOUND = ["setpriv", "--pdeathsig", "KILL"]
_NEW = [*_BOUND, "unshare", "--net", "--mount", "--uts", "--pid", "--ipc", "--fork", "--kill-child", "--mount-proc"]
# Mounts last, so that nothing of the machine that runs the tests is left in sight but what was installed.
_SET_UP = """set -e
hostname "$1"
mount -t tmpfs tmpfs /mnt
mkdir /mnt/venv /mnt/hosts
mount --bind "$2" /mnt/venv
mount --bind "$3" /mnt/hosts
mount --bind /mnt/hosts/hosts /etc/hosts
mount -t tmpfs tmpfs /usr/local/bin
if [ -n "$4" ]; then touch /usr/local/bin/hugewise; mount --bind "$4" /usr/local/bin/hugewise; fi
for hidden in /tmp /work /root /home /run /var/tmp; do mount -t tmpfs -o mode=1777 tmpfs "$hidden"; done
ip link set lo up
while ! ip link show eth0 >/dev/null 2>&1; do sleep 0.05; done
ip address add "$5/24" dev eth0
ip link set eth0 up
touch /run/is-up
exec sleep infinity
"""


class Machine:
    """One of them."""

    def __init__(self, network: Network, name: str, address: str, program: str) -> None:
        self.name, self.address = name, address
        self._started: list[subprocess.Popen[str]] = []
        command = [*_NEW, "sh", "-c", _SET_UP, "sh", name, sys.prefix, str(network.folder), program, address]
        self._outer = subprocess.Popen(command)
        self.init = network.first_of(self._outer)
        network.plug(self)
        network.until(lambda: (self.root / "run/is-up").exists(), f"{name} does not start")

    @property
    def root(self) -> Path:
        """Its files, as they are seen from outside."""
        return Path(f"/proc/{self.init}/root")

    def start(self, *command: str, **options: Any) -> subprocess.Popen[str]:
        """Starts a command on it; its variables are those given and PATH."""
        inside = ["nsenter", "--target", str(self.init), "--all", "--wd=/tmp"]
        given = {"PATH": f"{VENV}/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/root", "LANG": "C.UTF-8", **options.pop("variables", {})}
        self._started.append(subprocess.Popen([*inside, *command], env=given, text=True, **options))
        return self._started[-1]

    def kill(self) -> None:
        """The power fails: all of it is gone, and nobody is told."""
        try:
            os.kill(self.init, signal.SIGKILL)
        except ProcessLookupError:
            pass
        for each in (self._outer, *self._started):
            each.wait()


class Network:
    """A switch, and the machines that are plugged into it."""

    def __init__(self, program: str) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.folder = Path(self._folder.name)
        self.folder.chmod(0o755)
        (self.folder / "hosts").write_text("127.0.0.1 localhost\n")
        self._program = program
        self._numbers = itertools.count(10)
        self.machines: list[Machine] = []
        self._outer = subprocess.Popen([*_BOUND, "unshare", "--net", "--pid", "--fork", "--kill-child", "sleep", "infinity"])
        self._switch = self.first_of(self._outer)
        self._ip("link", "add", "br0", "type", "bridge")
        self._ip("link", "set", "br0", "up")

    def machine(self, name: str, has_hugewise: bool = True) -> Machine:
        address = f"{PREFIX}.{next(self._numbers)}"
        with (self.folder / "hosts").open("a") as hosts:
            hosts.write(f"{address} {name}\n")
        self.machines.append(Machine(self, name, address, self._program if has_hugewise else ""))
        return self.machines[-1]

    def plug(self, machine: Machine) -> None:
        port = f"to-{machine.name}"[:15]
        self._ip("link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", str(machine.init))
        self._ip("link", "set", port, "master", "br0", "up")

    def close(self) -> None:
        for machine in self.machines:
            machine.kill()
        os.kill(self._switch, signal.SIGKILL)
        self._outer.wait()
        self._folder.cleanup()

    def first_of(self, outer: subprocess.Popen[bytes]) -> int:
        """The first process of the namespaces that unshare has made."""
        children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children")
        self.until(lambda: children.read_text().split(), "unshare has started nothing")
        return int(children.read_text().split()[0])

    def until(self, happened: Any, otherwise: str) -> None:
        until = time.monotonic() + PATIENCE
        while not happened():
            if time.monotonic() > until:
                raise TimeoutError(otherwise)
            time.sleep(0.05)

    def _ip(self, *command: str) -> None:
        subprocess.run(["nsenter", "--target", str(self._switch), "--net", "ip", *command], check=True)
