"""What an installation brings: places, the unit, the configuration, the package.

    python3 deploy_test.py PATH_TO_QUIRE BUILD_DIRECTORY [unittest arguments]
"""

import http.client
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

QUIRE = pathlib.Path(sys.argv[1]).resolve()
BUILD = pathlib.Path(sys.argv[2]).resolve()
ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
MODEL = ROOT / "tests" / "golden" / "models" / "tiny-llama.gguf"
# Of 10; lower is better.
MAX_EXPOSURE = 2.0


def run(*command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=240, **options)


def flags_of(verb):
    return set(re.findall(r"--[a-z][a-z0-9-]*", run(QUIRE, verb, "--help").stdout))


class ScratchTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.scratch = pathlib.Path(folder.name)

    def install(self, prefix):
        result = run("cmake", "--install", BUILD, "--prefix", prefix,
                     env=dict(os.environ, DESTDIR=str(self.scratch)))
        self.assertEqual(result.returncode, 0, result.stderr)
        return self.scratch / prefix.lstrip("/")

    def serve(self, quire, *arguments, **options):
        """Runs `quire serve` until it tells its URL; (host, port) of that."""
        environment = dict(os.environ, QUIRE_CACHE=str(self.scratch / "cache"))
        server = subprocess.Popen([str(quire), "serve", *map(str, arguments)], env=environment,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  **options)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.stderr.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        line = server.stdout.readline()
        found = re.search(r"http://([0-9.]+):(\d+)", line)
        if not found:
            server.kill()
            self.fail(f"no URL: {line!r} {server.stderr.read()!r}")
        return server, found[1], int(found[2])


class InstallTest(ScratchTest):
    def test_everything_lies_under_the_prefix(self):
        prefix = self.install("/opt/quire")
        files = {path.relative_to(self.scratch).as_posix()
                 for path in self.scratch.rglob("*") if path.is_file()}
        self.assertEqual([name for name in files if not name.startswith("opt/quire/")], [])
        for name in ("bin/quire", "etc/quire/serve.toml", "lib/systemd/system/quire.service",
                     "share/man/man1/quire.1", "share/doc/quire/copyright",
                     "share/doc/quire/examples/grafana/quire.json",
                     "share/doc/quire/examples/prometheus/alerts.yml"):
            self.assertTrue((prefix / name).is_file(), name)
        unit = (prefix / "lib/systemd/system/quire.service").read_text()
        self.assertIn("ExecStart=/opt/quire/bin/quire serve --config "
                      "/opt/quire/etc/quire/serve.toml\n", unit)

    def test_under_usr_files_lie_where_debian_has_them(self):
        self.install("/usr")
        for name in ("usr/bin/quire", "etc/quire/serve.toml", "lib/systemd/system/quire.service"):
            self.assertTrue((self.scratch / name).is_file(), name)
        self.assertEqual((self.scratch / "etc/quire/serve.toml").read_text(),
                         (DEPLOY / "serve.toml").read_text())

    def test_an_administrators_configuration_stays(self):
        prefix = self.install("/opt/quire")
        (prefix / "etc/quire/serve.toml").write_text("port = 1\n")
        self.install("/opt/quire")
        self.assertEqual((prefix / "etc/quire/serve.toml").read_text(), "port = 1\n")

    def test_what_is_installed_runs(self):
        quire = self.install("/opt/quire") / "bin/quire"
        result = run(quire, "--version")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"^quire \d+\.\d+\.\d+\n$")

    def test_the_installed_configuration_serves_a_model(self):
        prefix = self.install("/opt/quire")
        config = prefix / "etc/quire/serve.toml"
        text = config.read_text().replace("port = 8080", "port = 0")
        config.write_text(f'model = "{MODEL}"\n' + text)
        server, host, port = self.serve(prefix / "bin/quire", "--config", config)
        connection = http.client.HTTPConnection(host, port, timeout=30)
        self.addCleanup(connection.close)
        connection.request("GET", "/health")
        self.assertEqual(connection.getresponse().status, 200)
        server.send_signal(signal.SIGTERM)
        self.assertEqual(server.wait(30), 0)


class ConfigurationTest(unittest.TestCase):
    def test_every_key_is_a_flag(self):
        flags = flags_of("serve")
        keys = re.findall(r"^(?:# )?([a-z-]+) = ", (DEPLOY / "serve.toml").read_text(), re.MULTILINE)
        self.assertGreater(len(keys), 8)
        for key in keys:
            if key != "model":
                self.assertIn("--" + key, flags)

    def test_the_manual_page_names_every_verb(self):
        listed = run(QUIRE, "--help").stdout.split("Subcommands:")[1]
        verbs = re.findall(r"^  ([a-z]+) ", listed, re.MULTILINE)
        self.assertIn("serve", verbs)
        page = (DEPLOY / "quire.1").read_text().split(".SH VERBS")[1].split(".SH EXIT")[0]
        self.assertEqual(sorted(re.findall(r"^\.B ([a-z]+)$", page, re.MULTILINE)), sorted(verbs))

    @unittest.skipUnless(shutil.which("man"), "man is not installed")
    def test_the_manual_page_is_well_formed(self):
        result = run("man", "--warnings", "-l", DEPLOY / "quire.1",
                     env=dict(os.environ, LC_ALL="C.UTF-8", MANROFFSEQ="", MANWIDTH="100"))
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("smollm2-135m-instruct", result.stdout)


@unittest.skipUnless(shutil.which("systemd-analyze"), "systemd-analyze is not installed")
class UnitTest(ScratchTest):
    def unit(self):
        """The unit with the program that was built: verify looks whether it is there."""
        path = self.scratch / "quire.service"
        path.write_text((DEPLOY / "quire.service").read_text().replace("/usr/bin/quire", str(QUIRE)))
        return path

    def test_systemd_finds_nothing_wrong(self):
        result = run("systemd-analyze", "verify", "--man=no", self.unit())
        # It warns of other units of the machine too.
        ours = [line for line in result.stderr.splitlines() if "quire" in line]
        self.assertEqual((result.returncode, ours), (0, []))

    def test_systemd_would_notice_a_wrong_setting(self):
        path = self.unit()
        path.write_text(path.read_text().replace("ProtectHome=yes", "ProtectHomes=yes"))
        self.assertIn("ProtectHomes", run("systemd-analyze", "verify", "--man=no", path).stderr)

    def test_little_is_exposed(self):
        result = run("systemd-analyze", "security", "--offline=true", "--no-pager", self.unit())
        level = re.search(r"Overall exposure level.*?: ([0-9.]+)", result.stdout)
        self.assertIsNotNone(level, result.stdout + result.stderr)
        self.assertLessEqual(float(level[1]), MAX_EXPOSURE)

    def test_there_is_time_to_drain(self):
        help_text = run(QUIRE, "serve", "--help").stdout
        drain = float(re.search(r"--drain-timeout .*=(\d+)$", help_text, re.MULTILINE)[1])
        stop = float(re.search(r"TimeoutStopSec=(\d+)", self.unit().read_text())[1])
        self.assertGreaterEqual(stop, drain + 5)


# prctl(2): PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, since Linux 6.3. What the unit's
# MemoryDenyWriteExecute asks of a program; it holds across exec.
REFUSE_EXECUTABLE_MEMORY = """
import ctypes, os, sys
if ctypes.CDLL(None).prctl(65, 1, 0, 0, 0) != 0:
    sys.exit(77)
os.execv(sys.argv[1], sys.argv[1:])
"""


class HardeningTest(unittest.TestCase):
    def test_a_model_runs_without_executable_memory_and_answers_the_same(self):
        with tempfile.TemporaryDirectory() as cache:
            command = [QUIRE, "run", MODEL, "--raw", "-p", "hello world", "--temp", "0", "-n", "8"]
            environment = dict(os.environ, QUIRE_CACHE=cache)
            expected = run(*command, env=environment)
            result = run(sys.executable, "-c", REFUSE_EXECUTABLE_MEMORY, *command, env=environment)
        if result.returncode == 77:
            self.skipTest("the kernel knows no PR_SET_MDWE")
        self.assertEqual(expected.returncode, 0, expected.stderr)
        self.assertEqual((result.returncode, result.stdout), (0, expected.stdout), result.stderr)


@unittest.skipUnless(shutil.which("dpkg-shlibdeps"), "dpkg-dev is not installed")
class PackageTest(ScratchTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        result = run(ROOT / "scripts" / "package.sh", BUILD, cls.folder.name)
        if result.returncode != 0:
            raise AssertionError(result.stdout + result.stderr)
        cls.package = pathlib.Path(result.stdout.strip())

    def field(self, name):
        return run("dpkg-deb", "--field", self.package, name).stdout.strip()

    def test_it_says_what_it_is_and_needs(self):
        self.assertEqual(self.field("Package"), "quire")
        self.assertEqual("quire " + self.field("Version"), run(QUIRE, "--version").stdout.strip())
        depends = self.field("Depends")
        self.assertRegex(depends, r"\blibc6 \(>= ")
        # What the program is linked with, and nothing else.
        needed = re.findall(r"NEEDED +(\S+)", run("objdump", "-p", QUIRE).stdout)
        owners = set()
        for library in needed:
            paths = run("dpkg-query", "-S", f"*/{library}").stdout.splitlines()
            owners |= {line.split(":")[0] for line in paths}
        provided = run("dpkg-query", "-W", "-f", "${Provides}\n", *owners).stdout
        owners |= set(re.findall(r"[a-z0-9][a-z0-9+.-]+", provided))
        self.assertEqual({entry.split(" ")[0] for entry in depends.split(", ")} - owners, set())

    def test_its_files_are_roots_and_in_place(self):
        files = {}
        for line in run("dpkg-deb", "--contents", self.package).stdout.splitlines():
            mode, owner, _, _, _, path = line.split(None, 5)
            files[path] = mode
            self.assertEqual(owner, "root/root", path)
            self.assertNotIn("w", mode[4:], path)
        for path in ("./usr/bin/quire", "./etc/quire/serve.toml", "./lib/systemd/system/quire.service",
                     "./usr/share/man/man1/quire.1.gz", "./usr/share/doc/quire/copyright",
                     "./usr/share/doc/quire/changelog.gz"):
            self.assertIn(path, files)
        self.assertEqual(files["./usr/bin/quire"], "-rwxr-xr-x")

    def test_the_configuration_is_the_administrators(self):
        control = self.scratch / "control"
        run("dpkg-deb", "--control", self.package, control)
        self.assertEqual((control / "conffiles").read_text(), "/etc/quire/serve.toml\n")
        for script in ("postinst", "prerm", "postrm"):
            self.assertEqual(run("sh", "-n", control / script).returncode, 0, script)
            self.assertTrue(os.access(control / script, os.X_OK), script)

    def test_its_sums_are_right_and_its_program_stripped(self):
        root = self.scratch / "root"
        run("dpkg-deb", "--raw-extract", self.package, root)
        result = run("md5sum", "--check", "--quiet", "DEBIAN/md5sums", cwd=root)
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertNotIn(".symtab", run("objdump", "-h", root / "usr/bin/quire").stdout)
        self.assertEqual(run(root / "usr/bin/quire", "--version").returncode, 0)

    def test_the_same_program_gives_the_same_package(self):
        again = run(ROOT / "scripts" / "package.sh", BUILD, self.scratch / "again")
        self.assertEqual(pathlib.Path(again.stdout.strip()).read_bytes(), self.package.read_bytes())

    def test_dpkg_installs_and_removes_it(self):
        """Into a root of its own; the scripts see no systemd there."""
        root = self.scratch / "root"
        (root / "var/lib/dpkg/updates").mkdir(parents=True)
        (root / "var/lib/dpkg/info").mkdir()
        (root / "var/lib/dpkg/status").touch()
        (root / "var/lib/dpkg/available").touch()
        dpkg = ["dpkg", f"--root={root}", "--force-depends", "--force-not-root",
                "--force-script-chrootless", f"--log={root}/log"]
        result = run(*dpkg, "--install", self.package)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(run(root / "usr/bin/quire", "--version").returncode, 0)
        self.assertEqual(run(*dpkg, "--remove", "quire").returncode, 0)
        self.assertFalse((root / "usr/bin/quire").exists())
        self.assertTrue((root / "etc/quire/serve.toml").exists())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
