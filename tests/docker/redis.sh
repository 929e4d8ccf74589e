#!/bin/sh
# What the entrypoint of Redis's image does with a command, step by step. $ROOT stands for the image's root folder.
set -eu

# A configuration or an option alone is for the server.
case $1 in
-* | *.conf) set -- redis-server "$@" ;;
esac
if [ "$1" = redis-server ]; then
    # Root becomes the user redis.
    if [ "$(id -u)" = 0 ]; then
        exec setpriv --reuid redis --regid redis --clear-groups -- "$0" "$@"
    fi
    # Every module of the image is loaded, whatever the configuration loads.
    for module in "$ROOT"/usr/local/lib/redis/modules/*.so; do
        if [ -s "$module" ]; then set -- "$@" --loadmodule "$module"; fi
    done
fi
exec "$@"
