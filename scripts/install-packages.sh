#!/usr/bin/env bash
# install-packages.sh LIST...: installs the Debian packages that the lists name (one a line) and the
# system lacks. Calls apt-get only when something is missing.
set -euo pipefail

missing=()
while read -r package; do
  [ -n "$package" ] || continue
  state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing+=("$package")
done < <(cat -- "$@")
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "missing packages, and neither root nor sudo to install them: ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

echo "installing: ${missing[*]}" >&2
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-install-recommends "${missing[@]}"
