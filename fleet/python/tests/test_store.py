"""hugewise with a store that speaks S3: what it signs, what it tries again, and what it says of keys that are wrong."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path
from urllib.parse import quote

import duckdb

from . import lake, store

HOST = Path(__file__).parents[3] / "fixtures/hosts/no-pool-postgresql"
# A page of names has a thousand.
MANY = 1005


@unittest.skipUnless(importlib.util.find_spec("moto") and os.environ.get("HUGEWISE_PROGRAM"), "moto or HUGEWISE_PROGRAM is missing")
class Bucket(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.store = store.Store()
        cls.addClassCleanup(cls.store.close)
        cls.client = cls.store.client()

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.bucket = self.id().rsplit(".", 1)[1].replace("_", "-")[:60].strip("-")
        self.client.create_bucket(Bucket=self.bucket, CreateBucketConfiguration={"LocationConstraint": store.REGION})

    def keys(self, key: str = store.KEY, secret: str = store.SECRET, region: str = store.REGION) -> list[str]:
        file = self.folder / "credentials"
        file.unlink(missing_ok=True)
        file.touch(0o600)
        file.write_text(
            f"[default]\naws_access_key_id = {key}\naws_secret_access_key = {secret}\nregion = {region}\nendpoint_url = {self.store.address}\n"
        )
        return ["--credentials", str(file)]

    def hugewise(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([os.environ["HUGEWISE_PROGRAM"], *arguments], capture_output=True, text=True, check=False)

    def captured(self, lake_: Path) -> list[str]:
        rows = duckdb.execute(f"SELECT capture FROM read_parquet('{lake_}/hosts/*/*/*.parquet') ORDER BY capture").fetchall()
        return [capture for (capture,) in rows]

    def test_a_capture_arrives_whole(self) -> None:
        written = self.folder / "written.tar.gz"
        self.assertEqual(self.hugewise("capture", "--root", str(HOST), "--output", str(written)).returncode, 0)
        sent = self.hugewise("capture", "--root", str(HOST), "--to", f"s3://{self.bucket}/prod", *self.keys())
        self.assertEqual(sent.returncode, 0, sent.stderr)
        [listed] = self.client.list_objects_v2(Bucket=self.bucket)["Contents"]
        self.assertRegex(listed["Key"], r"^prod/hugewise-.*\.tar\.gz$")
        arrived = self.client.get_object(Bucket=self.bucket, Key=listed["Key"])["Body"].read()
        self.assertEqual(arrived, written.read_bytes())

    def test_a_capture_is_sent_again_where_the_store_is_busy(self) -> None:
        # The name is of the host and the day: the first one tells it.
        self.hugewise("capture", "--root", str(HOST), "--to", f"s3://{self.bucket}", *self.keys())
        [listed] = self.client.list_objects_v2(Bucket=self.bucket)["Contents"]
        self.client.delete_object(Bucket=self.bucket, Key=listed["Key"])
        path = f"/{self.bucket}/{listed['Key']}"
        self.store.faults[path] = ["busy", "busy"]
        sent = self.hugewise("capture", "--root", str(HOST), "--to", f"s3://{self.bucket}", *self.keys())
        self.assertEqual((sent.returncode, self.store.asked[path]), (0, 4), sent.stderr)
        self.assertEqual(len(self.client.list_objects_v2(Bucket=self.bucket)["Contents"]), 1)

    def test_what_a_bucket_has_is_what_a_folder_has(self) -> None:
        folder = self.folder / "captures"
        folder.mkdir()
        odd = ["db 1.tar.gz", "db+2.tar.gz", "dbä%203.tar.gz", "db=4&x?.tar.gz", "~db'(5)!*.tar.gz"]
        for number in range(MANY):
            name = odd[number] if number < len(odd) else f"db{number:04}.tar.gz"
            content = lake.capture(f"db{number}")
            (folder / name).write_bytes(content)
            self.client.put_object(Bucket=self.bucket, Key=f"prod/{name}", Body=content)
        self.client.put_object(Bucket=self.bucket, Key="other/db.tar.gz", Body=lake.capture("other"))

        def path(name: str) -> str:
            return f"/{self.bucket}/prod/{quote(name)}"

        # The last one takes a minute, which is how long a store may say nothing.
        faults = {path("db0010.tar.gz"): ["busy", "busy"], path("db0011.tar.gz"): ["broken"], path("db0012.tar.gz"): ["silent"]}
        self.store.faults.update({f"/{self.bucket}/": ["busy"], **faults})
        near, far = self.folder / "near", self.folder / "far"
        self.hugewise("collect", str(folder), "--out", str(near))
        read = self.hugewise("collect", f"s3://{self.bucket}/prod/", "--out", str(far), "--format", "json", *self.keys())
        summary = json.loads(read.stdout)
        self.assertEqual((summary["read"], summary["failures"]), (MANY, []), read.stderr)
        self.assertEqual(self.captured(far), self.captured(near))
        self.assertEqual({path: self.store.asked[path] for path in faults}, dict(zip(faults, (3, 2, 2))))
        # The first page twice, and the second.
        self.assertEqual(self.store.asked[f"/{self.bucket}/"], 3)

    def test_what_a_store_never_gives_is_named(self) -> None:
        for name in ("good", "gone"):
            self.client.put_object(Bucket=self.bucket, Key=f"{name}.tar.gz", Body=lake.capture(name))
        self.store.faults[f"/{self.bucket}/gone.tar.gz"] = ["busy"] * 9
        read = self.hugewise("collect", f"s3://{self.bucket}", "--out", str(self.folder / "lake"), "--format", "json", *self.keys())
        [failure] = json.loads(read.stdout)["failures"]
        self.assertEqual((failure["path"], failure["class"]), (f"s3://{self.bucket}/gone.tar.gz", "unreadable"))
        self.assertIn("503, SlowDown", failure["message"])
        self.assertEqual(len(self.captured(self.folder / "lake")), 1)
        # Once it does, the next run has what was missing and nothing twice.
        self.store.faults.clear()
        self.hugewise("collect", f"s3://{self.bucket}", "--out", str(self.folder / "lake"), *self.keys())
        self.assertEqual(len(set(self.captured(self.folder / "lake"))), 2)
        self.assertEqual(len(self.captured(self.folder / "lake")), 2)

    def test_keys_that_are_wrong_are_told_apart(self) -> None:
        for keys, told in (
            (dict(secret="0ther/secret"), "aws_secret_access_key does not belong to aws_access_key_id"),
            (dict(key="AKIDOTHER"), "it does not know aws_access_key_id"),
            (dict(region="us-west-2"), "set `region`"),
        ):
            with self.subTest(told=told):
                sent = self.hugewise("capture", "--root", str(HOST), "--to", f"s3://{self.bucket}", *self.keys(**keys))
                self.assertEqual(sent.returncode, 2)
                self.assertIn(told, sent.stderr)
                self.assertNotIn(keys.get("secret", store.SECRET), sent.stderr + sent.stdout)
                out = str(self.folder / f"lake-{len(told)}")
                read = self.hugewise("collect", f"s3://{self.bucket}", "--out", out, "--format", "json", *self.keys(**keys))
                [failure] = json.loads(read.stdout)["failures"]
                self.assertIn(told, failure["message"])
        nowhere = self.hugewise("capture", "--root", str(HOST), "--to", f"s3://{self.bucket}-2", *self.keys())
        self.assertIn("no bucket of that name", nowhere.stderr)
