#!/bin/bash
# The action's `parity verify`: MODEL, DUMP, TOKENS, DENY and HTML are what action.yml says of its inputs, empty where they are
# left out; ARGUMENTS has one argument a line.
set -euo pipefail

arguments=("$MODEL")
[ -z "$DUMP" ] || arguments+=("$DUMP")
[ -z "$TOKENS" ] || arguments+=(--tokens "$TOKENS")
[ -z "$DENY" ] || arguments+=(--deny "$DENY")
[ -z "$HTML" ] || arguments+=(--html "$HTML")
while IFS= read -r argument; do
    [ -z "$argument" ] || arguments+=("$argument")
done <<< "$ARGUMENTS"
exec parity verify "${arguments[@]}"
