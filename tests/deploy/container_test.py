"""Builds deploy/Containerfile from nothing but a Debian mirror, and serves a model in the result.

Where no registry is at hand, a base from debootstrap stands in for the image that FROM names, and the
instructions are carried out in a chroot: those that the file uses, and no others. The base is kept
beside the build for the next run. Needs root, debootstrap and dpkg-dev; exits 77 without them.

    python3 container_test.py BUILD_DIRECTORY [unittest arguments]
"""

import ctypes
import http.client
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = pathlib.Path(sys.argv[1]).resolve()
REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
MODEL = REPOSITORY / "tests" / "golden" / "models" / "tiny-llama.gguf"
MIRROR = os.environ.get("QUIRE_DEBIAN_MIRROR", "http://deb.debian.org/debian")
BASE = BUILD / "container" / "bookworm.tar"
CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x00020000, 0x4000, 0x40000


def check(*command, **options):
    result = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, timeout=900, **options)
    if result.returncode != 0:
        raise AssertionError(f"{shlex.join(map(str, command))}: {result.stdout[-3000:]}")
    return result.stdout


def make_base():
    if BASE.exists():
        return
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        check("debootstrap", "--variant=minbase", "bookworm", folder + "/root", MIRROR)
        BASE.parent.mkdir(exist_ok=True)
        check("tar", "-C", folder + "/root", "-cf", str(BASE) + ".part", ".")
        os.rename(str(BASE) + ".part", BASE)


def instructions_of(text):
    """(name, argument) of each line; lines that end in a backslash go on."""
    text = re.sub(r"\\\n\s*", " ", text)
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            name, argument = line.split(None, 1)
            yield name, argument


class Image:
    """A root file system, and what a runtime would do with it."""

    def __init__(self, root, context):
        self.root, self.context = root, context
        self.environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
        self.user, self.folder = "root", "/"
        self.settings = {}

    def build(self, text):
        for name, argument in instructions_of(text):
            if name == "FROM":
                assert argument == "debian:12-slim", argument
                check("tar", "-C", self.root, "-xf", BASE)
                shutil.copy("/etc/resolv.conf", self.root / "etc/resolv.conf")
            elif name == "COPY":
                source, target = argument.split()
                found = list(self.context.glob(source))
                assert len(found) == 1, f"COPY {source}: {found}"
                shutil.copy(found[0], self.root / target.lstrip("/"))
            elif name == "RUN":
                check(*self.command(["/bin/sh", "-c", argument]), env=self.environment)
            elif name == "ENV":
                key, value = argument.split("=", 1)
                self.environment[key] = value
            elif name == "USER":
                self.user = argument
            elif name == "WORKDIR":
                self.folder = argument
            elif name in ("ENTRYPOINT", "CMD"):
                self.settings[name] = json.loads(argument)
            elif name == "HEALTHCHECK":
                self.settings[name] = re.search(r"CMD (.*)", argument)[1]
            elif name in ("EXPOSE", "STOPSIGNAL"):
                self.settings[name] = argument
            else:
                raise AssertionError(f"{name} is not among the instructions known here")

    def command(self, words):
        shell = f"cd {shlex.quote(self.folder)} && exec {shlex.join(words)}"
        return ["chroot", f"--userspec={self.user}", self.root, "/bin/sh", "-c", shell]

    def start(self, *arguments):
        words = self.settings["ENTRYPOINT"] + (list(arguments) or self.settings["CMD"])
        return subprocess.Popen([str(word) for word in self.command(words)], env=self.environment,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def health(self):
        return subprocess.run([str(word) for word in
                               self.command(["/bin/sh", "-c", self.settings["HEALTHCHECK"]])],
                              env=self.environment, capture_output=True, timeout=30).returncode


def is_free(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


class ContainerTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # What is mounted for the container goes with this process.
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(CLONE_NEWNS) != 0 or \
                libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None) != 0:
            raise AssertionError(os.strerror(ctypes.get_errno()))
        make_base()
        folder = tempfile.TemporaryDirectory(dir=BUILD)
        cls.addClassCleanup(folder.cleanup)
        context, root = pathlib.Path(folder.name) / "context", pathlib.Path(folder.name) / "root"
        root.mkdir()
        root.chmod(0o755)
        pathlib.Path(folder.name).chmod(0o755)
        check(REPOSITORY / "scripts" / "package.sh", BUILD, context)
        cls.image = Image(root, context)
        (root / "proc").mkdir()
        check("mount", "-t", "proc", "proc", root / "proc")
        cls.addClassCleanup(check, "umount", "--lazy", root / "proc")
        cls.image.build((REPOSITORY / "deploy" / "Containerfile").read_text())
        shutil.copy(MODEL, root / "model.gguf")

    def test_the_package_brings_all_that_the_program_needs(self):
        output = check(*self.image.command(["/usr/bin/quire", "--version"]))
        self.assertRegex(output, r"^quire \d")
        self.assertEqual(check("chroot", self.image.root, "dpkg", "--audit"), "")

    def test_it_runs_as_nobody_in_particular(self):
        self.assertEqual(check(*self.image.command(["/usr/bin/id", "-u"])).strip(), "10001")

    def test_without_a_model_it_tells_how_it_is_used(self):
        server = self.image.start()
        output, _ = server.communicate(timeout=60)
        self.assertEqual(server.returncode, 0)
        self.assertIn("--drain-timeout", output)

    @unittest.skipUnless(is_free(8080), "port 8080 of this machine is taken")
    def test_it_serves_is_healthy_and_drains(self):
        self.assertNotEqual(self.image.health(), 0)
        server = self.image.start("/model.gguf")
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.stderr.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        deadline = time.monotonic() + 60
        while self.image.health() != 0:
            self.assertIsNone(server.poll(), "it has ended")
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)
        port = int(self.image.settings["EXPOSE"])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.addCleanup(connection.close)
        body = {"prompt": "hello", "max_tokens": 4, "temperature": 0}
        connection.request("POST", "/v1/completions", json.dumps(body),
                           {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = json.loads(response.read())
        self.assertEqual((response.status, answer["usage"]["completion_tokens"]), (200, 4), answer)
        server.send_signal(getattr(signal, self.image.settings["STOPSIGNAL"]))
        self.assertEqual(server.wait(60), 0)


if __name__ == "__main__":
    missing = [name for name in ("debootstrap", "dpkg-shlibdeps") if not shutil.which(name)]
    if os.geteuid() != 0:
        missing.append("root")
    if missing:
        print("not run; needs", ", ".join(missing))
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
