# Sourced by the scripts beside it: install Debian packages where we may.
#
#   apt_install PACKAGE…   status 0 if apt installed them; 1 if there is no apt, no permission, or apt failed
#   apt_command PACKAGE…   the command a person would type

apt_install() {
    command -v apt-get >/dev/null 2>&1 || return 1
    as_root=
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null || return 1
        as_root="sudo -n"
    fi
    echo "installing $* from Debian's packages"
    forbid_services
    apt_get_install "$@" && status=0 || status=$?
    allow_services
    return $status
}

# What is installed here is for tests, which start it themselves: no package may leave a service running.
forbid_services() {
    forbidden=
    [ -e /usr/sbin/policy-rc.d ] && return 0
    printf '#!/bin/sh\nexit 101\n' | $as_root tee /usr/sbin/policy-rc.d >/dev/null && forbidden=1
    $as_root chmod +x /usr/sbin/policy-rc.d
}

allow_services() {
    [ -z "$forbidden" ] || $as_root rm -f /usr/sbin/policy-rc.d
}

apt_get_install() {
    # A fresh image has no package lists; a machine that is just booting may hold the lock for a while.
    set -- -qq -y -o DPkg::Lock::Timeout=120 --no-install-recommends "$@"
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install "$@" >/dev/null 2>&1 && return 0
    $as_root apt-get update -qq >/dev/null 2>&1 || return 1
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install "$@" >/dev/null
}

apt_command() {
    echo "sudo apt-get update && sudo apt-get install -y $*"
}
