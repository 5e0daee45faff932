#!/bin/sh
# See that Java 17 or newer is there, for the embedded ZooKeeper and for Spark. Installs it from Debian's packages where
# it may; otherwise ends with one sentence and status 1.
set -eu
. "$(dirname "$0")/apt.sh"

# The major version of the java that the cluster would use (JAVA_HOME first, then PATH); 0 if there is none.
java_major() {
    java=java
    if [ -n "${JAVA_HOME:-}" ] && [ -x "$JAVA_HOME/bin/java" ]; then
        java=$JAVA_HOME/bin/java
    fi
    major=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9][0-9]*\).*/\1/p' | head -n 1) || true
    echo "${major:-0}"
}

found=$(java_major)
[ "$found" -ge 17 ] && exit 0
if apt_install openjdk-17-jre-headless || apt_install default-jre-headless; then
    found=$(java_major)
    [ "$found" -ge 17 ] && exit 0
fi
if [ "$found" -gt 0 ]; then
    echo "Java 17 or newer is needed and this machine uses Java $found; install it with: $(apt_command openjdk-17-jre-headless), or point JAVA_HOME at it." >&2
else
    echo "Java 17 or newer is needed and was not found; install it with: $(apt_command openjdk-17-jre-headless)" >&2
fi
exit 1
