"""slurmdbd with a database of its own, so that a throw-away cluster keeps accounts and `sacct` answers."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cluster.slurm import Cluster

BINARIES = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NEEDED = ("slurmdbd", "mariadbd", "mariadb-install-db", "mariadb")
SMALL = (
    "--no-defaults",
    "--skip-networking",
    "--innodb-buffer-pool-size=32M",
    "--innodb-log-file-size=8M",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-flush-method=nosync",
    "--innodb-doublewrite=0",
    "--innodb-lock-wait-timeout=900",  # slurmdbd asks for it
)


def accounts_can_be_kept() -> bool:
    """Whether this machine has what slurmdbd needs."""
    plugins = any(Path("/usr/lib").glob("*/slurm*/accounting_storage_mysql.so"))
    return plugins and all(shutil.which(tool, path=BINARIES) for tool in NEEDED)


class Accounts:
    """MariaDB and slurmdbd as daemons of the cluster, in its folder."""

    def __init__(self, cluster: Cluster, port: int) -> None:
        self._cluster, self._port = cluster, port
        self._folder = cluster.folder / "db"
        self._socket = self._folder / "db.sock"
        self.settings = {
            "AccountingStorageType": "accounting_storage/slurmdbd",
            "AccountingStorageHost": "127.0.0.1",
            "AccountingStoragePort": str(port),
            "AccountingStoragePass": str(cluster.munge_socket),
            "JobAcctGatherType": "jobacct_gather/linux",
            "JobAcctGatherFrequency": "task=1",
        }

    def start(self) -> None:
        """Until both answer. Raises ClusterError where one does not."""
        cluster, data = self._cluster, self._folder / "data"
        owner = "mysql" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
        data.mkdir(parents=True)
        for folder in (self._folder, data):
            shutil.chown(folder, owner)
        small = [*SMALL, f"--user={owner}", f"--datadir={data}"]
        with (cluster.folder / "log" / "mariadb-install-db.out").open("wb") as out:
            command = ["mariadb-install-db", *small, "--skip-test-db", "--auth-root-authentication-method=normal"]
            subprocess.run(command, env={"PATH": BINARIES}, stdout=out, stderr=out, check=True, timeout=120)
        cluster.spawn("mariadbd", *small, f"--socket={self._socket}", f"--pid-file={self._folder}/db.pid")
        cluster.wait_until("mariadbd", lambda: self._asked("select 1"))
        word = secrets.token_hex(8)
        self._asked(
            f"create database slurm_acct_db; create user slurm@localhost identified by '{word}';"
            "grant all on slurm_acct_db.* to slurm@localhost"
        )
        self._configure(word)
        cluster.spawn("slurmdbd", "-D", user=cluster.controller_user, more={"MYSQL_UNIX_PORT": str(self._socket)})
        log = cluster.folder / "log" / "slurmdbd.log"
        cluster.wait_until("slurmdbd", lambda: log.exists() and "slurmdbd version" in log.read_text("utf-8"))

    def _asked(self, statement: str) -> bool:
        command = ["mariadb", "--no-defaults", f"--socket={self._socket}", "-uroot", "-e", statement]
        return not subprocess.run(command, env={"PATH": BINARIES}, capture_output=True, check=False).returncode

    def _configure(self, word: str) -> None:
        settings = {
            "DbdHost": "localhost",
            "DbdAddr": "127.0.0.1",
            "DbdPort": str(self._port),
            "AuthType": "auth/munge",
            "AuthInfo": f"socket={self._cluster.munge_socket}",
            "SlurmUser": self._cluster.controller_user,
            "PidFile": f"{self._cluster.folder}/state/slurmdbd.pid",
            "LogFile": f"{self._cluster.folder}/log/slurmdbd.log",
            "StorageType": "accounting_storage/mysql",
            "StorageHost": "localhost",
            "StorageLoc": "slurm_acct_db",
            "StorageUser": "slurm",
            "StoragePass": word,
        }
        conf = self._cluster.folder / "slurmdbd.conf"
        conf.touch(mode=0o600)
        conf.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), "utf-8")
        shutil.chown(conf, self._cluster.controller_user)
