#!/bin/sh
# See that redis-server and PostgreSQL are there, for the tests of the databases that hold committed values, RabbitMQ,
# beanstalkd, NATS and Mosquitto for those of connectors, Prometheus for those of metrics and alerts, Chromium for those of
# the web UI, with the typeface of its pictures, and ip for those of machines that are network namespaces. Installs them from Debian's packages where it may; otherwise says so in one
# sentence, and these tests are skipped: status 0.
set -eu
. "$(dirname "$0")/apt.sh"

# Debian keeps PostgreSQL's programs off PATH, by version.
has_postgres() {
    for initdb in "${POSTGRESQL_LIB:-/usr/lib/postgresql}"/*/bin/initdb; do
        [ -x "$initdb" ] && return 0
    done
    command -v initdb >/dev/null 2>&1
}

missing=
command -v redis-server >/dev/null 2>&1 || missing="$missing redis-server"
[ -x /usr/sbin/rabbitmq-server ] || command -v rabbitmq-server >/dev/null 2>&1 || missing="$missing rabbitmq-server"
command -v beanstalkd >/dev/null 2>&1 || [ -x /usr/bin/beanstalkd ] || missing="$missing beanstalkd"
[ -x /usr/sbin/nats-server ] || command -v nats-server >/dev/null 2>&1 || missing="$missing nats-server"
[ -x /usr/sbin/mosquitto ] || command -v mosquitto >/dev/null 2>&1 || missing="$missing mosquitto"
has_postgres || missing="$missing postgresql"
command -v prometheus >/dev/null 2>&1 && command -v promtool >/dev/null 2>&1 || missing="$missing prometheus"
[ -x "${TUPLETREE_CHROMIUM:-}" ] || command -v chromium >/dev/null 2>&1 || missing="$missing chromium fonts-inter"
command -v ip >/dev/null 2>&1 || missing="$missing iproute2"
[ -n "$missing" ] || exit 0
# shellcheck disable=SC2086 # one word for each package
if ! apt_install $missing; then
    echo "not installed:$missing. The tests that need it are skipped; install it with: $(apt_command $missing)" >&2
fi
