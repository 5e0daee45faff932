#!/bin/sh
# Make the virtual environment (python.sh DIRECTORY) and install this checkout into it, editable, with what development
# needs. PYTHON=… chooses the interpreter. An environment that is already there is kept if its Python is new enough.
set -eu
. "$(dirname "$0")/apt.sh"
venv=$1

# A name on PATH may be a shim that cannot run: try it.
new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

if [ -e "$venv/bin/python" ] && ! new_enough "$venv/bin/python"; then
    echo "$venv has no working Python 3.11 or newer; remove it with: rm -rf $venv" >&2
    exit 1
fi

if [ ! -e "$venv/bin/python" ]; then
    python=
    for candidate in ${PYTHON:-python3.11 python3.12 python3.13 python3}; do
        if new_enough "$candidate"; then
            python=$candidate
            break
        fi
    done
    if [ -z "$python" ]; then
        echo "Python 3.11 or newer is needed and was not found; install it with: $(apt_command python3 python3-venv)" >&2
        exit 1
    fi
    # Debian ships the venv module without ensurepip unless pythonX.Y-venv is installed.
    if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
        package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
        if ! apt_install "$package" || ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
            echo "$python cannot make virtual environments; install what it lacks with: $(apt_command "$package")" >&2
            exit 1
        fi
    fi
    echo "making $venv with $("$python" -V)"
    "$python" -m venv "$venv"
fi

"$venv/bin/python" -m pip --version >/dev/null 2>&1 || "$venv/bin/python" -m ensurepip >/dev/null  # an interrupted first try
echo "installing into $venv (PySpark alone is about 450 MB: this takes a few minutes the first time)"
# No cache: nothing is written outside the checkout and the temporary directory.
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-cache-dir -e '.[dev,docs]'
