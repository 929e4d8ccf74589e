#!/bin/sh
# What the entrypoint of Valkey's image does with a command, step by step. $ROOT stands for the image's root folder.
set -eu

# A configuration or an option alone is for the server.
case $1 in
-* | *.conf) set -- valkey-server "$@" ;;
esac
# Root gives the data folder away and becomes the user valkey, but only for a command of this very name.
if [ "$1" = valkey-server ] && [ "$(id -u)" = 0 ]; then
    exec setpriv --reuid=valkey --regid=valkey --clear-groups -- "$0" "$@"
fi
exec "$@"
