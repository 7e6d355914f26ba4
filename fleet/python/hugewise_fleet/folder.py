"""A folder that Spark's driver reaches, wherever it is: on disks, in HDFS, in an object store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .tables import LakeError


class Folder:
    """What Hadoop does with a path, with the keys and settings that Spark has for it."""

    def __init__(self, spark: Any, path: str) -> None:
        self.path = path
        self._java = spark._jvm
        self._files = self._at().getFileSystem(spark._jsc.hadoopConfiguration())

    def names(self) -> list[str]:
        """Files and folders in it, without those that Hadoop hides."""
        names = (each.getPath().getName() for each in self._files.listStatus(self._at()))
        return sorted(name for name in names if not name.startswith(("_", ".")))

    def fetch(self, name: str, to: Path) -> None:
        """Copies one of its files to this machine."""
        # Without a file of checksums beside it.
        self._files.copyToLocalFile(False, self._at(name), self._here(to), True)

    def put(self, file: Path, name: str, staging: Folder) -> None:
        """Moves a file of this machine to a name that is new. Readers see all of it there, or nothing."""
        to = self._at(name)
        # An object is in its place once it is whole, and never before; to rename it would copy it.
        if self._files.getScheme() == "s3a":
            self._write(file, to)
            return
        whole = staging._at(file.name)
        self._write(file, whole)
        self._files.mkdirs(to.getParent())
        if not self._files.rename(whole, to):
            raise LakeError(f"{to} cannot be written")

    def _write(self, file: Path, to: Any) -> None:
        read, write = self._java.java.io.FileInputStream(str(file)), self._files.create(to, False)
        try:
            self._java.org.apache.hadoop.io.IOUtils.copyBytes(read, write, 1 << 16, False)
        finally:
            read.close()
        # This is what makes an object of it: nothing may close it that is not whole.
        write.close()

    def remove(self) -> None:
        """Removes it with all that it has."""
        self._files.delete(self._at(), True)

    def _at(self, name: str = "") -> Any:
        return self._java.org.apache.hadoop.fs.Path(f"{self.path}/{name}" if name else self.path)

    def _here(self, file: Path) -> Any:
        return self._java.org.apache.hadoop.fs.Path(file.as_uri())
