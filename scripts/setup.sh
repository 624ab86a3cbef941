#!/usr/bin/env bash
# Installs the Debian packages that are missing; does nothing when none is.
#   scripts/setup.sh [lint] [bench] [python]     groups besides packages.txt: packages_<group>.txt
# As root it installs; otherwise it says what is missing and how to install it, and fails.
set -euo pipefail
scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

lists=("$scripts/packages.txt")
for group in "$@"; do
  lists+=("$scripts/packages_$group.txt")
  if [ ! -f "${lists[-1]}" ]; then
    echo "[setup] unknown group '$group', wants lint, bench or python" >&2
    exit 2
  fi
done
mapfile -t wanted < <(sed -e 's/#.*//' -e 's/[[:space:]]*$//' -e '/^$/d' "${lists[@]}")

if ! command -v dpkg-query >/dev/null; then
  echo "[setup] this is no Debian system (no dpkg-query). Install by hand what these stand for: ${wanted[*]}" >&2
  exit 1
fi

# One query for all packages, so that a second run takes no time.
installed=$(dpkg-query --show --showformat '${Package} ${db:Status-Status}\n' "${wanted[@]}" 2>/dev/null |
  sed -n 's/ installed$//p' || true)
missing=()
for package in "${wanted[@]}"; do
  grep -qxF -- "$package" <<<"$installed" || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" -ne 0 ]; then
  echo "[setup] missing Debian packages: ${missing[*]}" >&2
  echo "[setup] install them with: sudo apt-get install ${missing[*]}" >&2
  exit 1
fi
echo "[setup] installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null
