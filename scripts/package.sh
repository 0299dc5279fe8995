#!/usr/bin/env bash
# package.sh BUILD-DIRECTORY OUTPUT-DIRECTORY: makes a Debian package of what the build directory
# installs, and prints its path. Needs dpkg-dev. The same source and program give the same bytes.
set -euo pipefail
build=$(realpath "$1")
mkdir -p "$2"
output=$(realpath "$2")
cd "$(dirname "$0")/.."

version=$(sed -n 's/^project(quire VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
architecture=$(dpkg --print-architecture)
maintainer='The authors of Quire <quire@localhost>'
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
umask 022

DESTDIR=$root cmake --install "$build" --prefix /usr --strip >/dev/null
gzip -9n "$root/usr/share/man/man1/quire.1"
{
  printf 'quire (%s) stable; urgency=medium\n\n  * Version %s.\n\n' "$version" "$version"
  printf ' -- %s  %s\n' "$maintainer" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")"
} | gzip -9n >"$root/usr/share/doc/quire/changelog.gz"

# dpkg-shlibdeps reads a source package's control file, and looks at nothing in it.
mkdir "$work/debian"
printf 'Source: quire\n\nPackage: quire\nArchitecture: any\n' >"$work/debian/control"
depends=$(cd "$work" && dpkg-shlibdeps -O root/usr/bin/quire 2>/dev/null)
depends=${depends#shlibs:Depends=}

mkdir "$root/DEBIAN"
(cd "$root" && find etc usr lib -type f -print0 | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
echo /etc/quire/serve.toml >"$root/DEBIAN/conffiles"
cat >"$root/DEBIAN/control" <<EOF
Package: quire
Version: $version
Architecture: $architecture
Maintainer: $maintainer
Installed-Size: $(du -sk --apparent-size --exclude=DEBIAN "$root" | cut -f1)
Depends: $depends
Recommends: ca-certificates
Suggests: python3-pip
Section: science
Priority: optional
Description: run and serve language models, computing every prefix once
 Quire runs language models from GGUF files on ordinary processors, many
 requests at a time, and serves them as the OpenAI API has it. Keys and values
 that one request computed stand in for those of the next one with the same
 beginning, and give the same bits as computing them again.
 .
 The service quire.service starts when /etc/quire/serve.toml names a model and
 an administrator enables it.
EOF

cat >"$root/DEBIAN/postinst" <<'EOF'
#!/bin/sh
set -e
if [ "$1" = configure ] && [ -d /run/systemd/system ]; then
  systemctl daemon-reload || true
  # Only where it runs; nothing is enabled on its own.
  [ -z "$2" ] || systemctl try-restart quire.service || true
fi
EOF
cat >"$root/DEBIAN/prerm" <<'EOF'
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
  systemctl --no-reload disable --now quire.service || true
fi
EOF
cat >"$root/DEBIAN/postrm" <<'EOF'
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
  systemctl daemon-reload || true
fi
# Pulled models and packed weights of the service, whose user is a dynamic one.
if [ "$1" = purge ]; then
  rm -rf /var/cache/private/quire /var/lib/private/quire
  rm -f /var/cache/quire /var/lib/quire 2>/dev/null || true
fi
EOF
chmod 0755 "$root"/DEBIAN/{postinst,prerm,postrm}
find "$root" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +

package=$output/quire_${version}_$architecture.deb
rm -f "$output"/quire_*.deb
dpkg-deb --root-owner-group -Zxz --build "$root" "$package" >/dev/null
echo "$package"
