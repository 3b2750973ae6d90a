"""WordPress and MediaWiki of Debian's packages: installed by their own installers, and served by PHP's web server on loopback.

Nothing of them is changed but the word InnoDB in the copy of MediaWiki's installer, which names the engine of its tables. WordPress takes
the server's default engine. Each check below is a test; the same ones run on each engine. Costs half a minute an engine.

Needs the commands apt-get, dpkg-deb and php with its modules for mysql, mbstring, xml and intl.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Callable, Iterator

from server import Server, rows, run  # pylint: disable=import-error

MODULES = {"mysqli", "mbstring", "xml", "intl"}
PACKAGES = {"wordpress": ["wordpress", "wordpress-theme-twentytwentythree"], "mediawiki": ["mediawiki", "mediawiki-classes"]}
# MediaWiki's own choice on every engine: FULLTEXT, which Frond refuses.
OTHER_ENGINE = {"searchindex": "MyISAM"}


class SiteFailed(Exception):
    """An installer or a page says something else than expected."""


def missing() -> str:
    """What has to be installed first, or nothing."""
    if not shutil.which("php"):
        return "php is not installed: run scripts/setup.sh apps"
    found = set(subprocess.run(["php", "-m"], check=True, capture_output=True, text=True, timeout=60).stdout.lower().split())
    lacking = MODULES - found
    return f"php lacks {', '.join(sorted(lacking))}: run scripts/setup.sh apps" if lacking else ""


def unpacked(place: Path, site: str) -> Path:
    """The files of a site's packages; fetched once."""
    target = place / site
    if not target.exists():
        debs, new = place / "debs", place / f"{site}.new"
        debs.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(new, ignore_errors=True)
        for package in PACKAGES[site]:
            subprocess.run(["apt-get", "--quiet=2", "download", package], cwd=debs, check=True, timeout=600, capture_output=True)
            archive = next(debs.glob(f"{package}_*.deb"))
            subprocess.run(["dpkg-deb", "-x", str(archive), str(new)], check=True, timeout=300)
        new.rename(target)
    return target / "usr" / "share" / site


def copy(place: Path, site: str, engine: str) -> Path:
    """A directory that can be served: links to other packages' files and to /etc are left out."""
    target = place / f"{site}-{engine}"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(unpacked(place, site), target, symlinks=True)
    for path in target.rglob("*"):
        if path.is_symlink() and not path.exists():
            path.unlink()
    return target


def php(directory: Path, *arguments: str) -> str:
    done = subprocess.run(["php", "-d", "display_errors=stderr", *arguments], cwd=directory, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise SiteFailed(f"php {arguments[0]}: status {done.returncode}: {done.stdout[-800:]} {done.stderr[-800:]}")
    return done.stdout


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@contextlib.contextmanager
def served(directory: Path, port: int, log: Path) -> Iterator[str]:
    """PHP's web server, until the block ends; gives its address."""
    address = f"127.0.0.1:{port}"
    with open(log, "w", encoding="utf-8") as output, \
            subprocess.Popen(["timeout", "600", "php", "-S", address, "-t", str(directory)], stdin=subprocess.DEVNULL,
                             stdout=output, stderr=output, cwd=directory) as web:
        try:
            deadline = time.monotonic() + 20
            while True:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                    break
                if time.monotonic() > deadline or web.poll() is not None:
                    raise SiteFailed(f"PHP's web server does not answer: {log}")
                time.sleep(0.05)
            yield f"http://{address}"
        finally:
            web.terminate()


def page(url: str, form: dict[str, str] | None = None) -> str:
    """A page's text; `form` is posted."""
    data = urllib.parse.urlencode(form).encode() if form else None
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data=data), timeout=120) as answer:
            return str(answer.read().decode("utf-8", "replace"))
    except urllib.error.HTTPError as error:
        raise SiteFailed(f"{url}: {error.code}: {error.read()[-800:]!r}") from error
    except OSError as error:
        raise SiteFailed(f"{url}: {error}") from error


def shows(text: str, *expected: str) -> None:
    for words in expected:
        if words not in text:
            raise SiteFailed(f"{words!r} is not shown: {text[-300:]}")


def in_engine(server: Server, database: str, engine: str) -> None:
    """All tables of the database are the engine's, and CHECK TABLE finds nothing."""
    admin = server.connect(database)
    tables = {name.decode(): kind.decode() for name, kind in rows(
        admin, f"SELECT table_name, engine FROM information_schema.tables WHERE table_schema = '{database}'")}
    wrong = {name: kind for name, kind in tables.items() if kind != OTHER_ENGINE.get(name, engine)}
    if wrong or len(tables) < 10:
        raise SiteFailed(f"tables: {wrong or tables}")
    for name in tables:
        verdict = rows(admin, f"CHECK TABLE `{name}`")
        if verdict[-1][3] != b"OK":
            raise SiteFailed(f"CHECK TABLE {name}: {verdict}")
    admin.close()


Check = Callable[[], None]


def wordpress(server: Server, engine: str, place: Path) -> dict[str, Check]:
    directory, database, port = copy(place, "wordpress", engine), f"wordpress_{engine.lower()}", free_port()
    url = f"http://127.0.0.1:{port}"
    log = place / f"wordpress-{engine}.log"
    settings = {"DB_NAME": database, "DB_USER": "root", "DB_PASSWORD": "", "DB_HOST": f"localhost:{server.socket}",
                "DB_CHARSET": "utf8mb4", "DB_COLLATE": "", "WP_HOME": url, "WP_SITEURL": url, "AUTH_KEY": "test"}
    lines = [f"define({json.dumps(name)}, {json.dumps(value)});" for name, value in settings.items()]
    (directory / "wp-config.php").unlink(missing_ok=True)
    (directory / "wp-config.php").write_text("\n".join(
        ["<?php", *lines, "define('DISABLE_WP_CRON', true);", "define('WP_HTTP_BLOCK_EXTERNAL', true);", "$table_prefix = 'wp_';",
         "if (!defined('ABSPATH')) define('ABSPATH', __DIR__ . '/');", "require_once ABSPATH . 'wp-settings.php';", ""]), encoding="utf-8")

    def loaded(code: str, before: str = "") -> str:
        return php(directory, "-r", f"$_SERVER['HTTP_HOST'] = '127.0.0.1:{port}'; {before} require 'wp-load.php'; {code}")

    def installs() -> None:
        said = loaded("require 'wp-admin/includes/upgrade.php'; function wp_new_blog_notification(...$a) {} "
                      "$r = wp_install('A site', 'admin', 'admin@example.org', true, '', 'a-long-password'); echo 'user ', $r['user_id'];",
                      "define('WP_INSTALLING', true);")
        shows(said, "user 1")

    def front_page() -> None:
        with served(directory, port, log) as site:
            shows(page(site + "/"), "A site", "Hello world!")

    def posts_are_written_changed_found_and_deleted() -> None:
        said = loaded("""
            $ids = []; for ($i = 0; $i < 40; $i++) $ids[] = wp_insert_post(['post_title' => "Post $i", 'post_content' => "about fern $i",
                'post_status' => 'publish', 'post_author' => 1, 'post_date' => sprintf('2026-01-01 00:%02d:00', $i), 'tags_input' => ['green', "t$i"]], true);
            foreach ($ids as $id) if (is_wp_error($id)) exit($id->get_error_message());
            wp_update_post(['ID' => $ids[7], 'post_title' => 'Changed title']); wp_delete_post($ids[8], true); echo 'posts ', count($ids);""")
        shows(said, "posts 40")
        with served(directory, port, log) as site:
            shows(page(site + "/?s=fern+7"), "Changed title")
            found = json.loads(page(site + "/?rest_route=/wp/v2/posts&per_page=50&search=fern"))
            if len(found) != 39:
                raise SiteFailed(f"{len(found)} posts are found")
            shows(page(site + "/?tag=green"), "Post 39")

    def comments_by_the_form() -> None:
        with served(directory, port, log) as site:
            page(site + "/wp-comments-post.php", {"author": "Ann", "email": "ann@example.org", "comment": "A comment \U0001f33f", "comment_post_ID": "1"})
        admin = server.connect(database)
        found = rows(admin, "SELECT comment_content FROM wp_comments WHERE comment_author = 'Ann'")
        admin.close()
        if [text for text, in found] != ["A comment \U0001f33f".encode()]:
            raise SiteFailed(f"comments: {found}")

    def logs_in() -> None:
        with served(directory, port, log) as site:
            opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
            opener.open(site + "/wp-login.php", timeout=120).read()
            form = {"log": "admin", "pwd": "a-long-password", "redirect_to": site + "/wp-admin/edit.php", "testcookie": "1"}
            answer = opener.open(site + "/wp-login.php", urllib.parse.urlencode(form).encode(), timeout=120)
            shows(answer.read().decode("utf-8", "replace"), "Post 39")

    checks = [installs, front_page, posts_are_written_changed_found_and_deleted, comments_by_the_form, logs_in]
    return {**{check.__name__: check for check in checks}, "tables": lambda: in_engine(server, database, engine)}


def mediawiki(server: Server, engine: str, place: Path) -> dict[str, Check]:
    directory, database, port = copy(place, "mediawiki", engine), f"mediawiki_{engine.lower()}", free_port()
    url = f"http://127.0.0.1:{port}"
    log = place / f"mediawiki-{engine}.log"
    installer = directory / "includes" / "installer" / "MysqlInstaller.php"
    installer.write_text(installer.read_text(encoding="utf-8").replace("'InnoDB'", f"'{engine}'"), encoding="utf-8")

    def installs() -> None:
        said = php(directory, "maintenance/install.php", "--dbtype=mysql", f"--dbserver=localhost:{server.socket}", f"--dbname={database}",
                   "--dbuser=root", "--dbpass=", "--installdbuser=root", "--installdbpass=", f"--server={url}", "--scriptpath=",
                   "--pass=a-long-password", f"--confpath={directory}", "A wiki", "Admin")
        if not (directory / "LocalSettings.php").exists():
            raise SiteFailed(said[-1500:])

    def edit(title: str, text: str) -> None:
        done = subprocess.run(["php", "maintenance/edit.php", "--user=Admin", "--summary=test", title], cwd=directory, input=text, text=True,
                              capture_output=True, timeout=120, check=False)
        if done.returncode:
            raise SiteFailed(f"edit: {done.stdout[-500:]} {done.stderr[-500:]}")

    def main_page() -> None:
        with served(directory, port, log) as site:
            shows(page(site + "/index.php?title=Main_Page"), "A wiki", "MediaWiki")

    def pages_are_written_changed_and_found() -> None:
        edit("Fern", "A fern is a plant. [[Moss]] [[Category:Plants]]")
        edit("Moss", "Moss is another one. [[Fern]]")
        edit("Fern", "A fern is a vascular plant. [[Moss]] [[Category:Plants]]")
        php(directory, "maintenance/runJobs.php")
        php(directory, "maintenance/rebuildtextindex.php")
        with served(directory, port, log) as site:
            shows(page(site + "/index.php?title=Fern"), "A fern is a vascular plant.")
            shows(page(site + "/index.php?title=Fern&action=history"), "test")
            shows(page(site + "/index.php?title=Special:WhatLinksHere/Moss"), "Fern")
            shows(page(site + "/index.php?title=Category:Plants"), "Fern")
            shows(page(site + "/api.php?action=query&list=search&srsearch=vascular&srwhat=text&format=json"), '"title":"Fern"')
            shows(page(site + "/index.php?title=Special:RecentChanges"), "Moss")

    def updates_itself() -> None:
        shows(php(directory, "maintenance/update.php", "--quick"), "Done in")

    checks = [installs, main_page, pages_are_written_changed_and_found, updates_itself]
    return {**{check.__name__: check for check in checks}, "tables": lambda: in_engine(server, database, engine)}


SITES = {"wordpress": wordpress, "mediawiki": mediawiki}


def check(site: str, server: Server, engine: str, place: Path) -> tuple[set[str], dict[str, str]]:
    """The names of the checks that passed, and what the others said."""
    database = f"{site}_{engine.lower()}"
    admin = server.connect()
    run(admin, f"DROP DATABASE IF EXISTS {database}")
    run(admin, f"CREATE DATABASE {database} CHARACTER SET utf8mb4")
    admin.close()
    passed, failed = set(), {}
    for name, one in SITES[site](server, engine, place).items():
        try:
            one()
            passed.add(name)
        except (SiteFailed, subprocess.SubprocessError, urllib.error.URLError) as error:
            failed[name] = str(error)
    return passed, failed
