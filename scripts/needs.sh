#!/bin/sh
# Sees to it that this machine has what a target of the Makefile needs, cargo excepted.
#
#   scripts/needs.sh build|run|test|test-dashboard|matrix|packages|fuzz|memcheck|peers|instructions|lint
#
# As root on Debian or Ubuntu it installs what is missing. Otherwise it says in one line what to install.
# It never touches what is there, and it starts no service.
set -eu

target=${1:?usage: scripts/needs.sh build|run|test|test-dashboard|matrix|packages|fuzz|memcheck|peers|instructions|lint}
missing=

# need PACKAGE... -- COMMAND...: the packages are missing where the command fails.
need() {
    packages=
    while [ "$1" != -- ]; do packages="$packages $1" && shift; done
    shift
    "$@" >/dev/null 2>&1 || missing="$missing$packages"
}

can_compile() {
    printf '#include <stdio.h>\nint main(void) { return 0; }\n' | gcc -x c -o /dev/null -
}

# libclang and the headers of its own, which bindgen reads.
has_libclang() {
    [ -n "${LIBCLANG_PATH:-}" ] && return
    ls /usr/lib/llvm-*/lib/libclang.so || ls /usr/lib*/libclang.so
}

# The tests run Debian's Python, to which Debian's packages belong.
has_python_modules() {
    /usr/bin/python3 -c 'import redis, msgpack'
}

# Debian's npm would bring Debian's Node with it, over one that is here from elsewhere.
say_where_npm_is_from() {
    if command -v node >/dev/null && ! command -v npm >/dev/null; then
        echo 'npm is missing: install it from where node comes from' >&2
    fi
}

# libFuzzer is written in C++.
can_compile_cpp() {
    printf '#include <vector>\nint main() { return 0; }\n' | g++ -x c++ -o /dev/null -
}

# A venv for Python's packages, of the Python that benches/peers/install.rs and scripts/memcheck.sh take.
can_make_venv() {
    /usr/bin/python3 -c 'import ensurepip, venv'
}

install() {
    echo "Installing:$missing"
    # Debian starts a service as soon as its package is installed, unless a policy forbids it.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        trap 'rm -f "$policy"' EXIT
        trap 'exit 1' HUP INT TERM
        printf '#!/bin/sh\ncase $1 in redis* | beanstalkd*) exit 101 ;; esac\n' >"$policy"
        chmod 755 "$policy"
    fi
    export DEBIAN_FRONTEND=noninteractive
    apt-get -q update || echo 'apt-get update failed; going on with the package lists as they are' >&2
    # shellcheck disable=SC2086 # one word a package
    apt-get -q install -y --no-install-recommends $missing </dev/null
}

if ! command -v cargo >/dev/null; then
    echo 'cargo is missing: install Rust 1.88 or later with rustup, https://rustup.rs' >&2
    exit 1
fi
need gcc libc6-dev -- can_compile
need libclang-dev -- has_libclang
case $target in
run)
    server=${REDIS_SERVER:-redis-server}
    need redis-server -- command -v "${server%% *}"
    ;;
test)
    server=${DQ_TEST_SERVER:-redis-server}
    need redis-server -- command -v "${server%% *}"
    need python3 python3-redis python3-msgpack -- has_python_modules
    # For the YAML in the documents.
    need python3-yaml -- /usr/bin/python3 -c 'import yaml'
    # A language of examples/ that is not here is left out of the tests, unless it is demanded.
    case " ${DQ_TEST_LANGUAGES:-} " in *" python "*) need python3-venv -- can_make_venv ;; esac
    case " ${DQ_TEST_LANGUAGES:-} " in *" node "*)
        need nodejs npm -- command -v node
        say_where_npm_is_from
        ;;
    esac
    ;;
test-dashboard)
    server=${DQ_TEST_SERVER:-redis-server}
    need redis-server -- command -v "${server%% *}"
    need chromium -- command -v "${DQ_CHROMIUM:-chromium}"
    ;;
matrix)
    # Not for its server, but for the libraries that those of Debian 12 stand on.
    need redis-server -- command -v redis-server
    need python3 python3-redis python3-msgpack -- has_python_modules
    need python3-pip -- /usr/bin/python3 -m pip --version
    ;;
peers)
    need nodejs npm -- command -v node
    say_where_npm_is_from
    need beanstalkd -- command -v beanstalkd
    need python3-venv -- can_make_venv
    ;;
packages)
    need debootstrap -- command -v debootstrap
    need redis-server redis-tools -- command -v redis-server
    ;;
instructions)
    server=${REDIS_SERVER:-redis-server}
    need redis-server -- command -v "${server%% *}"
    need valgrind -- command -v valgrind
    need python3 -- command -v python3
    ;;
fuzz)
    need g++ -- can_compile_cpp
    ;;
memcheck)
    need valgrind -- command -v valgrind
    need python3 python3-redis python3-msgpack -- has_python_modules
    need python3-venv -- can_make_venv
    ;;
lint)
    if ! { cargo fmt --version && cargo clippy --version; } >/dev/null 2>&1; then
        command -v rustup >/dev/null || { echo 'rustfmt and clippy are missing: install them' >&2 && exit 1; }
        rustup component add rustfmt clippy
    fi
    ;;
esac

if [ -z "$missing" ]; then
    exit 0
fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "Missing here, by their names in Debian; install them first: apt-get install$missing" >&2
    exit 1
fi
install
